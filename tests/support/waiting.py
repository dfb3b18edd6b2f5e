"""Waiting for something to become true, told of every change instead of looking again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio
import trio.testing

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE = 10.0  # seconds that a test waits for one thing on the wire; far more than it needs
BUSY = 2.0  # seconds that a busy machine may add to what a test times; exact times belong to the tests in virtual time


class Changes:
    """Those who wait for a condition, and those who tell that something changed."""

    def __init__(self) -> None:
        self._changed = trio.Event()

    def tell(self) -> None:
        """Something changed: every waiter looks at its condition again."""
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], T], what: str, within: float = PATIENCE) -> T:
        """The first true value of ``condition``; an ``AssertionError`` that says ``what`` where none comes in time.

        What had been written to the test before, on whatever other stream, has been read as well when this returns.
        """
        with trio.move_on_after(within):
            while not (value := condition()):
                await self._changed.wait()
            await trio.testing.wait_all_tasks_blocked()
            return value
        raise AssertionError(f"waited {within} s in vain for {what}")
