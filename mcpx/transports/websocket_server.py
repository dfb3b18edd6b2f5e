"""The server's end of a WebSocket: a channel to a client that has asked for one in an HTTP request. (RFC 6455.)"""

from __future__ import annotations

import binascii
from base64 import b64decode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import h11
import trio
from trio_websocket import ConnectionClosed, wrap_server_stream
from wsproto.utilities import ProtocolError

from mcpx.transports.crew import open_crew
from mcpx.transports.http_answer import Answer
from mcpx.transports.outbox import MAX_PENDING
from mcpx.transports.websocket_channel import (
    CLOSE_LIMIT,
    GOING_AWAY,
    NORMAL,
    READ_SIZE,
    SUBPROTOCOL,
    WebSocketChannel,
)
from mcpx.transports.websocket_frames import Frames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.transports.http_parse import HttpRequest

VERSION = "13"
OPENING_LIMIT = 10.0  # seconds for the handshake, of which everything that the client says is there already

_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_HERE = {"Upgrade": "websocket", "Sec-WebSocket-Version": VERSION}


def refuse_handshake(request: HttpRequest) -> Answer | None:
    """The answer to a request that opens no WebSocket; ``None`` for one that does (RFC 6455 section 4.2.1)."""
    if request.method != "GET" or not _names(request, "upgrade", "websocket"):
        return Answer(426, b"This is the address of a WebSocket.\n", {**_PLAIN, **_HERE})
    if request.headers.get("sec-websocket-version") != VERSION:
        return Answer(426, f"Of WebSocket only version {VERSION} is spoken here.\n".encode(), {**_PLAIN, **_HERE})
    if not _names(request, "connection", "upgrade"):
        return Answer(400, b"The header Connection does not name Upgrade.\n", _PLAIN)
    try:
        sound = len(b64decode(request.headers.get("sec-websocket-key", ""), validate=True)) == 16
    except (binascii.Error, ValueError):
        sound = False
    return None if sound else Answer(400, b"The header Sec-WebSocket-Key is not 16 bytes in base64.\n", _PLAIN)


def _names(request: HttpRequest, header: str, token: str) -> bool:
    """Whether a header that is a list of tokens names one."""
    return token in (one.strip().lower() for one in request.headers.get(header, "").split(","))


class ServerChannel(WebSocketChannel):
    """A ``Channel`` to a client. Open it with ``open_server_channel``."""

    takes_binary = False

    def __init__(self, stream: trio.abc.Stream, *, max_frame: int, max_pending: int) -> None:
        self._held = _HeldStream(stream)
        super().__init__(self._held, max_frame=max_frame, max_pending=max_pending)

    async def run_socket(self, settled: trio.Event) -> None:
        """Make the handshake, then read until the connection ends. ``settled`` is set when the handshake is over."""
        try:
            async with trio.open_nursery() as nursery:
                # No room for messages between the library's reader and ours, as with a client.
                request = await wrap_server_stream(
                    nursery,
                    self._held,
                    message_queue_size=0,
                    max_message_size=self._max_frame,
                    receive_buffer_size=READ_SIZE,
                )
                agreed = SUBPROTOCOL if SUBPROTOCOL in request.proposed_subprotocols else None
                self._socket = await request.accept(subprotocol=agreed)
                self._held.release()
                settled.set()
        except* (ConnectionClosed, ProtocolError, h11.ProtocolError, UnicodeError):
            pass  # the client has gone, or what it sends is no WebSocket: the reader finds the end
        finally:
            settled.set()

    @property
    def is_open(self) -> bool:
        """Whether the handshake succeeded."""
        return self._socket is not None

    async def run_pings(self, every: float, patience: float) -> None:
        """Ping the client now and then; one that does not answer for long has gone, and is given up."""
        assert self._socket is not None
        try:
            while True:
                await trio.sleep(every)
                with trio.move_on_after(patience) as waiting:
                    await self._socket.ping()
                if waiting.cancelled_caught:
                    await self.close()
                    return
        except ConnectionClosed:
            return  # the reader will say so


class _HeldStream(trio.abc.Stream):
    """A stream that gives the head of the request, and what came behind it once the handshake is over, in portions.

    A client need not wait for the answer to say more, and the library would leave that lying until still more came.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._frames = Frames()
        self._released = trio.Event()

    def release(self) -> None:
        """The handshake is over."""
        self._released.set()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._frames.in_head:
            return self._frames.take_head(bytes(await self._stream.receive_some(max_bytes)))
        await self._released.wait()
        if self._frames.waiting:
            await trio.lowlevel.checkpoint()  # for others to have their turn
        else:
            self._frames.put(bytes(await self._stream.receive_some(max_bytes)))
        return self._frames.take()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self._released.set()
        await self._stream.aclose()


@asynccontextmanager
async def open_server_channel(
    stream: trio.abc.Stream,
    *,
    max_frame: int,
    keep_alive: float,
    patience: float,
    stop: trio.Event,
    max_pending: int = MAX_PENDING,
) -> AsyncGenerator[ServerChannel | None]:
    """Open a channel over the stream of an HTTP connection that has been handed over, which becomes the channel's own.

    It begins with the request, for which ``refuse_handshake`` had nothing to say; ``None`` comes out where the client
    has gone meanwhile. A received message of more than ``max_frame`` bytes ends the connection. The client is pinged
    every ``keep_alive`` seconds, and given up where it does not answer for ``patience``. Leaving writes what is queued
    and makes the closing handshake, which says so where it is because of ``stop``, for at most ``CLOSE_LIMIT`` seconds.
    """
    channel = ServerChannel(stream, max_frame=max_frame, max_pending=max_pending)
    try:
        async with open_crew() as crew:
            settled = trio.Event()
            crew.start_soon(channel.run_socket, settled)
            with trio.move_on_after(OPENING_LIMIT):
                await settled.wait()
            if not channel.is_open:
                yield None
                return
            crew.start_soon(channel.run_writer)
            crew.start_soon(channel.run_pings, keep_alive, patience)
            try:
                yield channel
            finally:
                with trio.move_on_after(CLOSE_LIMIT, shield=True):
                    await channel.close_politely(GOING_AWAY if stop.is_set() else NORMAL)
    finally:
        await channel.close()
