"""Changes on their way to those who watch for them: a server that repeats itself is heard once by each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.supervisor import Supervisor

# Different changes that wait to be told. Beyond it one is told at once, so that the server's reader takes the time for
# it, and the server has to wait.
MAX_WAITING = 256


class Announcer:
    """Passes changes on to ``tell``, one at a time, each once however often it is announced before its turn.

    What a change costs grows with the number of those who watch. So it is not paid for each frame of a server that
    says the same over and over, and between two changes all other tasks have their turn.
    """

    def __init__(self, tell: Callable[[Supervisor, ChangeKind, str | None], None]) -> None:
        self._tell = tell
        self._waiting: dict[tuple[Supervisor, ChangeKind, str | None], None] = {}  # in the order they came
        self._some = trio.Event()

    def announce(self, supervisor: Supervisor, kind: ChangeKind, uri: str | None) -> None:
        """Something has changed: told at the next turn, unless it waits for that already."""
        change = (supervisor, kind, uri)
        if change not in self._waiting and len(self._waiting) >= MAX_WAITING:
            self._tell(*change)
            return
        self._waiting[change] = None
        self._some.set()

    async def run(self) -> None:
        """Tell what is announced, until cancelled."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            while self._waiting:
                change = next(iter(self._waiting))
                del self._waiting[change]  # first: what changes again while it is told is told again
                self._tell(*change)
                await trio.lowlevel.checkpoint()
