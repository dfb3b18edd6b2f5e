"""What is queued for one peer: bounded for those who wait, whole for those who cannot."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from mcpx.settings import MiB

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PENDING = (
    MiB  # bytes queued for a peer that does not read, before its senders wait; a longer frame still goes whole
)


class Outbox:
    """The sending half of a channel: senders put messages in, one writer takes them out and says when they are gone.

    ``at_once`` is tried with a message that comes while the writer has nothing to do; it says whether it has written
    all of it, without waiting, or nothing.
    """

    def __init__(self, max_pending: int, at_once: Callable[[bytes], bool] | None = None) -> None:
        self._max_pending = max_pending
        self._at_once = at_once
        self._messages: deque[bytes] = deque()
        self._put = 0  # bytes ever put in
        self._done = 0  # bytes ever written; the difference is what is pending
        self._ended = False  # nothing more goes in
        self._closed = False  # nor does anything come out
        self._work: trio.Event | None = None  # set when there is something for the writer; made where it waits
        self._progress: trio.Event | None = None  # set when the writer is next done with something; made by who waits
        self._turn = trio.Lock()  # senders that have to wait go in the order in which they came

    def put_nowait(self, message: bytes) -> None:
        """Queue a message, over the bound if need be; dropped once ended."""
        if self._ended:
            return
        if self._work is None or self._at_once is None or not self._at_once(message):
            self._messages.append(message)
            self._put += len(message)
            self._call_writer()

    def offer(self, message: bytes) -> bool:
        """Queue a message unless more than the bound is pending, or others wait; say whether it was."""
        if self._is_full() or self._turn.locked():
            return False
        self.put_nowait(message)
        return True

    async def put(self, message: bytes) -> None:
        """Queue a message, waiting while more than the bound is pending. Cancelled, it is not queued at all."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_full() or self._turn.locked():
            async with self._turn:
                while self._is_full():
                    await self._next_progress()
        self.put_nowait(message)

    async def flush(self) -> None:
        """Wait until what is queued now was written, or dropped."""
        await trio.lowlevel.checkpoint_if_cancelled()
        target = self._put
        while self._done < target and not self._closed:
            await self._next_progress()

    async def wait(self) -> bool:
        """For the writer: wait until there is something to take; false when there never will be."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._messages and not self._ended:
            self._work = trio.Event()
            await self._work.wait()
        return bool(self._messages)

    def take(self, limit: int) -> list[bytes]:
        """For the writer: the next message, and those behind it that fit into ``limit`` bytes together with it."""
        messages = self._messages
        batch = [messages.popleft()]
        size = len(batch[0])
        while messages and (size := size + len(messages[0])) <= limit:
            batch.append(messages.popleft())
        return batch

    def done(self, size: int) -> None:
        """For the writer: so many bytes of messages were written."""
        self._done += size
        self._wake()

    def end(self) -> None:
        """Take nothing more in. What is queued can still be taken out."""
        self._ended = True
        self._call_writer()
        self._wake()

    def close(self) -> None:
        """Forget what is queued as well, and let go all who wait for it to be written."""
        self._closed = True
        self._messages.clear()
        self.end()

    def _call_writer(self) -> None:
        if self._work is not None:
            self._work.set()
            self._work = None

    def _is_full(self) -> bool:
        return self._put - self._done > self._max_pending and not self._ended

    async def _next_progress(self) -> None:
        if self._progress is None:
            self._progress = trio.Event()
        await self._progress.wait()

    def _wake(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None


class Sending:
    """The sending half of a ``Channel``, over an outbox that one writer empties."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def _form(self, message: bytes) -> bytes:
        """The message as this channel carries it."""
        return message

    def send_nowait(self, message: bytes) -> None:
        """Queue one message at once, over the bound if need be; see ``Channel``."""
        self._outbox.put_nowait(self._form(message))

    def offer(self, message: bytes) -> bool:
        """Queue one message at once, unless the peer is behind by more than the bound; see ``Channel``."""
        return self._outbox.offer(self._form(message))

    async def send(self, message: bytes) -> None:
        """Queue one message, waiting while the peer is behind by more than the bound; see ``Channel``."""
        await self._outbox.put(self._form(message))

    def cancel(self, number: int, farewell: bytes | None) -> None:
        """Say that a request is no longer awaited; see ``Channel``."""
        if farewell is not None:
            self.send_nowait(farewell)

    async def flush(self) -> None:
        """Wait until all that is queued was taken, or the peer has gone. Bound it with a deadline."""
        await self._outbox.flush()
