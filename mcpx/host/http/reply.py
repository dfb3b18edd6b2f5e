"""The answer to one HTTP request of MCP: one JSON body, or a stream of events once there is more to say.

(2026-07-28 basic/transports/streamable-http, Receiving Messages; 2025-03-26 to 2025-11-25 basic/transports, Sending
Messages to the Server.)
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import trio

from mcpx.transports.crew import open_crew
from mcpx.wire.headers import accepts
from mcpx.wire.sse import COMMENT, message_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping

    from mcpx.transports.http_server import HttpResponse

OK = 200
JSON = "application/json"
EVENTS = "text/event-stream"
JSON_HEADERS: Mapping[str, str] = {"Content-Type": JSON}
TEXT_HEADERS: Mapping[str, str] = {"Content-Type": "text/plain; charset=utf-8"}
# Nobody on the way may keep an event back, or answer with an old one.
EVENT_HEADERS: Mapping[str, str] = {
    "Content-Type": EVENTS,
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}

TICK = 1.0  # seconds between two looks at who has been quiet for too long
# An answer that is not there after so many seconds becomes a stream, so that nobody on the way ends a quiet connection.
STREAM_AFTER = 1.0


@lru_cache(maxsize=64)
def forms(accept: str | None) -> tuple[bool, bool]:
    """Whether a client with this ``Accept`` header takes a stream, and whether it takes a JSON body."""
    return accepts(accept, EVENTS), accepts(accept, JSON)


class Reply:
    """What is said to one POST or GET.

    ``accept`` is its ``Accept`` header. ``begin`` is called where this becomes a stream, and gives what that begins
    with. ``since`` is when it was asked for, if that was not just now.
    """

    def __init__(
        self,
        response: HttpResponse,
        accept: str | None,
        begin: Callable[[], bytes] = bytes,
        *,
        since: float | None = None,
    ) -> None:
        self._response = response
        self._begin = begin
        self._streams, self._json = forms(accept)
        self._opened = False
        self._closed = False
        self._gone = False
        self._beating = False
        self._lock = trio.Lock()  # one write at a time, and none after the last
        self._quiet_since = trio.current_time() if since is None else since

    @property
    def acceptable(self) -> bool:
        """Whether the client takes an answer in one of the two forms."""
        return self._streams or self._json

    @property
    def streams(self) -> bool:
        """Whether the client takes a stream."""
        return self._streams

    @property
    def gone(self) -> bool:
        """Whether the client was found to have gone."""
        return self._gone

    async def open(self) -> None:
        """Begin the stream at once."""
        async with self._lock:
            await self._write(COMMENT)

    async def say(self, event: bytes) -> None:
        """Write an event; a client that takes no streams goes without, and one that has gone hears nothing."""
        if self._streams:
            async with self._lock:
                await self._write(event)

    async def finish(
        self,
        message: bytes,
        event: Callable[[], bytes] | None = None,
        *,
        status: int = OK,
        headers: Mapping[str, str] = {},
    ) -> None:
        """Say the last thing: ``message`` as a JSON body, or as an event where a stream is open or asked for.

        ``event`` makes that, where it is not just the message; an answer may be large, so it is not made in vain. What
        has a status of its own can only be said as a body, whatever the client would rather have.
        """
        async with self._lock:
            self._closed = True
            if self._opened or not (self._json or status != OK):
                await self._write(message_event(message) if event is None else event(), headers)
            else:
                await self._send(status, message, {**JSON_HEADERS, **headers})

    async def pause(self, event: bytes) -> None:
        """Say an event, and no more on this connection; the client is to come back."""
        async with self._lock:
            self._closed = True
            await self._write(event)

    async def finish_empty(self) -> None:
        """There is nothing to say, as the request was cancelled: a stream without a message, where one can be had."""
        async with self._lock:
            self._closed = True
            if self._opened:
                return
            if self._streams:
                self._begin = bytes  # nobody is to come back for more
                await self._write(COMMENT)
            else:
                await self._send(202, b"", {})

    def is_due(self, now: float, keep_alive: float) -> bool:
        """Whether it has been quiet for so long that something must be said to keep the connection."""
        if not self._streams or self._closed or self._beating:
            return False
        return now - self._quiet_since >= (keep_alive if self._opened else min(STREAM_AFTER, keep_alive))

    async def beat(self) -> None:
        """Say nothing, in so many words."""
        self._beating = True
        try:
            async with self._lock:
                if not self._closed:
                    await self._write(COMMENT)
        finally:
            self._beating = False

    async def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            await self._response.send(status, body, headers)
        except trio.BrokenResourceError:
            self._gone = True  # whoever watches the connection ends this

    async def _write(self, data: bytes, headers: Mapping[str, str] = {}) -> None:
        # A write that is cut leaves the client amidst something, and the connection of no use. So a cancellation that
        # has come already, which may be that of this request alone, is not to reach into it.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._quiet_since = trio.current_time()
        try:
            if not self._opened:
                self._opened = True
                await self._response.open_stream(OK, {**EVENT_HEADERS, **headers})
                data = self._begin() + data
                await trio.lowlevel.checkpoint_if_cancelled()
            await self._response.write(data)
        except trio.BrokenResourceError:
            self._gone = True  # likewise
            self._streams = False


class Events:
    """A reply as the way of one request, whose notifications are events of it; see ``mcpx.host.inbound.Way``."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def send(self, message: bytes) -> None:
        """Write one, waiting while the client does not read."""
        await self._reply.say(message_event(message))

    def offer(self, message: bytes) -> bool:
        """Nothing is written at once: a client may take its time."""
        return False

    async def flush(self) -> None:
        """What was written has been taken already."""
        await trio.lowlevel.checkpoint_if_cancelled()


class Pulse:
    """Keeps quiet streams alive. Open it with ``open_pulse``."""

    def __init__(self, nursery: trio.Nursery, keep_alive: float) -> None:
        self._nursery = nursery
        self._keep_alive = keep_alive
        self._replies: dict[Reply, None] = {}
        self._some = trio.Event()

    @contextmanager
    def keeping(self, reply: Reply) -> Generator[None]:
        """Keep this one alive while entered."""
        self._replies[reply] = None
        self._some.set()
        try:
            yield
        finally:
            del self._replies[reply]

    async def run(self) -> None:
        """Look at them all, now and then, while there are any. A client that does not read holds up its own alone."""
        while True:
            await self._some.wait()
            await trio.sleep(TICK)
            now = trio.current_time()
            for reply in self._replies:
                if reply.is_due(now, self._keep_alive):
                    self._nursery.start_soon(reply.beat)
            if not self._replies:
                self._some = trio.Event()


@asynccontextmanager
async def open_pulse(keep_alive: float) -> AsyncGenerator[Pulse]:
    """Open what keeps streams alive: a comment after the first second, and one whenever ``keep_alive`` seconds pass."""
    async with open_crew() as crew:
        pulse = Pulse(crew, keep_alive)
        crew.start_soon(pulse.run)
        yield pulse
