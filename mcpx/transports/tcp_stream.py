"""A TCP connection as a stream that can also do without waiting: write what fits, and say whether it is still good.

A Trio stream gives others their turn with every write, which is a switch of tasks for each, and cannot be asked whether
its peer has closed it.
"""

from __future__ import annotations

import socket

import trio

from mcpx.transports.sockets import open_tcp

RECEIVE_SIZE = 65536


class TcpStream(trio.abc.Stream):
    """A connection that is open. One task reads and one writes at a time."""

    def __init__(self, connected: trio.SocketStream) -> None:
        self._socket = socket.socket(fileno=connected.socket.detach())
        self._socket.setblocking(False)
        self._closed = False

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Write as much as can be at once; how much that was. Raises as ``send_all`` does."""
        if self._closed:
            raise trio.ClosedResourceError
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with memoryview(data) as whole:
            await trio.lowlevel.checkpoint()
            at = self.send_nowait(whole)
            while at < len(whole):
                await self.wait_send_all_might_not_block()
                at += self.send_nowait(whole[at:])

    async def wait_send_all_might_not_block(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        await trio.lowlevel.wait_writable(self._socket)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            if self._closed:
                raise trio.ClosedResourceError
            # Before it is tried: what is waited for is hardly ever there already.
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes or RECEIVE_SIZE)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is there to be read, not even the end."""
        if self._closed:
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close it at once; whoever waits for it hears of that."""
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


async def open_tcp_stream(host: str, port: int) -> TcpStream:
    """Connect to a port. Raises ``ConnectError``, which says in a sentence what is wrong."""
    return TcpStream(await open_tcp(host, port))
