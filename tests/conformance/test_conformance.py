"""The official suite through mcpx comes out as ``expected.py`` and ``docs/conformance.md`` say, check by check."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.conformance import client_leg, server_leg, suite
from tests.conformance.expected import ANY, CAUSES, CLIENT_LEG, DIRECTLY, SERVER_LEG, Short, in_cell
from tests.conformance.page import PAGE, rendered
from tests.conformance.server_leg import CELLS, REVISIONS, Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# What did not pass: a scenario, one of its checks, and that it failed, warned or was skipped; each as often as it did.
Found = Counter[tuple[str, str, str]]

# These measure time, which a busy machine spoils: they get a second chance.
TIMED = {"sse-retry"}


def _found(outcomes: Mapping[str, suite.Outcome], loose: Iterable[Short]) -> Found:
    """What did not pass; of the scenarios of which ``loose`` names no checks only that they did not."""
    opaque = {short.scenario for short in loose if ANY in short.failing + short.skipped}
    found: Found = Counter()
    for name, outcome in outcomes.items():
        if not outcome.checks:
            found[name, ANY, "FAILURE"] += 1
        for status in ("FAILURE", "WARNING", "SKIPPED"):
            checks = outcome.of(status)
            if checks and name in opaque:
                found[name, ANY, status] += 1
                break
            found.update((name, check.id, status) for check in checks)
    return found


def _expected(shorts: Iterable[Short]) -> Found:
    found: Found = Counter()
    for short in shorts:
        found.update((short.scenario, check, "FAILURE") for check in short.failing)
        found.update((short.scenario, check, "WARNING") for check in short.warning)
        found.update((short.scenario, check, "SKIPPED") for check in short.skipped)
    return found


def _assert_as_expected(outcomes: Mapping[str, suite.Outcome], shorts: tuple[Short, ...], names: Iterable[str]) -> None:
    assert set(outcomes) == set(names), "not every scenario was run"
    found, expected = _found(outcomes, shorts), _expected(shorts)
    assert not found - expected, "these no longer pass"
    assert not expected - found, "these pass now: take them out of expected.py, and make docs/conformance.md anew"


@pytest.mark.deadline(server_leg.LEG_LIMIT)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_fixture_has_what_the_suite_asks_for(revision: str, tmp_path: Path) -> None:
    wanted = suite.requirements(revision)
    outcomes = await server_leg.run_directly(revision, tmp_path)
    _assert_as_expected(outcomes, DIRECTLY[revision], wanted.server + wanted.server_unscored)


@pytest.mark.deadline(server_leg.LEG_LIMIT)
@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_server_leg(cell: Cell, tmp_path: Path) -> None:
    wanted = suite.requirements(cell.requirements)
    outcomes = await server_leg.run_cell(cell, tmp_path)
    _assert_as_expected(outcomes, in_cell(cell), wanted.server + wanted.server_unscored)


@pytest.mark.deadline(10 * client_leg.SCENARIO_LIMIT)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_client_leg(revision: str, tmp_path: Path) -> None:
    names = client_leg.scenarios(revision)
    outcomes = {name: await client_leg.run_scenario(name, revision, tmp_path / name) for name in names}
    for name in TIMED & outcomes.keys():
        if _found({name: outcomes[name]}, ()):
            outcomes[name] = await client_leg.run_scenario(name, revision, tmp_path / f"{name} again")
    _assert_as_expected(outcomes, CLIENT_LEG[revision], names)


def test_the_page_says_what_is_expected() -> None:
    page = PAGE.read_text()
    assert rendered(page) == page, "python -m tests.conformance.page makes its tables anew"


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_expected_to_fail_exists_and_has_a_cause(revision: str) -> None:
    wanted = suite.requirements(revision)
    server, client = wanted.server + wanted.server_unscored, client_leg.scenarios(revision)
    shorts = [*SERVER_LEG[revision], *CLIENT_LEG[revision], *DIRECTLY[revision]]
    assert {short.scenario for short in SERVER_LEG[revision] + DIRECTLY[revision]} <= set(server)
    assert {short.scenario for short in CLIENT_LEG[revision]} <= set(client)
    assert {short.cause for short in shorts} <= set(CAUSES)
    assert all(short.failing or short.warning or short.skipped for short in shorts)
