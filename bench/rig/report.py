"""What a benchmark tells: tables for people, and one shape of JSON for all benchmarks.

``{"bench", "machine", "versions", "options", "results": [{"labels", "unit", "values", "median", "spread"}]}``
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rig.machine import in_words
from rig.rounds import Series

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Result:
    """One cell: what was measured, in which unit, with a value for each round."""

    labels: Mapping[str, str]
    unit: str
    series: Series


@dataclass
class Report:
    """One run of one benchmark."""

    bench: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    options: Mapping[str, Any]
    results: list[Result] = field(default_factory=list[Result])

    def add(self, unit: str, series: Series | Sequence[float], **labels: str) -> None:
        """Take a result in. Every cell of a benchmark has the same labels, as ``job="rewrite", contender="mcpx"``."""
        self.results.append(Result(labels, unit, series if isinstance(series, Series) else Series(series)))

    def heading(self) -> str:
        """The machine and the versions, in words."""
        return in_words(self.machine, self.versions)

    def as_json(self) -> str:
        results = [
            {
                "labels": dict(result.labels),
                "unit": result.unit,
                "values": list(result.series.values),
                "median": result.series.median,
                "spread": result.series.spread,
            }
            for result in self.results
        ]
        head = {
            "bench": self.bench,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "options": {name: _plain(value) for name, value in self.options.items()},
        }
        return json.dumps({**head, "results": results}, indent=1, ensure_ascii=False) + "\n"


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The two options that every benchmark has, ``--json FILE`` and ``--svg FILE``; ``write_outputs`` heeds them."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value of every round as well")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a chart as well")


def write_outputs(options: argparse.Namespace, report: Report, svg: str) -> None:
    if options.json is not None:
        options.json.write_text(report.as_json(), encoding="utf-8")
    if options.svg is not None:
        options.svg.write_text(svg, encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns under their heads: the first ``left`` begin at the left, the others end at the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def figure(series: Series) -> str:
    """A median with its spread, as ``12.3 ± 2%``; a single value is alone."""
    if len(series.values) < 2:
        return number(series.median)
    return f"{number(series.median)} ±{series.spread:3.0%}"


def number(value: float) -> str:
    """Three figures, or all that are before the point: ``0.423``, ``8.50``, ``12.3``, ``67,123``."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
