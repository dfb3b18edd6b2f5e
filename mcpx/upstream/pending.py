"""A request in flight on one upstream connection: its events as they come, its limits in time, its one cancellation."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

import trio

from mcpx.errors import UpstreamTimeout
from mcpx.upstream.call import Event, LogMessage, Progress, Question

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from msgspec import Raw

    from mcpx.upstream.call import Asker
    from mcpx.upstream.clock import CallClock
    from mcpx.upstream.connection import Connection

# How well a question of a server's rides on a call: not at all on mcpx's own, on some only for legacy hosts, who can be
# asked at any time (2026-07-28 basic/patterns/mrtr, Supported Requests).
NO_HOST, LEGACY_HOST, ANY_HOST = range(3)

# Progress events kept for a host that is behind; of a longer burst only the newest survives (each one supersedes the
# last).
MAX_PROGRESS = 16
# Events kept for it in all; beyond them log messages are dropped.
MAX_EVENTS = 1024


class PendingCall:
    """One request and what the upstream says about it. See ``mcpx.upstream.call.Call`` for the contract.

    ``build(id)`` makes the frame once the id is known; the limits of ``clock`` are measured from when it was sent.
    ``cancellable=False`` is for the probe and ``initialize``, which are never cancelled on the wire. ``asker`` is the
    host whose call it is, ``None`` for one of mcpx's own. ``rank`` says how well a question of the server's rides on
    it; ``late`` is called with the key of one whose answer is overdue.
    """

    __slots__ = (
        "_build",
        "_cancellable",
        "_connection",
        "_done",
        "_events",
        "_heed",
        "_late",
        "_wake",
        "answered",
        "asker",
        "clock",
        "id",
        "rank",
    )

    def __init__(
        self,
        connection: Connection,
        build: Callable[[int], bytes],
        clock: CallClock,
        *,
        cancellable: bool = True,
        asker: Asker | None = None,
        rank: int = NO_HOST,
        late: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._build = build
        self._cancellable = cancellable
        self._late = late
        self._events: deque[Event | Raw | Exception] = deque()
        self._wake: trio.Event | None = None
        self._heed: Callable[[], None] | None = None
        self._done = False
        self.asker = asker
        self.clock = clock
        self.rank = rank
        self.id: int | None = None  # None until it was sent
        self.answered = False  # the server has answered it, with a result or an error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave it: a request that has not ended is cancelled upstream."""
        self._heed = self._late = None  # they hold on to whoever holds this
        if self.id is not None and not self._done:
            self._done = True
            self._connection.abandon(self.id, "The request was cancelled", tell=self._cancellable)

    async def send(self) -> None:
        """Send the request, waiting while the server is behind. It counts as issued from the moment its frame is
        queued, never half, and its limits count from then.
        """
        self.id = await self._connection.issue(self, self._build)
        self.clock.start()

    def send_nowait(self, heed: Callable[[], None]) -> bool:
        """Send the request at once where nothing has to be waited for; say whether it was sent.

        From then until the first ``next_raw``, ``heed`` is called for whatever comes, by the reader: it must not block.
        Nobody measures the limits meanwhile.
        """
        if not self._events:
            self.id = self._connection.issue_nowait(self, self._build)
            if self.id is not None:
                self._heed = heed
                self.clock.start()
        return self.id is not None

    def put(self, event: Event) -> None:
        """Take an event from the reader; never blocks."""
        if type(event) is Progress:
            self.clock.progress()
            if len(self._events) >= MAX_PROGRESS and type(self._events[-1]) is Progress:
                self._events.pop()
        elif type(event) is LogMessage and len(self._events) >= MAX_EVENTS:
            return
        elif type(event) is Question:
            self.clock.open(event.key)
        self._events.append(event)
        self.poke()

    def finish(self, outcome: Raw | Exception) -> None:
        """Take the end of the call from the reader: a result, or the exception to raise."""
        self._done = self.answered = True
        self._events.append(outcome)
        self.poke()

    def poke(self) -> None:
        """Look again: something has come, or the clock says something else."""
        if self._wake is not None:
            self._wake.set()
            self._wake = None
        elif self._heed is not None:
            self._heed()

    async def next_raw(self) -> Event | Raw:
        """The next event, or the result as raw JSON. Sends the request on first use, but not while a question is open
        that was put to it before.

        Raises what ended the call (``RpcError``, ``UpstreamGone``), or ``UpstreamTimeout`` after it was cancelled
        upstream, or where the server reads so little that it could not even be queued in time.
        """
        self._heed = None
        clock = self.clock
        if self.id is None:
            clock.start()
        while not self._has_news:
            with trio.move_on_at(clock.expiry):
                if self.id is None and not clock.is_asking:
                    await self.send()
                if not self._events:
                    self._wake = trio.Event()
                    await self._wake.wait()
            if self._has_news:
                break
            if clock.is_over:
                raise self._time_out()
            if self._late is not None:
                for question in clock.overdue:
                    self._late(question)
        return self._pop()

    def next_raw_nowait(self) -> Event | Raw | None:
        """The same where something has come already; ``None`` where nothing has, or where it was not sent yet."""
        return self._pop() if self._has_news else None

    @property
    def _has_news(self) -> bool:
        return len(self._events) > 0 and (self.id is not None or self.clock.is_asking)

    def _pop(self) -> Event | Raw:
        event = self._events.popleft()
        if isinstance(event, Exception):
            raise event
        return event

    def _time_out(self) -> UpstreamTimeout:
        capped = self.clock.is_capped
        limit = self.clock.total if capped else self.clock.idle
        if self.id is None:
            reason = f"The server did not read what it was sent before within {limit:g} s, so the request was not sent."
        else:
            self._done = True
            self._connection.abandon(self.id, f"Timed out after {limit:g} s", tell=self._cancellable)
            what = "did not finish within" if capped else "neither answered nor reported progress for"
            reason = (
                f"The server {what} {limit:g} s and the request was cancelled. Raise callTimeout if it needs longer."
            )
        return UpstreamTimeout(self._connection.server, reason)
