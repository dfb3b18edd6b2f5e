"""``subscriptions/listen``: a stream of changes, which stays open until its host or mcpx ends it.

(2026-07-28 basic/patterns/subscriptions.) A legacy host may open one as well.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcpx.errors import RemoteProtocolError
from mcpx.host.changes import Pending, say
from mcpx.spec.lists import CHANGE_FILTERS, RESOURCE_FILTER
from mcpx.spec.meta import SERVER_INFO, SUBSCRIPTION_ID
from mcpx.upstream.call import Interest
from mcpx.wire.frames import INVALID_PARAMS, NULL, encode, notification, to_raw
from mcpx.wire.raws import FALSE, TRUE, elements_of, members_of, string_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from msgspec import Raw

    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service
    from mcpx.spec.lists import ChangeKind

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


async def listen(service: Service, request: Inbound, turn: Turn) -> Raw:
    """Say all changes that the filter asks for, the acknowledgement before them; the result is the graceful end.

    Raises ``RemoteProtocolError`` (``-32602``) for a filter that is none.
    """
    limits = service.gateway.settings.limits
    asked = _read_filter(request.params.get("notifications"), limits.max_subscriptions)
    pending = Pending()
    pending.lists, pending.uris = asked.lists, asked.uris
    with service.gateway.watch(request.asker, asked, pending.note, keep=True) as watch:
        async with _open_until(turn.ending) as until:
            with trio.move_on_after(limits.list_timeout):
                await until.take(watch.settled)
            agreed = watch.granted
            watch.change(agreed)  # nothing else is watched any more, as nobody expects it
            pending.lists, pending.uris = agreed.lists, agreed.uris
            await turn.way.send(_acknowledgement(agreed, turn.id))
            # What is being said when the end comes is said whole: over HTTP nothing could follow half an event.
            while await until.take(pending.wait, turn.way.flush):
                if (key := pending.take()) is not None:
                    await turn.way.send(say(key, turn.id))
    # A client on a shared way has learnt of the end by the result; the notification is for those that wait for it.
    turn.epilogue = encode(
        notification("notifications/cancelled", {"requestId": turn.id, "reason": "mcpx ended the subscription"})
    )
    return await _end(service, request, turn.id)


class _Until:
    """Takes steps for as long as an event has not come. One task watches for it, and none is started for a step, as
    thousands of streams may take one at the same moment.
    """

    def __init__(self) -> None:
        self._over = False
        self._scope = trio.CancelScope()

    async def take(self, *steps: Callable[[], Awaitable[object]]) -> bool:
        """Take these steps one after the other; whether all were taken."""
        if self._over:
            return False
        with trio.CancelScope() as self._scope:
            for step in steps:
                await step()
            return True
        return False

    async def watch(self, event: trio.Event) -> None:
        """Wait for the event, and end the step that is being taken then."""
        await event.wait()
        self._over = True
        self._scope.cancel()


@asynccontextmanager
async def _open_until(event: trio.Event) -> AsyncGenerator[_Until]:
    async with trio.open_nursery() as nursery:
        until = _Until()
        nursery.start_soon(until.watch, event)
        yield until
        nursery.cancel_scope.cancel()


async def _end(service: Service, request: Inbound, id: Raw) -> Raw:
    meta = {SUBSCRIPTION_ID: id}
    if not request.modern:
        return to_raw({"_meta": meta})
    info = await service.server_info(request)
    return to_raw({"resultType": "complete", "_meta": {SERVER_INFO: info, **meta}})


def _acknowledgement(agreed: Interest, id: Raw) -> bytes:
    told: dict[str, Any] = {name: True for name, kind in CHANGE_FILTERS.items() if kind in agreed.lists}
    if agreed.uris:
        told[RESOURCE_FILTER] = sorted(agreed.uris)
    return encode(notification(ACKNOWLEDGED, {"_meta": {SUBSCRIPTION_ID: id}, "notifications": told}))


def _read_filter(raw: Raw | None, limit: int) -> Interest:
    """The filter of a request, of which the acknowledgement leaves out what is over the ``limit``, or unknown."""
    members = members_of(raw)
    if members is None:
        raise _wrong("notifications", "an object")
    lists: frozenset[ChangeKind] = frozenset(
        kind for name, kind in CHANGE_FILTERS.items() if _flag(name, members.get(name))
    )
    named = members.get(RESOURCE_FILTER)
    if named is None or named == NULL:
        return Interest(lists)
    elements = elements_of(named)
    uris = [] if elements is None else [string_of(element) for element in elements]
    if elements is None or None in uris:
        raise _wrong(f"notifications.{RESOURCE_FILTER}", "an array of strings")
    kept = list(dict.fromkeys(uri for uri in uris if uri is not None))[:limit]
    return Interest(lists, frozenset(kept))


def _flag(name: str, raw: Raw | None) -> bool:
    if raw not in (None, NULL, TRUE, FALSE):
        raise _wrong(f"notifications.{name}", "true or false")
    return raw == TRUE


def _wrong(what: str, expected: str) -> RemoteProtocolError:
    return RemoteProtocolError(INVALID_PARAMS, f"Invalid params: {what} must be {expected}")
