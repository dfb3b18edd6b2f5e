"""How a cost grows along an axis: against its first point, at its worst, and for each of what there is more of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FLAT = 1.2  # a cost that grows by no more than this from one point to any later one


def ratios(costs: Sequence[float]) -> list[float]:
    """Each against the first."""
    return [cost / costs[0] for cost in costs]


def growth(costs: Sequence[float]) -> float:
    """The most that it grows from any point to a later one; at least 1, as from a point to itself.

    Not from the first alone: a cost that falls and then rises again does grow.
    """
    least, most = costs[0], 1.0
    for cost in costs:
        least = min(least, cost)
        most = max(most, cost / least)
    return most


def verdict(costs: Sequence[float]) -> str:
    grown = growth(costs)
    return "flat" if grown <= FLAT else f"GROWS to {grown:.2f} times"


def each(amounts: Mapping[int, float]) -> dict[int, float]:
    """What one more of them takes: how much more there is than at the first point, for each that there are more."""
    first = next(iter(amounts))
    return {point: (amounts[point] - amounts[first]) / (point - first) for point in amounts if point != first}
