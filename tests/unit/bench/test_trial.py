"""How many calls fill a while."""

from __future__ import annotations

import pytest
from rig.trial import calls_for


@pytest.mark.parametrize(
    ("rate", "least", "tried", "calls"),
    [
        (1_000.0, 1, [1, 4, 16, 64, 256], 1_000),
        (1_000.0, 500, [500], 1_000),
        (10.0, 64, [64], 64),
    ],
    ids=["until a tenth of the time was tried", "enough at once", "no fewer than there must be"],
)
def test_trials_grow(rate: float, least: int, tried: list[int], calls: int) -> None:
    trials: list[int] = []

    def run(count: int) -> float:
        trials.append(count)
        return rate

    assert calls_for(1.0, least, run) == calls
    assert trials == tried
