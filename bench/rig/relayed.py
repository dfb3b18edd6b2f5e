"""What the benchmark of the whole way found, and how it is told: tables, ratios, a chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rig.chart import bars
from rig.gateways import LIMITS, NO_GATEWAY, OURS
from rig.report import number, table
from rig.rounds import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rig.gateways import Cell, Gateway
    from rig.report import Report


class Quantity(NamedTuple):
    """A column: what is measured, and in which unit."""

    head: str
    unit: str


P50 = Quantity("p50 ms", "ms")
P99 = Quantity("p99 ms", "ms")
RATE = Quantity("calls/s", "1/s")
CPU = Quantity("CPU µs", "µs")
UPSTREAM = Quantity("upstream µs", "µs")
LOAD = Quantity("load µs", "µs")
LARGE = Quantity("1 MB ms", "ms")
START = Quantity("start ms", "ms")
RESIDENT = Quantity("MiB", "MiB")
QUANTITIES = (P50, P99, RATE, CPU, UPSTREAM, LOAD, LARGE, START, RESIDENT)


@dataclass
class Row:
    """One gateway at one cell: a value of each quantity for each round, and what could not be had."""

    gateway: Gateway
    cell: Cell
    values: dict[Quantity, list[float]] = field(default_factory=dict[Quantity, list[float]])
    failures: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once

    @property
    def hopeless(self) -> bool:
        """Nothing came of it: it need not be tried again."""
        return bool(self.failures) and not self.values

    def series(self, quantity: Quantity) -> Series | None:
        values = self.values.get(quantity)
        return Series(values) if values else None

    def median(self, quantity: Quantity) -> float | None:
        series = self.series(quantity)
        return series and series.median

    def add(self, quantity: Quantity, value: float) -> None:
        self.values.setdefault(quantity, []).append(value)

    def fail(self, why: str) -> None:
        self.failures[why] = None


class Rows:
    """All of one run."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._cells = list(dict.fromkeys(row.cell for row in rows))

    def fill(self, report: Report) -> None:
        for row in self._rows:
            for quantity, values in row.values.items():
                labels = {"way": str(row.cell.way), "eras": str(row.cell.eras), "gateway": row.gateway.name}
                report.add(quantity.unit, values, **labels, quantity=quantity.head)

    def tables(self) -> str:
        """One for each way and pair of eras, and under it what could not be had, with what was seen."""
        parts: list[str] = []
        head = ["gateway", P50.head, "±", "adds ms", RATE.head, "±", *(quantity.head for quantity in _REST)]
        for cell in self._cells:
            here = self._of(cell)
            alone = self._median(cell, NO_GATEWAY, P50)
            lines = [_line(row, alone) for row in here if row.values]
            parts += ["", str(cell), *([table(head, lines)] if lines else [])]
            for why in dict.fromkeys(why for row in here for why in row.failures):
                parts.append(f"{', '.join(row.gateway.name for row in here if why in row.failures)}: {why}")
        return "\n".join(parts)

    def ratios(self) -> str:
        """Ours against the bare relay, which is the limit, and against the best of the peers, cell by cell."""
        head = ["mcpx against", "calls/s of relay", "of best peer", "p50 of relay", "of best peer", "CPU of straight"]
        lines: list[list[str]] = []
        for cell in self._cells:
            rate, p50 = (self._median(cell, OURS, quantity) for quantity in (RATE, P50))
            if rate is None or p50 is None:
                continue
            figures = [
                _ratio(rate, self._median(cell, LIMITS[-1], RATE)),
                _ratio(rate, self._best(cell, RATE, max)),
                _ratio(p50, self._median(cell, LIMITS[-1], P50)),
                _ratio(p50, self._best(cell, P50, min)),
                self._crossing(cell),
            ]
            lines.append([str(cell), *figures])
        return table(head, lines) if lines else ""

    def picture(self, in_flight: int) -> str:
        groups: dict[str, dict[str, float]] = {}
        for row in self._rows:
            if (rate := row.median(RATE)) is not None:
                groups.setdefault(str(row.cell), {})[row.gateway.name] = rate
        return bars(f"Calls a second, {in_flight} in flight", RATE.head, groups, log=True)

    def _of(self, cell: Cell) -> list[Row]:
        return [row for row in self._rows if row.cell == cell]

    def _median(self, cell: Cell, name: str, quantity: Quantity) -> float | None:
        return next((row.median(quantity) for row in self._of(cell) if row.gateway.name == name), None)

    def _best(self, cell: Cell, quantity: Quantity, best: Callable[[list[float]], float]) -> float | None:
        peers = [row.median(quantity) for row in self._of(cell) if row.gateway.name not in (OURS, NO_GATEWAY, *LIMITS)]
        found = [value for value in peers if value is not None]
        return best(found) if found else None

    def _crossing(self, cell: Cell) -> str:
        """A crossed cell's processor time for a call, over that of both straight cells, of which it has half each."""
        if not cell.eras.crossed:
            return ""
        straight = [other for other in self._cells if other.way == cell.way and not other.eras.crossed]
        found = [cpu for other in straight if (cpu := self._median(other, OURS, CPU)) is not None]
        ours = self._median(cell, OURS, CPU)
        assert ours is not None
        return _ratio(ours, sum(found) / len(found) if len(found) == 2 else None)


_REST = tuple(quantity for quantity in QUANTITIES if quantity not in (P50, RATE))


def _line(row: Row, alone: float | None) -> list[str]:
    p50, rate = row.series(P50), row.series(RATE)
    assert p50 is not None
    assert rate is not None
    adds = "" if alone is None else number(p50.median - alone)
    medians = (row.median(quantity) for quantity in _REST)
    return [
        row.gateway.name,
        number(p50.median),
        f"{p50.spread:.0%}",
        adds,
        number(rate.median),
        f"{rate.spread:.0%}",
        *("" if median is None else number(median) for median in medians),
    ]


def _ratio(one: float, other: float | None) -> str:
    return "" if not other else f"{one / other:.2f}"
