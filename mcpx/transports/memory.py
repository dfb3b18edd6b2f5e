"""Channels that never leave the process: for servers that are built in, and for tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from mcpx.transports.outbox import MAX_PENDING, Outbox, Sending

if TYPE_CHECKING:
    from types import TracebackType

    from mcpx.wire.lines import Oversize


class MemoryChannel(Sending):
    """One end of a ``memory_channel_pair``: a ``Channel``, and a context manager that is left to close it."""

    def __init__(self, inbox: Outbox, outbox: Outbox) -> None:
        super().__init__(outbox)
        self._inbox = inbox  # the other end's outbox

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def receive(self) -> list[bytes | Oversize]:
        """All messages sent meanwhile, at least one. Empty once the other end is closed and none is left."""
        if not await self._inbox.wait():
            return []
        messages = self._inbox.take(sys.maxsize)
        self._inbox.done(sum(map(len, messages)))
        return [*messages]

    def close(self) -> None:
        """Close this end. The other one receives what is queued, then the end; what it sends from now on is dropped."""
        self._outbox.end()
        self._inbox.close()


def memory_channel_pair(*, max_pending: int = MAX_PENDING) -> tuple[MemoryChannel, MemoryChannel]:
    """Two channels, each the other's peer.

    ``max_pending`` bounds, in each direction, the bytes that are queued before ``send`` waits.
    """
    one, other = Outbox(max_pending), Outbox(max_pending)
    return MemoryChannel(one, other), MemoryChannel(other, one)
