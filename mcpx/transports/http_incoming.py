"""What comes in on an HTTP connection, and the connection as a stream for whatever takes it over."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

import trio

from mcpx.settings import KiB
from mcpx.transports.http_answer import direct_socket

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.transports.http_answer import Outgoing

READ_SIZE = 64 * KiB
READ_AHEAD = 64 * KiB  # bytes that may wait for the conversation before reading pauses
CRUMB = KiB  # bytes up to which what waits is joined: of single bytes each would take the room of fifty


class Incoming:
    """What a client sends, read by a task of its own: ahead of who takes it, though only a little.

    ``begin`` is shown all that comes, and says whether it took it; what it takes does not wait for anybody.
    """

    def __init__(self, stream: trio.abc.Stream, begin: Callable[[bytes], bool] | None = None) -> None:
        self._stream = stream
        self._socket = direct_socket(stream)
        self._begin = begin
        self._chunks: deque[bytes] = deque()
        self._size = 0  # of all chunks
        self._arrival: trio.Event | None = None  # made by who waits
        self._room: trio.Event | None = None
        self._hang_up: Callable[[], None] | None = None
        self.ended = False  # nothing more will come
        self.broken = False  # and that was no orderly end

    async def run(self) -> None:
        """Read until the client hangs up, or the task is cancelled."""
        try:
            while data := await self._read():
                if self._begin is not None and self._begin(data):
                    continue
                if self._chunks and len(self._chunks[-1]) < CRUMB:
                    self._chunks[-1] += data
                else:
                    self._chunks.append(data)
                self._size += len(data)
                self._tell()
                if self._size >= READ_AHEAD:
                    self._room = trio.Event()
                    await self._room.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.broken = True
        self.ended = True
        self._tell()
        if self._hang_up is not None:
            self._hang_up()

    async def _read(self) -> bytes:
        if self._socket is None:
            return bytes(await self._stream.receive_some(READ_SIZE))
        while True:
            try:  # not before there is something: the stream would try at once, and nearly always in vain
                await trio.lowlevel.wait_readable(self._socket)
                return os.read(self._socket.fileno(), READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError("the client has gone") from error

    def watch(self, hang_up: Callable[[], None] | None) -> None:
        """Have it called when the client hangs up, at once if it has."""
        self._hang_up = hang_up
        if hang_up is not None and self.ended:
            hang_up()

    @property
    def waiting(self) -> bool:
        """Whether there is anything to be taken, be it that no more will come."""
        return self.ended or bool(self._chunks)

    def take(self) -> bytes:
        """What has come."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._room is not None:
            self._room.set()
            self._room = None
        return data

    async def more(self) -> bytes:
        """What has come, once something has; empty at the end."""
        while not self._chunks and not self.ended:
            self._arrival = trio.Event()
            await self._arrival.wait()
        return self.take()

    def _tell(self) -> None:
        if self._arrival is not None:
            self._arrival.set()
            self._arrival = None


class UpgradedStream(trio.abc.Stream):
    """A connection that another protocol has taken over, from the head of its request on."""

    def __init__(self, stream: trio.abc.Stream, incoming: Incoming, outgoing: Outgoing, begin: bytes) -> None:
        self._stream = stream
        self._incoming = incoming
        self._outgoing = outgoing
        self._rest = begin  # read, and not yet handed on

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._rest:
            await trio.lowlevel.checkpoint()
        else:
            self._rest = await self._incoming.more()
            if not self._rest and self._incoming.broken:
                raise trio.BrokenResourceError("the client has gone")
        size = len(self._rest) if max_bytes is None else max_bytes
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._outgoing.write(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
