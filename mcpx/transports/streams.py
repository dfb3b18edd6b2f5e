"""Newline-delimited messages over a pair of byte streams, and the same thing in memory."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from mcpx.settings import KiB, MiB
from mcpx.transports.crew import open_crew
from mcpx.wire.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.wire.lines import Oversize

READ_MIN = 64 * KiB  # what a pipe holds on Linux
READ_MAX = MiB  # one read while a long message is under way: fewer wakeups, and no noticeable extra memory
WRITE_BATCH = (
    128 * KiB
)  # small messages are joined into writes of about this size; a larger one is written by itself, uncopied
FLUSH_LIMIT = 1.0  # seconds that leaving a channel waits for a peer to read what is queued for it
MAX_PENDING = (
    MiB  # bytes queued for a peer that does not read before its senders wait; a frame beyond that is still queued whole
)


class LineChannel:
    """A ``Channel`` over two byte streams; opened by ``open_line_channel``."""

    def __init__(
        self, receive_stream: trio.abc.ReceiveStream, send_stream: trio.abc.SendStream, max_frame: int, max_pending: int
    ) -> None:
        self._receive_stream = receive_stream
        self._send_stream = send_stream
        self._splitter = LineSplitter(max_frame)
        self._read_size = READ_MIN
        self._ended = False
        self._max_pending = max_pending
        self._queue: deque[bytes] = deque()  # messages and their newlines, not yet handed to the stream
        self._queued = 0  # bytes ever queued
        self._written = 0  # bytes ever written; the difference is what is pending
        self._gone = False  # the peer no longer reads, or nobody may write any more
        self._work = trio.Event()  # set when the writer has something to do
        self._progress: trio.Event | None = None  # set after the next write; made by whoever waits for it
        self._turn = trio.Lock()  # senders that had to wait go in the order in which they came

    async def receive(self) -> list[bytes | Oversize]:
        """The next messages, all that one read completed; a last one without a newline counts. Empty at the end."""
        while not self._ended:
            chunk = await self._receive_stream.receive_some(self._read_size)
            if not chunk:
                self._ended = True
                return self._splitter.finish()
            if lines := self._splitter.feed(chunk):
                self._read_size = READ_MIN
                return lines
            if len(chunk) == self._read_size < READ_MAX:
                self._read_size *= 2
        await trio.lowlevel.checkpoint()
        return []

    def send_nowait(self, message: bytes) -> None:
        if self._gone:
            return
        message = _one_line(message)
        self._queue += (message, b"\n")
        self._queued += len(message) + 1
        self._work.set()

    async def send(self, message: bytes) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_full() or self._turn.locked():
            async with self._turn:
                while self._is_full():
                    await self._next_write()
        self.send_nowait(message)

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        target = self._queued
        while self._written < target and not self._gone:
            await self._next_write()

    async def discard(self) -> None:
        """Read and forget until the stream ends or breaks: a peer that is shutting down may still have much to say."""
        try:
            while await self._receive_stream.receive_some(READ_MIN):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def close_sending(self) -> None:
        """Close the stream to the peer, which sees its end; drop what is still queued (``flush`` comes before)."""
        self._drop()
        await trio.aclose_forcefully(self._send_stream)

    async def close(self) -> None:
        """Close both streams, whatever is under way on them."""
        await self.close_sending()
        await trio.aclose_forcefully(self._receive_stream)

    async def run_writer(self) -> None:
        """Write what is queued, many messages at a time, until the peer has gone or the task is cancelled."""
        try:
            while not self._gone:
                if not self._queue:
                    self._work = trio.Event()
                    await self._work.wait()
                    continue
                batch = self._next_batch()
                size = len(batch)
                await self._send_stream.send_all(batch)
                del batch  # or the last message would stay in memory until the next one
                self._written += size
                self._wake()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._drop()

    def _next_batch(self) -> bytes:
        """What goes out in the next write: one large piece as it is, or small ones joined."""
        queue = self._queue
        size = len(queue[0])
        if size >= WRITE_BATCH or len(queue) == 1:
            return queue.popleft()
        pieces = [queue.popleft()]
        while queue and size + len(queue[0]) <= WRITE_BATCH:
            size += len(queue[0])
            pieces.append(queue.popleft())
        return b"".join(pieces)

    def _is_full(self) -> bool:
        return self._queued - self._written > self._max_pending and not self._gone

    async def _next_write(self) -> None:
        if self._progress is None:
            self._progress = trio.Event()
        await self._progress.wait()

    def _wake(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    def _drop(self) -> None:
        """Nobody reads any more: forget what is queued, and let go whoever waits for it to be written."""
        self._gone = True
        self._queue.clear()
        self._work.set()
        self._wake()


@asynccontextmanager
async def open_line_channel(
    receive_stream: trio.abc.ReceiveStream,
    send_stream: trio.abc.SendStream,
    *,
    max_frame: int,
    max_pending: int = MAX_PENDING,
) -> AsyncGenerator[LineChannel]:
    """Open a channel of newline-delimited messages over two byte streams, which become the channel's own.

    ``max_frame`` bounds one received message (a longer one comes out as ``Oversize``), ``max_pending`` the bytes queued
    for a peer that does not read before ``send`` waits. Leaving writes what is queued, for at most ``FLUSH_LIMIT``, and
    closes both streams. The writer outlives the cancellation of the body, so that farewells go out.
    """
    channel = LineChannel(receive_stream, send_stream, max_frame, max_pending)
    try:
        async with open_crew() as crew:
            crew.start_soon(channel.run_writer)
            try:
                yield channel
            finally:
                with trio.move_on_after(FLUSH_LIMIT, shield=True):
                    await channel.flush()
    finally:
        await channel.close()


def _one_line(message: bytes) -> bytes:
    """The message without line breaks. In valid JSON they are only ever white space between tokens."""
    if b"\n" in message or b"\r" in message:
        return message.translate(None, b"\r\n")
    return message
