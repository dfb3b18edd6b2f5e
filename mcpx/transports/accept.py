"""Accepting connections, whatever is spoken on them: what can go wrong, and how many there may be."""

from __future__ import annotations

import errno
from math import inf
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import NoReturn

# What accepting fails with while there is no room in the process or system for one more connection, which goes on to
# wait.
FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
FULL_PAUSE = 0.1  # seconds until the next try; nothing tells of room
FULL_TOLD = 60.0  # seconds until the log hears of it again
# A connection that ended before it was accepted.
LOST = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.ECONNRESET, errno.EPERM})

S = TypeVar("S", bound=trio.abc.AsyncResource)


async def accept_all(listener: trio.abc.Listener[S], take: Callable[[S], None], log: logging.Logger) -> NoReturn:
    """Hand each connection to ``take``, until cancelled. Raises ``OSError`` where the listener itself fails."""
    told = -inf
    while True:
        try:
            stream = await listener.accept()
        except OSError as error:
            if error.errno in FULL:
                if trio.current_time() - told >= FULL_TOLD:
                    told = trio.current_time()
                    log.error("No more hosts can connect for now: %s", error.strerror)
                await trio.sleep(FULL_PAUSE)
            elif error.errno not in LOST:
                raise
        else:
            take(stream)


class Places:
    """How many may be connected at once. The log hears of those who were refused, not of each by itself."""

    def __init__(self, most: int, log: logging.Logger) -> None:
        self._most = most
        self._log = log
        self._taken = 0
        self._refused = 0  # since there was last room

    def take(self) -> bool:
        """Take a place, if there is one."""
        if self._taken < self._most:
            self._taken += 1
            return True
        if not self._refused:
            self._log.warning("A host was refused: %d are connected already (maxConnections)", self._taken)
        self._refused += 1
        return False

    def give_back(self) -> None:
        """Leave a place that was taken."""
        self._taken -= 1
        if self._refused > 1:
            self._log.warning("So were %d more, until now", self._refused - 1)
        self._refused = 0
