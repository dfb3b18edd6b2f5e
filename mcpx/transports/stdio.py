"""mcpx's own stdin and stdout as a channel of frames, which nothing else in the process reads from or prints into."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from mcpx.errors import McpxError
from mcpx.settings import KiB
from mcpx.transports.pipes import Pipe
from mcpx.transports.streams import FLUSH_LIMIT, open_line_channel

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from mcpx.transports.channel import Channel

STDIN, STDOUT, STDERR = 0, 1, 2
THREAD_CHUNK = 64 * KiB  # bytes that a thread reads or writes at once


@asynccontextmanager
async def open_stdio_channel(max_frame: int, *, flush_limit: float = FLUSH_LIMIT) -> AsyncGenerator[Channel]:
    """Open a channel over this process's own stdin and stdout.

    ``max_frame`` bounds one received message, ``flush_limit`` the seconds that leaving waits for a host that does not
    read.

    While it is open, descriptor 0 is empty and descriptor 1 is stderr, so that a stray ``input`` or ``print`` of any
    library touches no frame; afterwards both are what they were, blocking mode included. A host that no longer reads is
    no error: what is sent is dropped. Raises ``McpxError`` where the process was started without stdin or stdout.
    """
    if sys.__stdin__ is None or sys.__stdout__ is None:  # their numbers belong to some other file by now
        raise McpxError("There is no host to serve: stdin or stdout was closed when mcpx was started.")
    with _set_aside(STDIN, os.devnull) as stdin, _set_aside(STDOUT, STDERR) as stdout:
        streams = _receive_stream(stdin), _send_stream(stdout)
        async with open_line_channel(*streams, max_frame=max_frame, flush_limit=flush_limit) as channel:
            yield channel


@contextmanager
def _set_aside(fd: int, substitute: int | str) -> Generator[int]:
    """Move what a descriptor is to another number while entered, with a harmless substitute in its place."""
    real = os.dup(fd)
    blocking = _get_blocking(real)
    try:
        if substitute == STDERR and sys.__stderr__ is None:
            substitute = os.devnull
        if isinstance(substitute, str):
            opened = os.open(substitute, os.O_RDWR)
            os.dup2(opened, fd)
            os.close(opened)
        else:
            os.dup2(substitute, fd)
        yield real
    finally:
        if fd == STDOUT and sys.stdout is not None:
            with suppress(OSError, ValueError):  # what was printed goes where it was meant to until now
                sys.stdout.flush()
        _set_blocking(real, blocking)
        os.dup2(real, fd)
        os.close(real)


def _receive_stream(fd: int) -> trio.abc.ReceiveStream:
    if sys.platform != "win32" and _can_poll(fd):
        return Pipe(trio.lowlevel.FdStream(os.dup(fd)))
    return _ThreadReceiveStream(fd)


def _send_stream(fd: int) -> trio.abc.SendStream:
    if sys.platform != "win32" and _can_poll(fd):
        return Pipe(trio.lowlevel.FdStream(os.dup(fd)))
    return _ThreadSendStream(fd)


def _can_poll(fd: int) -> bool:
    """Whether a descriptor can be waited for, and made non-blocking without that reaching anybody else.

    Not a regular file; nor a terminal, all of whose descriptors, stderr's too, share one mode; nor what is stderr as
    well.
    """
    status = os.fstat(fd)
    if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)):
        return False
    return sys.__stderr__ is None or not os.path.samestat(status, os.fstat(STDERR))


def _prepare_for_thread(fd: int) -> None:
    """Make a descriptor one that blocks, and that passes bytes as they are."""
    _set_blocking(fd, True)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(fd, os.O_BINARY)


def _get_blocking(fd: int) -> bool:
    return sys.platform == "win32" or os.get_blocking(fd)


def _set_blocking(fd: int, blocking: bool) -> None:
    if sys.platform != "win32":
        os.set_blocking(fd, blocking)


class _ThreadReceiveStream(trio.abc.ReceiveStream):
    """Reads in a thread. A cancelled read leaves its thread behind, to end with the next input or with the process."""

    def __init__(self, fd: int) -> None:
        _prepare_for_thread(fd)
        self._fd = fd

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return await trio.to_thread.run_sync(os.read, self._fd, max_bytes or THREAD_CHUNK, abandon_on_cancel=True)
        except OSError as error:
            if error.errno == errno.EIO:  # the terminal has gone
                return b""
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        """The descriptor is its owner's to close."""
        await trio.lowlevel.checkpoint()


class _ThreadSendStream(trio.abc.SendStream):
    """Writes in a thread, which is left behind where the write is cancelled."""

    def __init__(self, fd: int) -> None:
        _prepare_for_thread(fd)
        self._fd = fd

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            try:
                sent = await trio.to_thread.run_sync(os.write, self._fd, rest[:THREAD_CHUNK], abandon_on_cancel=True)
            except OSError as error:
                raise trio.BrokenResourceError from error
            rest = rest[sent:]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """The descriptor is its owner's to close."""
        await trio.lowlevel.checkpoint()
