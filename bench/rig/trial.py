"""How many calls fill a while: found out by trying fewer first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PART = 0.1  # of the time must have been tried
STEP = 4  # times the calls of one trial are those of the next


def calls_for(seconds: float, least: int, run: Callable[[int], float]) -> int:
    """So many calls, and at least ``least``, take about ``seconds``; ``run`` makes some and gives their rate."""
    count = least
    while count < PART * seconds * (rate := run(count)):
        count *= STEP
    return max(least, int(rate * seconds))
