"""How a cost grows along an axis."""

from __future__ import annotations

import pytest
from rig.growth import each, growth, ratios, verdict


def test_each_is_told_against_the_first() -> None:
    assert ratios([2.0, 4.0, 1.0]) == [1.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("costs", "grown"),
    [([5.0], 1.0), ([5.0, 4.0, 3.0], 1.0), ([2.0, 3.0, 5.0], 2.5), ([8.0, 2.0, 3.0], 1.5), ([1.0, 4.0, 1.0], 4.0)],
    ids=["one point", "falls", "rises", "falls, then rises", "rises, then falls"],
)
def test_growth_is_from_any_point_to_a_later_one(costs: list[float], grown: float) -> None:
    assert growth(costs) == grown


def test_flat_is_within_a_fifth() -> None:
    assert verdict([10.0, 12.0]) == "flat"
    assert verdict([10.0, 12.5]) == "GROWS to 1.25 times"


def test_what_one_more_takes_is_beyond_the_first_point() -> None:
    assert each({1: 1000.0, 11: 1500.0, 101: 4000.0}) == {11: 50.0, 101: 30.0}
