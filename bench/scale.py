"""How does cost grow: with servers, with tools, with hosts, with calls in flight?

One axis a section, each point of it with a new mcpx. ``README.md`` beside this file says what is measured and how to
read it.
"""

from __future__ import annotations

import argparse
import resource
import sys
from typing import TYPE_CHECKING

from rig.axes import AXES, Axis, Quantity
from rig.chart import bars, lines
from rig.growth import ratios
from rig.machine import machine, require_linux, versions
from rig.process import interruptible
from rig.report import Report, add_outputs, figure, table, write_outputs
from rig.rounds import Series, turns
from rig.started import FailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rig.axes.axis import Medians

Values = dict[Quantity, list[float]]


class Section:
    """One axis: for each point of it a value of each quantity for each round, and what could not be had."""

    def __init__(self, axis: Axis, points: Sequence[int]) -> None:
        self.axis = axis
        self._points = points
        self._values: dict[int, Values] = {point: {} for point in points}
        self._failures: dict[str, None] = {}  # in order, each once

    def measure(self, rounds: int, seconds: float) -> None:
        for point in turns(self._points, rounds):
            try:
                measured = self.axis.measure(point, seconds)
            except FailedError as error:
                self._failures[f"{self.axis.label(point)}: {error}"] = None
                continue
            for quantity, value in measured.items():
                self._values[point].setdefault(quantity, []).append(value)

    def series(self) -> Mapping[int, Mapping[Quantity, Series]]:
        """Of all points that could be measured."""
        return {
            point: {quantity: Series(found) for quantity, found in values.items()}
            for point, values in self._values.items()
            if values
        }

    def medians(self) -> Medians:
        return {
            point: {quantity: one.median for quantity, one in values.items()} for point, values in self.series().items()
        }

    def text(self) -> str:
        """The table, what follows from it, and what could not be had."""
        series = self.series()
        parts = ["", self.axis.title]
        if series:
            quantities = list(next(iter(series.values())))
            rows = [
                [self.axis.label(point), *(figure(values[quantity]) for quantity in quantities)]
                for point, values in series.items()
            ]
            parts.append(table([self.axis.of, *(quantity.head for quantity in quantities)], rows))
        if len(series) > 1:
            parts += self.axis.remarks(self.medians())
        return "\n".join([*parts, *self._failures])

    def relative(self) -> dict[str, list[tuple[float, float]]]:
        """Each cost that should not grow, against the first point."""
        medians = self.medians()
        costs: dict[str, list[float]] = {}
        for values in medians.values():
            for quantity, value in values.items():
                if quantity.held:
                    costs.setdefault(quantity.head, []).append(value)
        return {head: list(zip(map(float, medians), ratios(found), strict=True)) for head, found in costs.items()}


def chart(sections: Sequence[Section]) -> str:
    """The processor time of a call along each axis that has one, against its first point; else what comes first."""
    series: dict[str, list[tuple[float, float]]] = {}
    for section in sections:
        for head, points in section.relative().items():
            if "CPU" in head and len(points) > 1:
                series[f"{section.axis.name}, {head.removesuffix(' µs')}"] = points
    if not series:
        return first_column(sections[0])
    return lines(
        "Processor time of a call, against the first point",
        "upstreams, tools, hosts, sessions, streams or calls in flight",
        "times the first point's",
        series,
        log_x=True,
    )


def first_column(section: Section) -> str:
    """Of a section whose points are no axis, as the start's."""
    medians = section.medians()
    quantity = next(iter(next(iter(medians.values()))))
    shown = {section.axis.label(point): values[quantity] for point, values in medians.items()}
    return bars(section.axis.title, quantity.unit, {quantity.head: shown})


def allow_descriptors() -> None:
    """Let this process have all that it may; mcpx inherits it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [axis.name for axis in AXES]
    parser.add_argument("--axis", nargs="+", choices=names, default=names, metavar="AXIS", help=", ".join(names))
    parser.add_argument("--points", nargs="+", type=int, metavar="N", help="other points of these axes than their own")
    parser.add_argument(
        "--era", choices=["legacy", "modern"], default="legacy", help="where an axis does not say it (legacy)"
    )
    parser.add_argument("--rounds", type=int, help="how often each point is started and measured (3)")
    parser.add_argument("--seconds", type=float, help="for each measurement of a round (0.7)")
    parser.add_argument("--quick", action="store_true", help="one round, 0.2 seconds each, without the last points")
    add_outputs(parser)
    found = parser.parse_args()
    found.rounds = found.rounds or (1 if found.quick else 3)
    found.seconds = found.seconds or (0.2 if found.quick else 0.7)
    return found


def main() -> None:
    require_linux()
    allow_descriptors()
    asked = options()
    report = Report("scale", machine(), versions("mcpx", "trio", "msgspec"), dict(vars(asked)))
    print(report.heading(), flush=True)
    sections: list[Section] = []
    with interruptible():
        for axis in [make(asked.era) for make in AXES if make.name in asked.axis]:
            section = Section(axis, asked.points or (axis.quick if asked.quick else axis.points))
            section.measure(asked.rounds, asked.seconds)
            sections.append(section)
            print(section.text(), flush=True)
            for point, values in section.series().items():
                for quantity, series in values.items():
                    report.add(quantity.unit, series, axis=axis.name, point=axis.label(point), quantity=quantity.head)
    if not report.results:
        sys.exit("Nothing could be measured.")
    write_outputs(asked, report, chart(sections))


if __name__ == "__main__":
    main()
