"""The gateway between the two edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from mcpx.settings import Settings
    from mcpx.upstream.call import Asker, Call, Change, Identity, ListKind, Request


class Part(msgspec.Struct, frozen=True, eq=False):
    """The items that one upstream adds to a list, with public names, otherwise as it wrote them."""

    server: str
    revision: str
    items: list[Raw]


class Page(msgspec.Struct, frozen=True, eq=False):
    """One page of a host's list."""

    parts: list[Part]
    next_cursor: str | None
    ttl_ms: int
    cache_scope: Literal["public", "private"]


class Gateway(Protocol):
    """What the host edge needs of the gateway."""

    settings: Settings
    passthrough: bool  # whether one upstream shines through: its names, instructions, identity and capabilities

    async def identity(self, asker: Asker) -> Identity:
        """What a handshake or a discovery answers with.

        At once in front of several servers: a fixed set of capabilities (modern shape, host edge narrows by revision), the
        remembered instructions, ``server_info`` None (the host edge fills in mcpx's own). In pass-through the upstream's own, as remembered, else
        once it is up (raises ``UpstreamError`` where it does not come up).
        """
        ...

    def exchange(self, request: Request) -> Call:
        """Open an exchange for ``tools/call``, ``prompts/get``, ``resources/read`` or ``completion/complete``.

        ``next`` may raise ``UnknownItem`` as well.
        """
        ...

    async def list(self, kind: ListKind, asker: Asker, cursor: str | None) -> Page:
        """One page of a merged list. Raises ``RpcError`` (``-32602``) for a cursor that mcpx never gave out."""
        ...

    def watch(self, asker: Asker, notify: Callable[[Change], None]) -> AbstractContextManager[None]:
        """Call ``notify`` (synchronously; it must not block) for each change that this asker could see, while entered.

        The changes carry public names; a list that grew because a slow server arrived late is a change as well.
        """
        ...
