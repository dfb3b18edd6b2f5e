"""Lists as a host's revision says them.

Saying 20,000 tools in another revision is slow, so what was said is kept a while.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from mcpx.errors import RemoteProtocolError
from mcpx.host.modern import complete
from mcpx.settings import MiB
from mcpx.spec.carry import CannotSay, carry
from mcpx.spec.lists import LISTINGS
from mcpx.wire.frames import INVALID_PARAMS, NULL, to_raw
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from mcpx.gateway.gateway import Page, Part
    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service

log = logging.getLogger("mcpx.host")

KEPT = 32 * MiB  # of rendered lists, and what they were rendered from: some tens of thousands of tools
EACH = 128  # bytes that an item costs beside its own


LISTS = {listing.method: listing for listing in LISTINGS.values()}


async def list_items(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``tools/list``, ``prompts/list``, ``resources/list``, ``resources/templates/list``: one page."""
    listing = LISTS[request.method]
    page = await service.gateway.list(listing.kind, request.asker, _cursor(request.params.get("cursor")))
    result: dict[str, Any] = {listing.member: service.renderer.render(page, listing.type, request.revision)}
    if page.next_cursor is not None:
        result["nextCursor"] = page.next_cursor
    if not request.modern:
        return to_raw(result)
    return complete(result, await service.server_info(request), page.ttl_ms, page.cache_scope)


def _cursor(raw: Raw | None) -> str | None:
    """An empty string is a cursor like any other; ``null`` is how some hosts leave it out."""
    if raw is None or raw == NULL:
        return None
    cursor = string_of(raw)
    if cursor is None:
        raise RemoteProtocolError(INVALID_PARAMS, "Invalid params: the cursor must be a string")
    return cursor


class Renderer:
    """Puts the items of a page together, each as a revision says it, and keeps at most ``kept`` bytes of that.

    What is kept is found by the identity of the items, so nobody has to say when it is out of date: a list that was
    fetched anew has other items. It holds on to the items for as long, or their identities could be used again.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._room = kept
        self._rendered: OrderedDict[tuple[str, tuple[int, ...]], tuple[list[Raw], bytes]] = OrderedDict()

    def render(self, page: Page, type_name: str, revision: str) -> Raw:
        """The items of a page as one JSON array."""
        parts = [self._part(part, type_name, revision) for part in page.parts]
        return Raw(b"[" + b",".join(filter(None, parts)) + b"]")

    def _part(self, part: Part, type_name: str, revision: str) -> bytes:
        key = (revision, tuple(map(id, part.items)))
        known = self._rendered.get(key)
        if known is not None:
            self._rendered.move_to_end(key)
            return known[1]
        said: list[Raw] = []
        for item in part.items:
            try:
                said.append(carry(type_name, item, part.revision, revision))
            except CannotSay as error:  # it costs the list this item and no other
                log.info("A %s of %s is left out of a list: %s", type_name, part.server, error)
        rendered = b",".join(said)
        self._keep(key, part.items, rendered)
        return rendered

    def _keep(self, key: tuple[str, tuple[int, ...]], items: list[Raw], rendered: bytes) -> None:
        self._rendered[key] = (items, rendered)
        self._room -= _held(items, rendered)
        while self._room < 0:
            _, oldest = self._rendered.popitem(last=False)
            self._room += _held(*oldest)


def _held(items: list[Raw], rendered: bytes) -> int:
    """About how many bytes are held with what was rendered: the items themselves, and what tells that they are it."""
    return len(rendered) + sum(map(len, items)) + EACH * len(items)
