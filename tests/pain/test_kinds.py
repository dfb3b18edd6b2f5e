"""Each kind has a test, and each test names a kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pain.kinds import KINDS

_NAMES = [
    name
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if path.name != Path(__file__).name
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("number", KINDS)
def test_each_kind_has_a_test(number: int) -> None:
    assert any(name.startswith(f"test_pain_{number:02}_") for name in _NAMES)


def test_each_test_names_what_it_is_about() -> None:
    known = re.compile("|".join([*(f"test_pain_{number:02}_" for number in KINDS), "test_near_", "test_bad_"]))
    assert [name for name in _NAMES if not known.match(name)] == []
