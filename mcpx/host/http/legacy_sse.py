"""HTTP with server-sent events, as hosts of the first revision speak it: one stream out, a POST for each message in.

(2024-11-05 basic/transports, HTTP with SSE.) Whatever revision a host turns out to be of, it is served here as on any
duplex of messages; the stream's end is the host's.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import trio

from mcpx.host.connection import serve_channel
from mcpx.host.ending import SERVER, Ending
from mcpx.host.http.reply import EVENT_HEADERS
from mcpx.settings import KiB
from mcpx.transports.crew import open_crew
from mcpx.transports.outbox import MAX_PENDING, Outbox, Sending
from mcpx.wire.headers import media_type
from mcpx.wire.lines import BOM
from mcpx.wire.sse import COMMENT, MESSAGE, encode_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.host.service import Service
    from mcpx.transports.channel import Oversize
    from mcpx.transports.http_server import HttpRequest, HttpResponse

log = logging.getLogger("mcpx.host")

MESSAGES = "/messages"
WRITE_BATCH = 128 * KiB  # bytes; small events are joined into writes of about this size


class LegacySse:
    """The hosts that are connected in this way, by the session ids that their streams gave them."""

    def __init__(self, service: Service, ending: Ending) -> None:
        self._service = service
        self._ending = ending
        self._names = (f"sse {number}" for number in itertools.count(1))
        self._channels: dict[str, SseChannel] = {}

    async def open(self, request: HttpRequest, response: HttpResponse) -> None:
        """``GET /sse``: the stream of one host, which is served as long as it lasts."""
        session = secrets.token_urlsafe(32)
        name = next(self._names)
        await response.open_stream(200, EVENT_HEADERS)
        endpoint = encode_event(f"{MESSAGES}?sessionId={session}".encode(), event="endpoint")
        keep_alive = self._service.gateway.settings.limits.keep_alive
        try:
            async with open_sse_channel(response, endpoint, keep_alive=keep_alive) as channel:
                self._channels[session] = channel
                log.debug("Host %s: connected", name)
                await serve_channel(
                    self._service, channel, host=name, transport="sse", drain=self._drain, stop=self._ending.stop
                )
        finally:
            self._channels.pop(session, None)
            log.debug("Host %s: disconnected", name)

    async def post(self, request: HttpRequest, response: HttpResponse) -> None:
        """``POST /messages``: one message of a host, which is taken once what it sent before has been."""
        if media_type(request.headers.get("content-type")) != "application/json":
            await _say(response, 415, "Content-Type must be application/json")
            return
        sessions = parse_qs(request.query).get("sessionId", [])
        channel = self._channels.get(sessions[0]) if len(sessions) == 1 else None
        if channel is None:
            await _say(response, 404, "There is no such session: GET /sse opens one, which ends with that stream")
        elif not request.body.strip():
            await _say(response, 400, "A message is missing")
        elif await channel.put(request.body.removeprefix(BOM)):
            await _say(response, 202, "Accepted")
        else:
            await _say(response, 404, "The session has ended")

    def _drain(self) -> float:
        """How long what is owed may take: nobody can be answered whose stream has ended by itself."""
        return self._ending.drain() if self._ending.stop.is_set() else 0.0


class SseChannel(Sending):
    """A ``Channel``: events go out, and in comes what is put in. Open it with ``open_sse_channel``."""

    def __init__(self, response: HttpResponse, keep_alive: float, max_pending: int) -> None:
        super().__init__(Outbox(max_pending))
        self._response = response
        self._keep_alive = keep_alive
        # Without room of its own, so that whoever puts a message in waits until it is taken.
        self._put, self._taken = trio.open_memory_channel[bytes](0)

    async def put(self, message: bytes) -> bool:
        """Hand in a message from the host, waiting until it is taken; ``False`` where nobody takes it any more."""
        try:
            await self._put.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def receive(self) -> list[bytes | Oversize]:
        """The next message; see ``Channel``. Empty when the stream to the host has ended."""
        try:
            return [await self._taken.receive()]
        except trio.EndOfChannel:
            return []

    async def run_writer(self, first: bytes) -> None:
        """Write what is queued as events, and a comment wherever nothing was for long, until the host has gone."""
        try:
            await self._response.write(first + COMMENT)
            while True:
                more: bool | None = None
                with trio.move_on_after(self._keep_alive):
                    more = await self._outbox.wait()
                if more is None:
                    await self._response.write(COMMENT)
                elif more:
                    batch = self._outbox.take(WRITE_BATCH)
                    await self._response.write(b"".join(encode_event(one, event=MESSAGE) for one in batch))
                    self._outbox.done(sum(map(len, batch)))
                else:
                    return
        except trio.BrokenResourceError:
            self.close()

    def close(self) -> None:
        """Nothing more goes either way: the reader sees the end, and whoever puts a message in that it is not taken."""
        self._outbox.close()
        self._put.close()


@asynccontextmanager
async def open_sse_channel(
    response: HttpResponse, first: bytes, *, keep_alive: float, max_pending: int = MAX_PENDING
) -> AsyncGenerator[SseChannel]:
    """Open a channel to the host that a stream of events goes to; the response must have been opened as one.

    ``first`` is written at once, with a comment behind it: whoever stands between sees that this stream is alive.
    ``keep_alive`` is how often one more comment follows, in seconds. Leaving writes what is queued, in a bounded time.
    The writer outlives the cancellation of the body, so that farewells go out.
    """
    channel = SseChannel(response, keep_alive, max_pending)
    try:
        async with open_crew() as crew:
            crew.start_soon(channel.run_writer, first)
            try:
                yield channel
            finally:
                with trio.move_on_after(SERVER.flush, shield=True):
                    await channel.flush()
    finally:
        channel.close()


async def _say(response: HttpResponse, status: int, text: str) -> None:
    await response.send(status, f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8"})
