"""The limits of a call, and when they stand still."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import trio
from trio.testing import MockClock

from mcpx.upstream.clock import CallClock

if TYPE_CHECKING:
    from collections.abc import Callable


def at(*steps: tuple[float, Callable[[CallClock], object]], idle: float = 10, total: float = 30) -> list[object]:
    """What each step gives, so many seconds after the one before."""
    given: list[object] = []

    async def test() -> None:
        clock = CallClock(idle, total, 100)
        clock.start()
        for seconds, step in steps:
            await trio.sleep(seconds)
            given.append(step(clock))

    trio.run(test, clock=MockClock(autojump_threshold=0))
    return given


def expiry(clock: CallClock) -> float:
    """In how many seconds a limit may be over."""
    return round(clock.expiry - trio.current_time(), 6)


def over(clock: CallClock) -> bool:
    return clock.is_over


def test_progress_resets_the_idle_limit_and_not_the_total_one() -> None:
    assert at(
        (0, expiry),
        (9, CallClock.progress),
        (0, expiry),
        (9, CallClock.progress),
        (9, CallClock.progress),
        (0, expiry),
        (2, over),
        (1, over),
        (0, lambda clock: clock.is_capped),
    ) == [10, None, 10, None, None, 3, False, True, True]


def test_the_limits_of_the_server_stand_still_while_a_question_is_open() -> None:
    assert at(
        (4, lambda clock: clock.open("a")),
        (0, expiry),
        (50, lambda clock: clock.open("b")),
        (0, expiry),
        (10, lambda clock: clock.close("a")),
        (0, over),
        (0, expiry),
        (5, lambda clock: clock.close("b")),
        (0, expiry),
        (6, over),
        (0, lambda clock: clock.is_capped),
    ) == [None, 100, None, 50, None, False, 90, None, 6, True, False]


def test_a_question_whose_answer_is_overdue() -> None:
    assert at(
        (0, lambda clock: clock.open("a")),
        (60, lambda clock: clock.open("b")),
        (39, lambda clock: clock.overdue),
        (1, lambda clock: clock.overdue),
        (0, over),
        (0, lambda clock: clock.close("a")),
        (60, lambda clock: clock.overdue),
    ) == [None, None, [], ["a"], False, None, ["b"]]


def test_all_limits_stand_still_while_the_call_is_held() -> None:
    assert at(
        (4, lambda clock: clock.open("a")),
        (10, CallClock.hold),
        (0, expiry),
        (1000, CallClock.hold),
        (0, CallClock.release),
        (1000, lambda clock: clock.overdue),
        (0, CallClock.release),
        (0, expiry),
        (0, lambda clock: clock.close("a")),
        (0, expiry),
    ) == [None, None, inf, None, None, [], None, 90, None, 6]


def test_a_question_that_is_closed_twice_or_was_never_open_changes_nothing() -> None:
    assert at(
        (1, lambda clock: clock.close("a")),
        (0, lambda clock: clock.open("a")),
        (5, lambda clock: clock.close("a")),
        (0, lambda clock: clock.close("a")),
        (0, expiry),
    ) == [None, None, None, None, 9]
