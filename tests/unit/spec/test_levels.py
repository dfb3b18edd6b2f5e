"""The severities of log messages, in their order."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mcpx.spec.levels import LEVELS, is_level, lowest, reaches


def test_each_level_reaches_itself_and_what_is_less_severe() -> None:
    assert all(reaches(level, level) for level in LEVELS)
    assert all(reaches(above, below) and not reaches(below, above) for below, above in pairwise(LEVELS))


@pytest.mark.parametrize("word", [None, "", "Debug", "warn", "off"])
def test_other_words_are_none(word: str | None) -> None:
    assert not is_level(word)
    assert lowest([word]) is None


def test_the_lowest_is_what_lets_everything_through_that_is_wanted() -> None:
    assert lowest([]) is None
    assert lowest(["error", None, "notice", "warning"]) == "notice"
