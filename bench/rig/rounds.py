"""Measuring in rounds: everything once a round, in a new order each time.

What disturbs the machine for a while then disturbs all contenders alike, and none is always the one that runs after
another particular one.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

K = TypeVar("K")


@dataclass(frozen=True)
class Series:
    """One quantity, a value for each round."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half of what lies between the quartiles, as a part of the median; 0 where there is nothing to compare."""
        if len(self.values) < 2 or not self.median:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return (high - low) / 2 / abs(self.median)

    def map(self, function: Callable[[float], float]) -> Series:
        """The same in another unit: of every value, not of the median alone."""
        return Series([function(value) for value in self.values])


def quantile(values: Iterable[float], part: float) -> float:
    """The value that ``part`` (0 to 1) of all do not exceed, as 0.99 for the p99: one that was measured, not a mean."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def turns(keys: Iterable[K], rounds: int, seed: int = 0) -> Iterator[K]:
    """Each key once a round, in a new order each round. For tasks that must be awaited; else see ``interleave``."""
    everyone = list(keys)
    order = random.Random(seed)
    for _ in range(rounds):
        yield from order.sample(everyone, len(everyone))


def interleave(tasks: Mapping[K, Callable[[], float]], rounds: int, seed: int = 0) -> dict[K, Series]:
    """Run each task once a round and collect what it returns."""
    values: dict[K, list[float]] = {key: [] for key in tasks}
    for key in turns(tasks, rounds, seed):
        values[key].append(tasks[key]())
    return {key: Series(found) for key, found in values.items()}
