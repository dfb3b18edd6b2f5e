"""Rounds, and what is made of their values."""

from __future__ import annotations

from collections import Counter

import pytest
from rig.rounds import Series, interleave, quantile, turns


def test_each_has_its_turn_once_a_round_and_not_always_in_the_same_order() -> None:
    order = list(turns("abcdef", 8))
    rounds = ["".join(order[start : start + 6]) for start in range(0, len(order), 6)]
    assert [sorted(one) for one in rounds] == [list("abcdef")] * 8
    assert len(set(rounds)) > 1


def test_the_order_is_the_same_in_every_run() -> None:
    assert list(turns(range(20), 3)) == list(turns(range(20), 3))
    assert list(turns(range(20), 3)) != list(turns(range(20), 3, seed=1))


def test_what_tasks_return_is_collected_for_each_round() -> None:
    ran: Counter[str] = Counter()

    def task(name: str) -> float:
        ran[name] += 1
        return ran[name]

    found = interleave({"a": lambda: task("a"), "b": lambda: -task("b")}, 3)
    assert found == {"a": Series([1, 2, 3]), "b": Series([-1, -2, -3])}


@pytest.mark.parametrize(
    ("values", "median", "spread"),
    [
        ([5.0], 5.0, 0.0),
        ([4.0, 4.0, 4.0], 4.0, 0.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 3.0, 1 / 3),
        ([3.0, 1.0, 5.0, 2.0, 400.0], 3.0, 0.5),  # one that was disturbed says little
        ([0.0, 0.0, 1.0], 0.0, 0.0),  # no part of nothing
        ([-1.0, -2.0, -3.0], -2.0, 0.25),
    ],
)
def test_median_and_spread(values: list[float], median: float, spread: float) -> None:
    series = Series(values)
    assert series.median == median
    assert series.spread == pytest.approx(spread)


def test_another_unit_is_one_of_every_value() -> None:
    assert Series([1.0, 2.0, 4.0]).map(lambda seconds: 1 / seconds) == Series([1.0, 0.5, 0.25])


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_quantile_is_one_of_the_values(part: float, value: float) -> None:
    assert quantile(reversed(range(1, 101)), part) == value


def test_a_quantile_of_few() -> None:
    assert quantile([7.0], 0.99) == 7.0
