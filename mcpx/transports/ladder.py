"""When to do what to a child that is to end: close its stdin, wait, SIGTERM, wait, SIGKILL.

Pure: the clock's reading comes in as an argument. (2026-07-28 basic/transports/stdio, Shutdown, and the lifecycle
pages of the older revisions, which have the same steps.)
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

REAP_TIME = 0.3  # the last of mcpx's own exit budget: SIGKILL, and reaping what it killed
REAP_LIMIT = 2.0  # as long for a child that mcpx outlives; only one in uninterruptible sleep needs more
EOF_SHARE = 0.75  # of a shortened ladder goes to the child that ends at EOF by itself, since it may be saving something


class Ladder(NamedTuple):
    """The moments of one shutdown, on the clock that the plan was made with."""

    term_at: float  # SIGTERM to the group, unless all of it has ended
    kill_at: float  # SIGKILL to the group
    end_at: float  # stop waiting for the kernel to hand over the exit status


def plan_ladder(start: float, end: float | None, stdin_grace: float, term_grace: float) -> Ladder:
    """Plan a shutdown that begins at ``start``, with the child's stdin being closed.

    ``end`` is when mcpx itself must have ended, ``None`` where it goes on. The waits are cut to leave the last
    ``REAP_TIME`` before it to SIGKILL; what remains is shared out by ``EOF_SHARE``, neither wait ever being longer than
    its setting. An ``end`` that is too near, or past, makes it SIGTERM and SIGKILL at once.
    """
    whole = stdin_grace + term_grace
    left = whole if end is None else min(whole, max(0.0, end - REAP_TIME - start))
    # SIGTERM's share first, then what the wait for EOF can use of the rest; what it cannot use is SIGTERM's again.
    for_term = min(term_grace, left * (1 - EOF_SHARE))
    for_stdin = min(stdin_grace, left - for_term)
    kill_at = start + left
    end_at = kill_at + REAP_LIMIT
    return Ladder(start + for_stdin, kill_at, end_at if end is None else min(end_at, max(end, kill_at + REAP_TIME)))


class ExitPlan:
    """When mcpx itself must have ended. One per gateway; every ladder is cut to fit it, those already begun as well."""

    def __init__(self) -> None:
        self._end: float | None = None
        self._followers: dict[object, Callable[[], None]] = {}

    @property
    def end(self) -> float | None:
        """The moment, on Trio's clock; ``None`` while mcpx goes on. Setting it reaches ladders that are under way."""
        return self._end

    @end.setter
    def end(self, moment: float | None) -> None:
        self._end = moment
        for replan in list(self._followers.values()):
            replan()

    @contextmanager
    def followed(self, replan: Callable[[], None]) -> Generator[None]:
        """Call ``replan`` at once, and whenever ``end`` is set, while entered."""
        key = object()
        self._followers[key] = replan
        try:
            replan()
            yield
        finally:
            del self._followers[key]
