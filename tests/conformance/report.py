"""Tables of what a run came to, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.conformance.suite import Outcome


def table(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Rows by their first cell, with columns as wide as they need to be."""
    lines = [["", *columns], *([name, *cells] for name, cells in rows.items())]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns) + 1)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, *(f"  {line}" for line in shown)])


def mark(outcome: Outcome | None) -> str:
    """An outcome in a few characters: passed and failed checks, and warnings where there are some."""
    if outcome is None:
        return "not run"
    warnings = len(outcome.of("WARNING"))
    state = "FAIL" if outcome.failed else "ok"
    failed = len(outcome.of("FAILURE"))
    return f"{state} {outcome.passed}/{outcome.passed + failed}" + (f", {warnings} warned" if warnings else "")


def score(outcomes: Mapping[str, Outcome], scored: Sequence[str]) -> str:
    """How many of the scored scenarios passed."""
    passed = sum(name in outcomes and not outcomes[name].failed for name in scored)
    return f"{passed}/{len(scored)}"


def failures(outcomes: Mapping[str, Outcome]) -> str:
    """Every failed check and every warning, with the suite's own words."""
    lines: list[str] = []
    for name, outcome in outcomes.items():
        if not outcome.checks:
            lines.append(f"  {name}: it came to nothing")
        for status in ("FAILURE", "WARNING"):
            lines += [f"  {name}: {status} {check.id}: {check.message[:300]}" for check in outcome.of(status)]
    return "\n".join(lines)
