"""The shape that every frame transport has: a duplex of whole messages.

A channel is opened by an async context manager that owns its reader and writer tasks (``open_line_channel``,
``memory_channel_pair``); whoever holds it sends and receives.
"""

from __future__ import annotations

from typing import Protocol

from mcpx.wire.lines import Oversize

__all__ = ["Channel", "Oversize"]


class Channel(Protocol):
    """A duplex of messages. One task receives; any task sends."""

    async def receive(self) -> list[bytes | Oversize]:
        """The next messages, at least one, each without its newline. Empty at the end of the stream.

        Raises ``trio.BrokenResourceError`` when the connection broke.
        """
        ...

    def send_nowait(self, message: bytes) -> None:
        """Queue one message (JSON without a newline) at once, over the bound if need be.

        For farewells and for callers that have a bound of their own. Never blocks and never raises for a peer that has
        gone: the message is dropped then, as the reader will say why.
        """
        ...

    def offer(self, message: bytes) -> bool:
        """Queue one message at once, unless the peer is behind by more than the bound; say whether it was queued.

        For what a peer can do without.
        """
        ...

    async def send(self, message: bytes) -> None:
        """Queue one message, waiting while the peer is behind by more than the bound.

        A message is queued whole or, when cancelled, not at all; once queued it is written whole.
        """
        ...

    async def flush(self) -> None:
        """Wait until all that is queued was written, or the peer has gone. Bound it with a deadline."""
        ...
