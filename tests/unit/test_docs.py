"""What the documents say that can be looked up is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpx.config.servers import KEYS
from mcpx.config.values import TRANSPORTS
from mcpx.settings import SAFE_PREFIX, SAFE_VARIABLES, LimitRow, limit_rows

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

_UNITS = {"seconds": " s", "bytes": "", "count": ""}


def section(title: str) -> str:
    """The part of ``docs/configuration.md`` under a heading."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", CONFIGURATION, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def row(limit: LimitRow) -> str:
    unit = _UNITS[limit.unit]
    level = "" if limit.level == "server" else " (gateway)"
    valid = f"{limit.least:.15g} to {limit.most:.15g}"
    return f"| `{limit.key}` | {limit.default:.15g}{unit} | {valid} | {limit.about}{level} |"


def test_the_table_of_limits() -> None:
    table = "\n".join(
        ["| key | default | valid | what it bounds |", "| --- | --- | --- | --- |", *map(row, limit_rows())]
    )
    found = re.search(r"<!-- limits:[^>]*-->\n(.*?)<!-- /limits -->", section("Limits"), re.DOTALL)
    assert found is not None
    assert found[1].strip() == table


def test_every_key_of_a_server_has_a_row() -> None:
    documented = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section("A server"), re.MULTILINE)
    assert sorted(key for cell in documented for key in re.findall(r"`(\w+)`", cell)) == sorted(KEYS)


def test_every_spelling_of_a_transport_is_named() -> None:
    for spelling in TRANSPORTS:
        assert f"`{spelling}`" in section("A server")


def test_the_safe_variables() -> None:
    named = re.findall(r"`([A-Z_]+)`", section("A server's environment").split("\n\n")[2])
    assert tuple(named) == (*SAFE_VARIABLES, SAFE_PREFIX)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Links between our own documents: the file is there, and so is the heading."""
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", document.read_text()):
        name, _, anchor = target.partition("#")
        file = document.parent / name if name else document
        assert file.is_file(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, target
