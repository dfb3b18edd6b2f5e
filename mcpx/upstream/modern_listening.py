"""How a modern server's changes are heard of: one stream that asks for all that anybody wants.

It is widened and narrowed by opening another one and, once the server has acknowledged that, cancelling the one before,
so that no change falls between the two (2026-07-28 basic/patterns/subscriptions).
"""

from __future__ import annotations

import logging
import random
from math import inf
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamError, UpstreamUnanswered
from mcpx.spec import meta
from mcpx.spec.lists import CHANGE_FILTERS, RESOURCE_FILTER, RESOURCE_UPDATED
from mcpx.upstream.backoff import HEALTHY, restart_delay
from mcpx.upstream.call import Interest, Request
from mcpx.upstream.clock import CallClock
from mcpx.upstream.listening import AGREE_LIMIT, LISTENER, Listening, shown
from mcpx.upstream.pending import PendingCall
from mcpx.wire import frames
from mcpx.wire.raws import TRUE, elements_of, members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.upstream.call import News
    from mcpx.upstream.session import Session

log = logging.getLogger("mcpx.upstream")

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

# Errors in a row before it is given up to find out which URIs a server means: enough to single one out of thousands.
MAX_ERRORS = 16
ALL = 1 << 30  # more URIs than anybody wants
# Statuses below 500 that say nothing about the request itself, so that it is made again.
_PASSING = frozenset({408, 425, 429})


class _Stream:
    """One ``subscriptions/listen``, from its sending to its end."""

    def __init__(self, asked: Interest) -> None:
        self.asked = asked
        self.agreed = asked  # until the server has said what of it it agrees to
        self.acknowledged = False
        self.settled = trio.Event()  # acknowledged, or ended
        self.ended = False
        self.error: RpcError | UpstreamError | None = None  # what ended it; None: a result
        self.began = trio.current_time()
        self.call: PendingCall | None = None
        self.scope = trio.CancelScope()

    @property
    def is_in_flight(self) -> bool:
        """Whether it was sent and has not ended."""
        return self.call is not None and self.call.id is not None and not self.ended

    @property
    def is_refused(self) -> bool:
        """Whether the server has answered that it does not do this, before it did any of it."""
        if isinstance(self.error, UpstreamUnanswered):
            status = self.error.status
            return status is not None and status not in _PASSING and (400 <= status < 500 or status == 501)
        return isinstance(self.error, RpcError) and not self.acknowledged

    @property
    def why(self) -> str:
        """How it ended, in words."""
        if isinstance(self.error, RpcError):
            return f"the server answered with the error {self.error.code} {self.error.message}"
        return "the server ended it" if self.error is None else self.error.reason


class ModernListening(Listening):
    """See ``Listening``."""

    def __init__(self, session: Session, heard: Callable[[News], None]) -> None:
        super().__init__(session, heard)
        self._nursery: trio.Nursery
        self._stream: _Stream | None = None  # the one that counts
        self._next: _Stream | None = None  # not acknowledged yet
        self._lost = False  # a stream ended, and no other has taken its place since
        self._failures = 0  # in a row
        self._retry_at = 0.0
        # A URI that the server refuses would take all others with it. So it is not asked again for those that are
        # found to be the reason, and where it is not clear which of several are, for fewer and fewer at a time.
        self._proved: frozenset[str] = frozenset()  # URIs that it did not mind
        self._refused: frozenset[str] = frozenset()
        self._stride = ALL  # of others, how many are asked for at a time
        self._errors = 0  # in a row

    @property
    def streams(self) -> int:
        return sum(one is not None and one.is_in_flight for one in (self._stream, self._next))

    # -- what comes in

    def notified(self, method: str, params: dict[str, Raw]) -> None:
        subscription = (members_of(params.get("_meta")) or {}).get(meta.SUBSCRIPTION_ID)
        stream = self._named(subscription)
        if method == ACKNOWLEDGED and stream is not None:
            self._acknowledged(stream, params)
        elif method == RESOURCE_UPDATED and stream is not None:
            self._updated(params)

    def _named(self, subscription: Raw | None) -> _Stream | None:
        """The stream that a frame belongs to. One that names none can only be of the one that there is."""
        streams = [one for one in (self._next, self._stream) if one is not None and not one.ended]
        if subscription is None:
            return streams[0] if streams else None
        call = self._session.connection.find(subscription)
        return next((one for one in streams if one.call is call is not None), None)

    def _acknowledged(self, stream: _Stream, params: dict[str, Raw]) -> None:
        granted = members_of(params.get("notifications"))
        if granted is not None:
            uris = map(string_of, elements_of(granted.get(RESOURCE_FILTER)) or ())
            stream.agreed = stream.asked & Interest(
                frozenset(kind for field, kind in CHANGE_FILTERS.items() if granted.get(field) == TRUE),
                frozenset(uri for uri in uris if uri is not None),
            )
        stream.acknowledged = True
        stream.settled.set()
        if stream is self._stream:  # which was late to say it
            self._adopt(stream)

    # -- which stream there is to be

    async def _run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            while not self._session.connection.closed.is_set():
                if self._stream is not None and self._stream.ended:
                    self._dropped(self._stream)
                goal = self._goal()
                asked = Interest() if self._stream is None else self._stream.asked
                if goal == asked:  # nothing is left to find out
                    self._errors, self._stride = 0, ALL
                if not goal:
                    self._leave()
                    await self._wait()
                elif goal == asked or self._given_up:
                    await self._wait()
                elif self._retry_at > trio.current_time():
                    await self._wait(self._retry_at)
                else:
                    await self._open(goal)
            await trio.sleep_forever()  # the session ends

    def _goal(self) -> Interest:
        """What to ask for: all that is wanted, as far as the server may do it."""
        possible = self._possible(self._wanted())
        self.declined &= possible  # what nobody wants any more is asked for anew when somebody does
        self._refused &= possible.uris
        known = possible.uris & self._proved
        others = possible.uris - known - self._refused
        if len(others) > self._stride:
            others = frozenset(sorted(others)[: self._stride])
        return Interest(possible.lists, known | others)

    def _leave(self) -> None:
        """Nothing is wanted any more."""
        if self._stream is not None:
            self._stream.scope.cancel()
            self._stream = None
        self._lost = False
        self.agreed = Interest()

    async def _open(self, goal: Interest) -> None:
        """Open a stream, and let it take the place of the one before once the server has acknowledged it."""
        stream = self._next = _Stream(goal)
        self._nursery.start_soon(self._run_stream, stream, name=f"listening to {self._session.server}")
        with trio.move_on_after(AGREE_LIMIT):
            await stream.settled.wait()
        self._next = None
        if stream.ended and not stream.acknowledged:
            if stream.is_refused:
                self._take_refusal(stream)
            else:
                self._take_failure(stream)
            return
        if not stream.acknowledged:
            log.warning(
                "[%s] did not acknowledge %s within %g s; it may tell its changes all the same",
                self._session.server,
                LISTEN,
                AGREE_LIMIT,
            )
        self._errors = 0
        self._stride = min(self._stride * 2, ALL)
        self._proved |= goal.uris
        before, self._stream = self._stream, stream
        lost = self._lost or (before is not None and before.ended)
        if before is not None:
            before.scope.cancel()
        self._lost = False
        self._adopt(stream)
        if lost:
            self._say(goal)

    def _adopt(self, stream: _Stream) -> None:
        self.agreed = stream.agreed
        self.declined = (stream.asked - stream.agreed) | Interest(uris=self._refused)
        self._on_settled()

    def _take_refusal(self, stream: _Stream) -> None:
        others = stream.asked.uris - self._proved
        self._errors += 1
        code = stream.error.code if isinstance(stream.error, RpcError) else None
        if not others or code in (None, frames.METHOD_NOT_FOUND):
            self._given_up = True
            log.warning(
                "[%s] is not listened to for changes until it is started again: %s",
                self._session.server,
                stream.why,
            )
        elif len(others) == 1 or self._errors >= MAX_ERRORS:
            if self._errors >= MAX_ERRORS:
                others = self._possible(self._wanted()).uris - self._proved
            self._refused |= others
            self.declined |= Interest(uris=others)
            log.warning("[%s] is not listened to for %s: %s", self._session.server, shown(others), stream.why)
        else:
            self._stride = len(others) // 2
        self._on_settled()

    def _dropped(self, stream: _Stream) -> None:
        """The stream that counted has ended."""
        self._stream = None
        self._lost = True
        self.agreed = Interest()
        self._take_failure(stream)

    def _take_failure(self, stream: _Stream) -> None:
        """Ask again after a while, which is none for a stream that was long open."""
        limits = self._session.limits
        lasted = trio.current_time() - stream.began if stream.acknowledged else 0.0
        self._failures = 1 if lasted >= HEALTHY else self._failures + 1
        delay = restart_delay(self._failures, limits.restart_backoff_step, limits.restart_backoff_max, random.random())
        self._retry_at = trio.current_time() + delay
        when = "not opened again" if self._given_up else f"opened again in {delay:.1f} s"
        log.info("[%s] %s ended: %s; %s", self._session.server, LISTEN, stream.why, when)

    # -- one stream

    async def _run_stream(self, stream: _Stream) -> None:
        """Ask, and await the end, for as long as that takes."""
        session = self._session
        request = Request(LISTEN, {"notifications": _filter(stream.asked)}, session.revision, LISTENER)
        stream.call = PendingCall(
            session.connection,
            lambda number: session.frame(number, request, request.params, progress=False),
            CallClock(inf, inf),
        )
        with stream.scope, stream.call as call:
            try:
                while not isinstance(await call.next_raw(), Raw):
                    pass  # progress, which nobody asked for
            except (RpcError, UpstreamError) as error:
                stream.error = error
        stream.ended = True
        stream.settled.set()
        self.poke()


def _filter(interest: Interest) -> Raw:
    """An interest as the specification writes it; what is not wanted is left out."""
    fields: dict[str, bool | list[str]] = {
        field: True for field, kind in CHANGE_FILTERS.items() if kind in interest.lists
    }
    if interest.uris:
        fields[RESOURCE_FILTER] = sorted(interest.uris)
    return Raw(msgspec.json.encode(fields))
