"""One request of a host, once it is known in which revision it is to be read and answered, and its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    import trio

    from mcpx.gateway.exchange import Exchange
    from mcpx.host.desk import Desk
    from mcpx.host.logs import HostLogs
    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import Asker


class Way(Protocol):
    """The way to a host for whole messages, as ``Channel`` has it: what is said on it arrives in order."""

    async def send(self, message: bytes) -> None:
        """Say something, waiting while the host is far behind."""
        ...

    def offer(self, message: bytes) -> bool:
        """Say something at once, unless the host is far behind or does not listen; say whether it was said.

        For what a host can do without.
        """
        ...

    async def flush(self) -> None:
        """Wait until the host has taken all that was said."""
        ...


class Relay(Protocol):
    """What is said to a host unasked; see ``mcpx.host.changes``."""

    @property
    def logs(self) -> HostLogs:
        """The log level of the host, and what it is told of log messages."""
        ...

    @property
    def subscribed(self) -> int:
        """How many resources the host has subscribed to."""
        ...

    def follow(self, handshake: Handshake) -> None:
        """From now on say what the host of this handshake was promised; what an earlier one was, no longer."""
        ...

    def promise(self, handshake: Handshake) -> None:
        """What the host of a handshake is promised is known now."""
        ...

    async def subscribe(self, asker: Asker, uri: str) -> None:
        """Say each update of a resource from now on, until ``unsubscribe``."""
        ...

    def unsubscribe(self, uri: str) -> None:
        """Say no more of a resource."""
        ...


class Handshake(msgspec.Struct, eq=False):
    """What a legacy host agreed on: all that mcpx remembers of it between requests.

    A connection has one from the start, for the requests of a host that never shakes hands; a second ``initialize``
    replaces it as a whole.
    """

    revision: str
    asker: Asker
    agreed: bool = False  # whether there was one
    declared: frozenset[ChangeKind] = frozenset()  # the lists whose changes it was promised to hear of


class Inbound(msgspec.Struct, eq=False):
    """A request with its metadata read and taken off."""

    method: str
    params: dict[str, Raw]  # without `_meta`
    meta: dict[str, Raw]  # what of `_meta` passes through
    revision: str  # in which it is written and will be answered
    modern: bool
    asker: Asker
    token: Raw | None = None  # its progress token, as the host wrote it
    handshake: Handshake | None = None  # of an `initialize`: what it brought about


class Turn(msgspec.Struct, eq=False):
    """What a handler has beside the request itself: the conversation that it is a part of."""

    id: Raw  # of the request, as the host wrote it
    way: Way  # that its answer will take, for notifications that belong to it
    ending: trio.Event  # set when the conversation ends: what would stay open is to end by itself, soon
    relay: Relay
    caller: str  # who makes the request, for whom alone a state is good that is given out with its answer
    desk: Desk | None = None  # where the host is asked; None where it cannot be
    begun: Exchange | None = None  # of the request, where that was sent already
    epilogue: bytes | None = None  # a notification that follows the answer, where others share its way
