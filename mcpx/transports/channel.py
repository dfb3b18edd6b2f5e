"""The shape that every frame transport has: a duplex of whole messages.

A channel is opened by an async context manager that owns its reader and writer tasks (``open_line_channel``,
``memory_channel_pair``); whoever holds it sends and receives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from mcpx.wire.lines import Oversize

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Channel", "ClientChannel", "Gap", "Lost", "Oversize", "Said"]


class Said(NamedTuple):
    """A message that came on the stream of a request of ours and is not its answer: it is about that request.

    Only where each request has a stream of its own (2025-03-26 to 2025-11-25 basic/transports, Sending Messages to the
    Server: such messages SHOULD relate to the request).
    """

    message: bytes
    stream: int  # the id of that request


class Lost(NamedTuple):
    """A request of ours has no answer to come any more; the channel lives on.

    Where each request has an HTTP exchange of its own, it comes at the end of each. What was answered before it is not
    affected.
    """

    id: int
    reason: str  # a sentence for a person
    status: int | None = None  # of the HTTP answer, where there was one
    reached: bool = True  # whether a connection to the server could be made


class Gap(NamedTuple):
    """What the server said that answers no request may have been lost up to here; the channel lives on.

    It comes where such messages have a stream of their own, and that was opened again.
    """

    forgotten: bool  # and the server has forgotten what it was subscribed to for


class ClientChannel(Protocol):
    """What a client needs of a channel to its server. One task receives; any task sends."""

    async def receive(self) -> Sequence[bytes | Oversize | Said | Lost | Gap]:
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

    def cancel(self, number: int, farewell: bytes | None) -> None:
        """Say that the request ``number`` of ours is no longer awaited, in the way that this channel has for it.

        ``farewell`` is the notification that says so; ``None`` where nothing may be said. Never blocks.
        """
        ...

    async def flush(self) -> None:
        """Wait until all that is queued was written, or the peer has gone. Bound it with a deadline."""
        ...


class Channel(ClientChannel, Protocol):
    """A duplex of messages, either end of it."""

    async def receive(self) -> list[bytes | Oversize]:
        """The next messages; see ``ClientChannel``."""
        ...
