"""Newline-delimited messages over a pair of byte streams."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import trio

from mcpx.settings import KiB, MiB
from mcpx.transports.crew import open_crew
from mcpx.transports.outbox import MAX_PENDING, Outbox, Sending
from mcpx.transports.pipes import Pipe
from mcpx.wire.lines import LineSplitter, one_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.wire.lines import Oversize

READ_MIN = 64 * KiB  # what a pipe holds on Linux
READ_MAX = MiB  # one read while a long message is under way: fewer wakeups, and no noticeable extra memory
PORTION = 256  # messages that are handed on at once; a read may bring ten thousand, and others want a turn as well
WRITE_BATCH = 128 * KiB  # small messages are joined into writes of about this size; a larger one goes alone, uncopied
ALONE = (
    50e-6  # seconds that a message keeps from the last one to be written at once: less than a way to a peer and back
)
FLUSH_LIMIT = 1.0  # seconds that leaving a channel waits for a peer to read what is queued for it


class LineChannel(Sending):
    """A ``Channel`` over two byte streams. Open it with ``open_line_channel``; otherwise see to ``run_writer``."""

    def __init__(
        self,
        receive_stream: trio.abc.ReceiveStream,
        send_stream: trio.abc.SendStream,
        *,
        max_frame: int,
        max_pending: int = MAX_PENDING,
    ) -> None:
        self._sparse = True  # messages come one by one
        self._last = 0.0  # when one was last written at once
        pipe = send_stream if isinstance(send_stream, Pipe) else None
        super().__init__(Outbox(max_pending, None if pipe is None else partial(self._write_at_once, pipe)))
        self._receive_stream = receive_stream
        self._send_stream = send_stream
        self._splitter = LineSplitter(max_frame)
        self._read_size = READ_MIN
        self._lines: list[bytes | Oversize] = []  # which a read brought, and are not all handed on yet
        self._taken = 0  # of them
        self._ended = False

    async def receive(self) -> list[bytes | Oversize]:
        """The next messages that one read completed; a last one without a newline counts. Empty at the end.

        Raises ``trio.BrokenResourceError`` when the connection broke.
        """
        if self._lines:
            await trio.lowlevel.checkpoint()
            return self._portion()
        while not self._ended:
            chunk = await self._receive_stream.receive_some(self._read_size)
            if not chunk:
                self._ended = True
                return self._splitter.finish()
            if lines := self._splitter.feed(chunk):
                self._read_size = READ_MIN
                if len(lines) <= PORTION:
                    return lines
                self._lines, self._taken = lines, 0
                return self._portion()
            if len(chunk) == self._read_size < READ_MAX and self._splitter.held >= len(chunk):
                self._read_size *= 2
        await trio.lowlevel.checkpoint()
        return []

    def _portion(self) -> list[bytes | Oversize]:
        start, self._taken = self._taken, self._taken + PORTION
        portion = self._lines[start : self._taken]
        if self._taken >= len(self._lines):
            self._lines = []
        return portion

    def _form(self, message: bytes) -> bytes:
        return one_line(message)

    def _write_at_once(self, pipe: Pipe, message: bytes) -> bool:
        """Write a message that comes alone, which spares the writer a turn. Of many, what is close behind is collected:
        each write wakes the peer, which costs more than all else about it.
        """
        if self._sparse:
            before, self._last = self._last, perf_counter()
            self._sparse = self._last - before > ALONE
        return self._sparse and len(message) < pipe.atomic and pipe.write_nowait(b"%b\n" % message)

    async def discard(self) -> None:
        """Read and forget until the stream ends or breaks: a peer that is shutting down may still have much to say."""
        try:
            while await self._receive_stream.receive_some(READ_MIN):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def close_sending(self) -> None:
        """Close the stream to the peer, which sees its end. What is still queued is dropped: ``flush`` comes before."""
        self._outbox.close()
        await trio.aclose_forcefully(self._send_stream)

    async def close(self) -> None:
        """Close both streams, whatever is under way on them."""
        await self.close_sending()
        await trio.aclose_forcefully(self._receive_stream)

    async def run_writer(self) -> None:
        """Write what is queued, many messages at a time, until the peer has gone or the task is cancelled."""
        try:
            while await self._outbox.wait():
                await self._write(self._outbox.take(WRITE_BATCH))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._outbox.close()  # the reader will say why

    async def _write(self, batch: list[bytes]) -> None:
        self._sparse = len(batch) == 1
        size = sum(map(len, batch))
        if size <= WRITE_BATCH:
            await self._send_stream.send_all(b"\n".join([*batch, b""]))
        else:
            (message,) = batch
            await self._send_stream.send_all(message)
            await self._send_stream.send_all(b"\n")
        self._outbox.done(size)


@asynccontextmanager
async def open_line_channel(
    receive_stream: trio.abc.ReceiveStream,
    send_stream: trio.abc.SendStream,
    *,
    max_frame: int,
    max_pending: int = MAX_PENDING,
    flush_limit: float = FLUSH_LIMIT,
) -> AsyncGenerator[LineChannel]:
    """Open a channel of newline-delimited messages over two byte streams, which become the channel's own.

    ``max_frame`` bounds one received message (a longer one comes out as ``Oversize``), ``max_pending`` the bytes queued
    for a peer that does not read before ``send`` waits. Leaving writes what is queued, for at most ``flush_limit``
    seconds, and closes both streams. The writer outlives the cancellation of the body, so that farewells go out.
    """
    channel = LineChannel(receive_stream, send_stream, max_frame=max_frame, max_pending=max_pending)
    try:
        async with open_crew() as crew:
            crew.start_soon(channel.run_writer)
            try:
                yield channel
            finally:
                with trio.move_on_after(flush_limit, shield=True):
                    await channel.flush()
    finally:
        await channel.close()
