"""What does a gateway cost on the whole way, from the host to the upstream and back?

Every gateway, every way that it has, every pair of eras, in one run. ``README.md`` beside this file says what is
measured and how to read it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rig.chart import bars
from rig.gateways import ERAS, WAYS, ByteRelay, Cell, Gateway, Mcpx, NoGateway, TrioRelay
from rig.loads import WrongAnswerError
from rig.machine import machine, require_linux
from rig.process import heed_sigterm
from rig.report import Report, add_outputs, number, table, write_outputs
from rig.rounds import Series, quantile, turns
from rig.started import FailedError, Started, started

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_FLIGHT = 64
GATEWAYS: list[type[Gateway]] = [NoGateway, ByteRelay, TrioRelay, Mcpx]


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
QUANTITIES = [P50, P99, RATE, CPU, UPSTREAM, LOAD, LARGE, START, RESIDENT]


@dataclass
class Row:
    """One gateway at one cell: a value of each quantity for each round, and what could not be had."""

    gateway: Gateway
    cell: Cell
    values: dict[Quantity, list[float]] = field(default_factory=dict[Quantity, list[float]])
    failures: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once

    def series(self, quantity: Quantity) -> Series | None:
        values = self.values.get(quantity)
        return Series(values) if values else None

    def add(self, quantity: Quantity, value: float) -> None:
        self.values.setdefault(quantity, []).append(value)

    def measure(self, seconds: float) -> None:
        """Start the gateway anew and measure all of it once; not again where it could do nothing the last time."""
        if self.failures and not self.values:
            return
        try:
            with started(self.gateway, self.cell) as gateway:
                self._measure(gateway, seconds)
        except FailedError as error:
            self.failures[str(error)] = None

    def _measure(self, gateway: Started, seconds: float) -> None:
        load = gateway.load
        load.check()
        taken = load.latencies(seconds)
        meters = {"gateway": gateway.cpu, "upstream": gateway.upstream_cpu}
        flow = load.throughput(IN_FLIGHT, seconds, meters)
        self.add(RESIDENT, gateway.resident())
        self.add(START, gateway.seconds * 1e3)
        self.add(P50, quantile(taken, 0.5) * 1e3)
        self.add(P99, quantile(taken, 0.99) * 1e3)
        self.add(RATE, flow.rate)
        self.add(CPU, flow.meters["gateway"] / flow.calls * 1e6)
        self.add(UPSTREAM, flow.meters["upstream"] / flow.calls * 1e6)
        self.add(LOAD, flow.own_cpu / flow.calls * 1e6)
        try:
            self.add(LARGE, Series(load.large(seconds)).median * 1e3)
        except (WrongAnswerError, OSError) as error:
            self.failures[f"a result of 1 MB: {error}"] = None


# -- reporting


def tell(rows: Sequence[Row]) -> str:
    """A table for each way and pair of eras, and under it what could not be had, with what was seen."""
    parts: list[str] = []
    for cell in dict.fromkeys(row.cell for row in rows):
        here = [row for row in rows if row.cell == cell]
        alone = next((row.series(P50) for row in here if isinstance(row.gateway, NoGateway)), None)
        head = ["gateway", P50.head, "±", "adds ms", *(quantity.head for quantity in QUANTITIES[1:])]
        lines = [[row.gateway.name, *_figures(row, alone)] for row in here if row.values]
        parts += ["", _title(cell), table(head, lines)]
        parts += [f"{row.gateway.name}: {why}" for row in here for why in row.failures]
    return "\n".join(parts)


def _title(cell: Cell) -> str:
    crossed = ", crossed" if cell.eras.crossed else ""
    return f"{cell.way.host} → {cell.way.upstream}, {cell.eras.host} host, {cell.eras.upstream} upstream{crossed}"


def _figures(row: Row, alone: Series | None) -> list[str]:
    p50 = row.series(P50)
    assert p50 is not None
    adds = "" if alone is None else number(p50.median - alone.median)
    rest = [row.series(quantity) for quantity in QUANTITIES[1:]]
    return [number(p50.median), f"{p50.spread:.0%}", adds, *("" if one is None else number(one.median) for one in rest)]


def chart(rows: Sequence[Row]) -> str:
    groups: dict[str, dict[str, float]] = {}
    for row in rows:
        if (rate := row.series(RATE)) is not None:
            groups.setdefault(_title(row.cell), {})[row.gateway.name] = rate.median
    return bars(f"Calls a second, {IN_FLIGHT} in flight", "calls/s", groups, log=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    ways, gateways = [str(way) for way in WAYS], [gateway.name for gateway in GATEWAYS]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, metavar="WAY", help=", ".join(ways))
    parser.add_argument(
        "--gateways", nargs="+", choices=gateways, default=gateways, metavar="NAME", help=", ".join(gateways)
    )
    parser.add_argument("--rounds", type=int, help="how often each gateway is started and measured (5)")
    parser.add_argument("--seconds", type=float, help="for each measurement of a round (0.7)")
    parser.add_argument("--quick", action="store_true", help="one round of 0.2 seconds each, for a first look")
    add_outputs(parser)
    found = parser.parse_args()
    found.rounds = found.rounds or (1 if found.quick else 5)
    found.seconds = found.seconds or (0.2 if found.quick else 0.7)
    return found


def main() -> None:
    require_linux()
    heed_sigterm()
    asked = options()
    gateways = [make() for make in GATEWAYS if make.name in asked.gateways]
    versions = {one.name: one.version() for one in gateways if one.version()}
    report = Report("relay", machine(), versions, dict(vars(asked)))
    cells = [Cell(way, eras) for way in WAYS if str(way) in asked.ways for eras in ERAS]
    rows = [Row(gateway, cell) for cell in cells for gateway in gateways]
    for row in rows:
        if refusal := row.gateway.refusal(row.cell):
            row.failures[refusal] = None
    print(report.heading(), flush=True)
    for row in turns(rows, asked.rounds):
        row.measure(asked.seconds)
    print(tell(rows))
    for row in rows:
        for quantity, values in row.values.items():
            labels = {"way": str(row.cell.way), "eras": str(row.cell.eras), "gateway": row.gateway.name}
            report.add(quantity.unit, values, **labels, quantity=quantity.head)
    write_outputs(asked, report, chart(rows))


if __name__ == "__main__":
    main()
