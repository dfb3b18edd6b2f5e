"""Messages over a WebSocket, one a text frame, as both ends of one see it.

The library frames, answers pings and makes the closing handshake. Ours are the queue and the only writer. How a
WebSocket is opened is for the ends: ``websocket`` is that of a client, ``websocket_server`` that of a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio_websocket import ConnectionClosed

from mcpx.settings import KiB
from mcpx.transports.outbox import Outbox, Sending
from mcpx.wire.lines import BOM, KEPT, Oversize

if TYPE_CHECKING:
    from trio_websocket import WebSocketConnection

SUBPROTOCOL = "mcp"
READ_SIZE = 64 * KiB
CLOSE_LIMIT = 0.5  # seconds that leaving waits for what is queued and for the closing handshake; within any exit budget

NORMAL = 1000  # the codes of RFC 6455 section 7.4.1
GOING_AWAY = 1001
UNSUPPORTED = 1003


class WebSocketChannel(Sending):
    """A ``Channel`` over a WebSocket, once there is one."""

    takes_binary = True  # whether a message in a binary frame is one as well

    def __init__(self, stream: trio.abc.Stream, *, max_frame: int, max_pending: int) -> None:
        super().__init__(Outbox(max_pending))
        self._stream = stream
        self._max_frame = max_frame
        self._socket: WebSocketConnection | None = None

    async def receive(self) -> list[bytes | Oversize]:
        """The next message; see ``Channel``. Empty when the connection has ended, however it did."""
        assert self._socket is not None
        while True:
            try:
                message = await self._socket.get_message()
            except ConnectionClosed as closed:
                self._note_end(closed)
                return []
            if isinstance(message, str):
                data = message.encode()
            elif self.takes_binary:
                data = bytes(message)
            else:
                await self._refuse_binary()
                return []
            data = data.removeprefix(BOM)
            if len(data) > self._max_frame:  # the library counts characters
                return [Oversize(len(data), data[:KEPT], data[-KEPT:])]
            if data and not data.isspace():
                return [data]

    async def run_writer(self) -> None:
        """Write what is queued, one message after the other, until the peer has gone or the task is cancelled."""
        assert self._socket is not None
        try:
            while await self._outbox.wait():
                (message,) = self._outbox.take(0)
                await self._socket.send_message(message.decode())
                self._outbox.done(len(message))
        except ConnectionClosed:
            self._outbox.close()  # the reader will say why

    async def close_politely(self, code: int = NORMAL) -> None:
        """Write what is queued, and make the closing handshake. Bound it with a deadline."""
        if self._socket is not None:
            await self._outbox.flush()
            await self._socket.aclose(code)

    async def close(self) -> None:
        """Close the stream, whatever is under way on it."""
        self._outbox.close()
        await trio.aclose_forcefully(self._stream)

    def _note_end(self, closed: ConnectionClosed) -> None:
        """The connection has ended so, which is told nobody else."""

    async def _refuse_binary(self) -> None:
        """Close for a message that is none: JSON is text, and goes in text frames."""
        assert self._socket is not None
        self._outbox.end()
        with trio.move_on_after(CLOSE_LIMIT):
            await self._socket.aclose(UNSUPPORTED, "Messages are JSON, in text frames")
