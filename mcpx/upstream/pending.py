"""A request in flight on one upstream connection: its events as they come, its limits in time, its one cancellation."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

import trio

from mcpx.errors import UpstreamTimeout
from mcpx.upstream.call import Event, Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from msgspec import Raw

    from mcpx.upstream.connection import Connection

# Progress events kept for a host that is behind; of a longer burst only the newest survives (each one supersedes the
# last).
MAX_PROGRESS = 16


class PendingCall:
    """One request and what the upstream says about it. See ``mcpx.upstream.call.Call`` for the contract.

    ``build(id)`` makes the frame once the id is known; ``idle`` and ``total`` are seconds, measured from when it was
    sent. ``cancellable=False`` is for the probe and ``initialize``, which are never cancelled on the wire.
    """

    __slots__ = (
        "_build",
        "_cancellable",
        "_connection",
        "_deadline",
        "_done",
        "_events",
        "_idle",
        "_progressed",
        "_total",
        "_wake",
        "id",
    )

    def __init__(
        self,
        connection: Connection,
        build: Callable[[int], bytes],
        *,
        idle: float,
        total: float,
        cancellable: bool = True,
    ) -> None:
        self._connection = connection
        self._build = build
        self._cancellable = cancellable
        self._idle = idle
        self._total = total
        self._events: deque[Event | Raw | Exception] = deque()
        self._wake: trio.Event | None = None
        self._done = False
        self.id: int | None = None  # None until it was sent
        self._start_clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.id is not None and not self._done:
            self._done = True
            self._connection.abandon(self.id, "The request was cancelled", tell=self._cancellable)

    async def send(self) -> None:
        """Send the request, waiting while the server is behind. It counts as issued from the moment its frame is
        queued, never half, and its limits count from then.
        """
        self.id = await self._connection.issue(self, self._build)
        self._start_clock()

    def put(self, event: Event) -> None:
        """Take an event from the reader; never blocks."""
        if type(event) is Progress:
            self._progressed = trio.current_time()
            if len(self._events) >= MAX_PROGRESS and type(self._events[-1]) is Progress:
                self._events.pop()
        self._events.append(event)
        self._notify()

    def finish(self, outcome: Raw | Exception) -> None:
        """Take the end of the call from the reader: a result, or the exception to raise."""
        self._done = True
        self._events.append(outcome)
        self._notify()

    async def next_raw(self) -> Event | Raw:
        """The next event, or the result as raw JSON. Sends the request on first use.

        Raises what ended the call (``RpcError``, ``UpstreamGone``), or ``UpstreamTimeout`` after it was cancelled
        upstream, or where the server reads so little that it could not even be queued in time.
        """
        while not self._events:
            with trio.move_on_at(self._expiry):
                if self.id is None:
                    await self.send()
                if not self._events:
                    self._wake = trio.Event()
                    await self._wake.wait()
            if not self._events and trio.current_time() >= self._expiry:
                raise self._time_out()
        event = self._events.popleft()
        if isinstance(event, Exception):
            raise event
        return event

    @property
    def _expiry(self) -> float:
        return min(self._progressed + self._idle, self._deadline)

    def _start_clock(self) -> None:
        self._progressed = now = trio.current_time()
        self._deadline = now + self._total

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def _time_out(self) -> UpstreamTimeout:
        capped = trio.current_time() >= self._deadline
        limit = self._total if capped else self._idle
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
