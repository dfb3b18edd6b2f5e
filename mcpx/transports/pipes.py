"""Pipes with as few turns of the scheduler as they need.

Trio's own stream gives every read and every write a turn of its own first, reads, and mostly finds that it has to wait.
Where a message goes back and forth between processes these turns are most of what it costs. Here a read waits until
there is something, and a write is tried at once.
"""

from __future__ import annotations

import os
import select
import stat

import trio

from mcpx.settings import KiB

DEFAULT_READ = 64 * KiB  # bytes
PIPE_BUF = getattr(select, "PIPE_BUF", 0)  # Windows has none


class Pipe(trio.abc.Stream):
    """One end of a pipe, or a socket used as one, in the place of the ``FdStream`` that owns the descriptor.

    A read and a write wait only where they have to; that they can be cancelled holds all the same.
    """

    def __init__(self, stream: trio.lowlevel.FdStream) -> None:
        self._stream = stream
        # What is written whole or not at all, in bytes; none where it is no pipe (POSIX, ``write``).
        self.atomic = PIPE_BUF if stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode) else 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What has come, at most ``max_bytes``, waiting for the first of it; nothing at the end.

        Raises ``trio.BrokenResourceError`` and ``trio.ClosedResourceError`` as any stream does.
        """
        while True:
            fd = self._fileno()
            await trio.lowlevel.wait_readable(fd)
            try:
                return os.read(fd, max_bytes or DEFAULT_READ)
            except BlockingIOError:
                pass  # somebody else has the other half of this pipe's read end
            except OSError as error:
                raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of it. Cancelled, some of it may have been written. Raises as ``receive_some`` does."""
        await trio.lowlevel.checkpoint_if_cancelled()
        rest = memoryview(data)
        while rest:
            fd = self._fileno()
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(fd)
            except OSError as error:
                raise trio.BrokenResourceError from error

    def write_nowait(self, data: bytes) -> bool:
        """Write all of it at once, or nothing; say which. What fails for good is left to ``send_all`` to say.

        ``data`` is of no more than ``atomic`` bytes. Nobody may be in ``send_all``.
        """
        try:
            return os.write(self._fileno(), data) == len(data)
        except (OSError, trio.ClosedResourceError):
            return False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until something can be written."""
        await trio.lowlevel.wait_writable(self._fileno())

    async def aclose(self) -> None:
        """Close the descriptor; whoever waits for it is told."""
        await self._stream.aclose()

    def _fileno(self) -> int:
        fd = self._stream.fileno()
        if fd < 0:
            raise trio.ClosedResourceError("this pipe was closed")
        return fd
