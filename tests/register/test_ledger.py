"""Each row of the ledger has a test, each test names a row, and each says in its docstring what it shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.register.ledger import LEDGER

FOLDER = Path(__file__).parent
_NAME = re.compile(r"test_(?P<kind>lv|sub)_(?P<number>\d\d)_\w+")


def _tests() -> list[tuple[str, ast.AsyncFunctionDef | ast.FunctionDef]]:
    return [
        (path.name, node)
        for path in sorted(FOLDER.glob("test_*.py"))
        if path.name != Path(__file__).name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.AsyncFunctionDef, ast.FunctionDef)) and node.name.startswith("test_")
    ]


def _row(name: str) -> str | None:
    match = _NAME.fullmatch(name)
    return f"{match['kind'].upper()}-{match['number']}" if match else None


def test_the_ledger_is_whole() -> None:
    """The forty rows on lifecycle and versioning, and the eighteen on subscriptions."""
    rows = [f"LV-{number:02}" for number in range(1, 41)] + [f"SUB-{number:02}" for number in range(1, 19)]
    assert list(LEDGER) == rows


@pytest.mark.parametrize("row", LEDGER)
def test_each_row_has_a_test(row: str) -> None:
    assert any(_row(node.name) == row for _, node in _tests())


def test_each_test_names_a_row_of_the_ledger() -> None:
    strays = [f"{file}: {node.name}" for file, node in _tests() if _row(node.name) not in LEDGER]
    assert strays == []


def test_each_test_says_what_it_shows() -> None:
    silent = [f"{file}: {node.name}" for file, node in _tests() if not ast.get_docstring(node)]
    assert silent == []
