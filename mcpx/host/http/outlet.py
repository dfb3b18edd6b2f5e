"""The streams of a legacy session: what is said on each, kept until it was seen and a while longer, to be resumed.

Event ids are ``STREAM-NUMBER``: a cursor within one stream of one session. (2025-03-26 to 2025-11-25 basic/transports,
Resumability and Redelivery.)
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from mcpx.settings import KiB
from mcpx.wire.lines import one_line
from mcpx.wire.sse import encode_event

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_UNSEEN = 64 * KiB  # said and not yet taken by the client that views a stream, before who says more waits
RETRY_MS = 1000  # what a client that polls is told to wait before it reconnects


class Said(NamedTuple):
    """One message on its stream."""

    outlet: Outlet
    number: int  # within its stream, from 1
    message: bytes
    last: bool  # the stream ends with it
    through: int  # the bytes of all that was said on the stream, up to this one's end

    @property
    def event(self) -> bytes:
        """The message as it goes onto the stream."""
        return encode_event(self.message, id=f"{self.outlet.number}-{self.number}")


class Replay:
    """What the streams of one session have said and is owed to nobody any more: at most so many bytes, each message for
    so many seconds.

    What is held for a client that is there, or will be, is not in here, so that it keeps nothing else from going. There
    is little of it, as whoever says more waits.
    """

    def __init__(self, max_bytes: int, max_time: float) -> None:
        self._max_bytes = max_bytes
        self._max_time = max_time
        self._kept: deque[tuple[float, Said]] = deque()  # since when, and what
        self._size = 0

    def add(self, said: Said) -> None:
        """Keep one more, and let the oldest go for it."""
        self._kept.append((trio.current_time(), said))
        self._size += len(said.message)
        self.trim()

    def trim(self) -> None:
        """Let go what is too old, and what is too much."""
        oldest = trio.current_time() - self._max_time
        kept = self._kept
        while kept and (self._size > self._max_bytes or kept[0][0] < oldest):
            _, said = kept.popleft()
            self._size -= len(said.message)
            said.outlet.forget()


class Outlet:
    """One stream: the answer to a POST, which has one message and is no stream at all until there are more, or what is
    said unasked, for which ``standing`` is set.

    Nobody can come back for a stream of which nothing went out, so nothing is kept of one before ``resumable`` is set.
    What is said unasked is held until somebody has seen it, however long that takes.
    """

    def __init__(self, replay: Replay, number: int, *, standing: bool = False) -> None:
        self.number = number
        self.ended = False
        self._resumable = False
        self._replay = replay
        self._standing = standing
        self._said: deque[Said] = deque()
        self._count = 0
        self._bytes = 0  # of all of them
        self._seen = 0  # the number of the last one that a client was given, or that was let go
        self._unseen = 0  # bytes that no client was given yet
        self._kept = 0  # the number of the last one that was handed to the replay
        self._views: list[View] = []  # the last one is given what is said; a client may have several connections
        self._news = trio.Event()
        self._progress = trio.Event()

    @property
    def is_spent(self) -> bool:
        """Whether nothing can come of it any more."""
        return self.ended and not self._views and not (self._said and self._resumable)

    def begin(self) -> None:
        """The stream goes out from now on, and can be resumed."""
        if not self._resumable:
            self._resumable = True
            self._keep()

    def bookmark(self, number: int) -> bytes:
        """The event that tells a client where it is, and when to reconnect (2025-11-25, Sending Messages)."""
        return encode_event(b"", id=f"{self.number}-{number}", retry=RETRY_MS)

    # -- saying

    async def send(self, message: bytes) -> None:
        """Say something, waiting while a client views the stream and is behind."""
        while self._views and self._unseen > MAX_UNSEEN:
            await self._wait_for_progress()
        self._put(message, last=False)

    def offer(self, message: bytes) -> bool:
        """Say something at once where a client views the stream and is not behind; say whether it was said."""
        if self.ended or not self._views or self._unseen > MAX_UNSEEN:
            return False
        self._put(message, last=False)
        return True

    async def flush(self) -> None:
        """Wait until all that was said has been seen."""
        while self._seen < self._count and not self.ended:
            await self._wait_for_progress()

    def finish(self, message: bytes | None) -> None:
        """The stream ends, with a last message if there is one."""
        if not self.ended:
            if message is not None:
                self._put(message, last=True)
            self.ended = True
            self._wake()
            self._progressed()

    def _put(self, message: bytes, *, last: bool) -> None:
        if self.ended or not (self._views or self._resumable or self._standing):
            return
        line = one_line(message)
        self._count += 1
        self._bytes += len(line)
        self._unseen += len(line)
        self._said.append(Said(self, self._count, line, last, self._bytes))
        self._keep()
        self._wake()

    # -- seeing

    @contextmanager
    def view(self, after: int | None = None) -> Generator[View]:
        """View the stream: from behind the message with that number, or what nobody has seen."""
        view = View(self, self._seen if after is None else min(after, self._count))
        self._views.append(view)
        self._wake()
        try:
            yield view
        finally:
            self._views.remove(view)
            self._wake()
            self._progressed()
            self._keep()
            if self.is_spent:
                self._said.clear()  # which hold on to this, and would wait for the collector together with it

    def take(self, view: View) -> list[Said] | None:
        """What there is for a view; ``None`` where it has to wait. Empty where no more comes."""
        if self._views[-1] is view:
            if not (self._resumable or self._standing):  # what was shown before is of no use to anybody
                while self._said and self._said[0].number <= self._seen:
                    self._said.popleft()
            first = self._said[0].number if self._said else self._count + 1
            news = [self._said[at] for at in range(max(view.cursor + 1 - first, 0), len(self._said))]
            if news:
                for one in self._views:  # who is shown it has it alone (Multiple Connections)
                    one.cursor = max(one.cursor, news[-1].number)
                self._see(news[-1])
                self._keep()
                return news
        return [] if self.ended else None

    async def wait(self) -> None:
        """Wait for anything to change."""
        await self._news.wait()

    # -- keeping

    def forget(self) -> None:
        """The oldest one, which the replay had, is let go."""
        self._see(self._said.popleft())

    def _keep(self) -> None:
        """Hand over to the replay what is not held for a client any more."""
        if not self._resumable:
            return
        until = self._seen if self._standing or self._views else self._count
        if self._kept < until:
            first = self._said[0].number if self._said else until + 1
            handed = [self._said[at] for at in range(max(self._kept + 1 - first, 0), until + 1 - first)]
            self._kept = until
            for said in handed:
                self._replay.add(said)

    def _see(self, said: Said) -> None:
        """All up to this one has been seen, or has been let go."""
        if said.number > self._seen:
            self._seen = said.number
            self._unseen = self._bytes - said.through
            self._progressed()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    async def _wait_for_progress(self) -> None:
        await self._progress.wait()


class View:
    """One client's look at a stream: the answer to a POST, or to a GET."""

    def __init__(self, outlet: Outlet, cursor: int) -> None:
        self.cursor = cursor
        self._outlet = outlet

    def bookmark(self) -> bytes:
        """The event with which a client can come back for what follows."""
        return self._outlet.bookmark(self.cursor)

    async def next(self) -> list[Said]:
        """What is said next, at least one message; empty at the end of the stream."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while (news := self._outlet.take(self)) is None:
            await self._outlet.wait()
        return news


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Stream and number out of an event's id; ``None`` for what mcpx never gave out."""
    stream, _, number = text.partition("-")
    if not (stream.isascii() and stream.isdigit() and number.isascii() and number.isdigit()):
        return None
    if len(text) > _MAX_EVENT_ID:
        return None
    return int(stream), int(number)


_MAX_EVENT_ID = 40
