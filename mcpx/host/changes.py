"""What a legacy host is told unasked: that a list has changed (the list pages of the legacy revisions), and in
pass-through whatever an upstream says that no revision defines.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, Self

import trio

from mcpx.spec.lists import LIST_CHANGED
from mcpx.upstream.call import Foreign
from mcpx.wire.frames import encode, notification

if TYPE_CHECKING:
    from types import TracebackType

    from mcpx.gateway.gateway import Gateway
    from mcpx.host.inbound import Handshake
    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import News

# Foreign notifications kept for a host that is slow to read; beyond it the oldest are dropped, as nobody knows what
# could be merged.
MAX_FOREIGN = 256

_NOTIFICATIONS: dict[ChangeKind, bytes] = {kind: encode(notification(method)) for kind, method in LIST_CHANGED.items()}


class Way(Protocol):
    """The way to a host, as ``Channel`` has it."""

    async def send(self, message: bytes) -> None: ...

    async def flush(self) -> None: ...


class ChangeRelay:
    """What has changed and was not yet said to one host: a set and no queue, so a slow host costs no memory.

    A context manager, whose end is the end of the watch on the gateway; ``run`` does the sending meanwhile.
    """

    def __init__(self, gateway: Gateway, channel: Way) -> None:
        self._gateway = gateway
        self._channel = channel
        self._watch = ExitStack()
        self._followed: Handshake | None = None
        self._foreign: deque[bytes] = deque(maxlen=MAX_FOREIGN)
        self._pending: dict[ChangeKind, None] = {}  # a set, in the order of the first change of each kind
        self._work = trio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.close()

    def follow(self, handshake: Handshake) -> None:
        """From now on relay what the host of this handshake was promised; what an earlier one was, no longer."""
        if handshake is self._followed:
            return

        def note(news: News) -> None:
            if isinstance(news, Foreign):
                self._foreign.append(encode(notification(news.method, news.params)))
                self._work.set()
            elif news.uri is None and news.kind in handshake.declared:
                self._pending[news.kind] = None
                self._work.set()

        self._watch.close()
        self._pending.clear()
        self._foreign.clear()
        self._followed = handshake
        self._watch.enter_context(self._gateway.watch(handshake.asker, note))

    async def run(self) -> None:
        """Send what is pending, one notification at a time, each when the host has taken all that went before it."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._pending or self._foreign:
                await self._channel.flush()
                while self._foreign:
                    await self._channel.send(self._foreign.popleft())
                kind = next(iter(self._pending), None)
                if kind is not None:  # a new handshake may have come meanwhile
                    del self._pending[kind]
                    await self._channel.send(_NOTIFICATIONS[kind])
