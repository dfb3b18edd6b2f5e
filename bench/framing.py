"""What does it cost to take a frame off a byte stream, route it, and put it back on one?

Five frames, three jobs, several contenders on the same bytes in the same run. ``README.md`` beside this file says what
is compared and how to read it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw
from rig import chart
from rig.contenders.contender import JOBS
from rig.contenders.peers import NotInstalled
from rig.contenders.plain import standard_library
from rig.contenders.remote import ContenderFailed
from rig.contenders.roster import FLOOR, OURS, ROSTER, open_contenders
from rig.machine import machine
from rig.process import interruptible
from rig.report import Report, add_outputs, figure, number, table, write_outputs
from rig.rounds import Series, interleave
from rig.samples import Sample, samples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rig.contenders.contender import Contender, Outcome, Timer

WARM_UP = 10  # measurements before the first that counts
CHARTED = "rewrite"  # the job that a gateway does


class Cell(NamedTuple):
    """One contender at one job on one frame."""

    job: str
    sample: Sample
    contender: str


class Disagreement(Exception):
    """A contender does not do the same as the standard library."""


def check(contender: Contender, job: str, sample: Sample) -> None:
    """Refuse to measure one who does not do the job: what comes out must be equal to the reference's, as JSON."""
    reference = standard_library()
    if plain(contender.once(job, sample)) != plain(reference.once(job, sample)):
        raise Disagreement(f"{contender.name} does not do the job {job!r} on {sample.name!r} as {reference.name} does")


def plain(outcome: Outcome) -> Any:
    """An outcome as Python's own values, which can be compared."""
    if isinstance(outcome, bytes):
        if not outcome.endswith(b"\n") or outcome.count(b"\n") != 1:
            raise Disagreement("what came out is not one line")
        return json.loads(outcome)
    kind, id, method = outcome
    return kind, json.loads(bytes(id)) if isinstance(id, Raw) else id, method or None


def repetitions(timer: Timer, budget: float) -> int:
    """How often to do it within so many seconds, found out when it is warm: compilers watch for a while first."""
    count, spent = 1, 0.0
    while spent < WARM_UP * budget:
        seconds = timer(count)
        spent += seconds
        count = max(1, round(count * budget / max(seconds, budget / 10)))
    return count


def measure(contenders: Sequence[Contender], frames: Sequence[Sample], rounds: int, budget: float) -> Times:
    """Seconds for one frame, for every cell."""
    tasks: dict[Cell, Callable[[], float]] = {}
    for job, sample, contender in itertools.product(JOBS, frames, contenders):
        if job not in contender.jobs:
            continue
        if contender.name != FLOOR:
            check(contender, job, sample)
        timer = contender.timer(job, sample)
        tasks[Cell(job, sample, contender.name)] = partial(_each, timer, repetitions(timer, budget))
    return interleave(tasks, rounds)


def _each(timer: Timer, count: int) -> float:
    return timer(count) / count


# -- reporting


def describe(times: Times, report: Report) -> None:
    """Put every cell into the report: the time, and what it makes in frames and bytes a second on one core."""
    for (job, sample, contender), series in times.items():
        labels = {"job": job, "frame": sample.name, "contender": contender}
        size = len(sample.stream)
        report.add("microseconds", series.map(lambda seconds: seconds * 1e6), **labels)
        report.add("frames/s", series.map(lambda seconds: 1 / seconds), **labels)
        report.add("MB/s", series.map(lambda seconds, size=size: size / seconds / 1e6), **labels)


def tables(times: Times) -> str:
    """Two tables for each job."""
    return "\n\n".join(
        f"{job}: {what}\n\n{_costs(found)}\n\n{_rates(found)}"
        for job, what in JOBS.items()
        if (found := {(cell.contender, cell.sample): series for cell, series in times.items() if cell.job == job})
    )


def _costs(found: Found) -> str:
    """Microseconds for one frame with their spread, and how many times mcpx's they are."""
    frames = _frames(found)
    rows: list[list[str]] = []
    for name in _names(found):
        row = [name]
        for sample in frames:
            series = found[name, sample]
            times = series.median / found[OURS, sample].median
            row += [figure(series.map(lambda seconds: seconds * 1e6)), f"×{number(times)}"]
        rows.append(row)
    head = itertools.chain.from_iterable((sample.name, "") for sample in frames)
    return table(["µs a frame", *head], rows)


def _rates(found: Found) -> str:
    """Frames, and megabytes (of a million bytes) that come in, a second."""
    frames = _frames(found)
    rows: list[list[str]] = []
    for name in _names(found):
        row = [name]
        for sample in frames:
            rate = 1 / found[name, sample].median
            row += [number(rate), number(rate * len(sample.stream) / 1e6)]
        rows.append(row)
    head = itertools.chain.from_iterable((sample.name, "MB/s") for sample in frames)
    return table(["frames/s", *head], rows)


def picture(times: Times, report: Report) -> str:
    """A chart of the job that a gateway does: times as multiples of mcpx's, which hold on other machines."""
    groups: dict[str, dict[str, float]] = {}
    for (job, sample, contender), series in times.items():
        if job == CHARTED:
            ours = times[Cell(job, sample, OURS)]
            groups.setdefault(sample.name, {})[contender] = series.median / ours.median
    note = f"{report.machine['python']}, {report.machine['cpu']}; medians of {report.options['rounds']} rounds"
    return chart.bars(
        "Framing: decode, another id and name, encode", "time for a frame; mcpx is 1, less is faster", groups, note=note
    )


def _names(found: Found) -> list[str]:
    return list(dict.fromkeys(name for name, _ in found))


def _frames(found: Found) -> list[Sample]:
    return list(dict.fromkeys(sample for _, sample in found))


def run(options: argparse.Namespace) -> None:
    frames = [sample for sample in samples() if options.only in sample.name]
    if not frames:
        sys.exit(f"No frame has {options.only!r} in its name; there are: {', '.join(each.name for each in samples())}")
    about = machine()
    with open_contenders(options.without) as contenders:
        versions = {contender.name: contender.version for contender in contenders}
        settings = {name: getattr(options, name) for name in ("rounds", "budget", "only", "without")}
        report = Report("framing", about, versions, settings)
        print(report.heading())
        print("One core. Median of the rounds, half the distance of their quartiles, and how many times mcpx's it is.")
        times = measure(contenders, frames, options.rounds, options.budget / 1000)
    describe(times, report)
    print(f"\n{tables(times)}")
    write_outputs(options, report, picture(times, report))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how often each cell is measured (15)")
    parser.add_argument("--budget", type=float, default=10.0, help="milliseconds for one measurement (10)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the frames whose name holds this")
    others = [name for name in ROSTER if name != OURS]
    parser.add_argument(
        "--without", action="append", default=[], choices=others, metavar="NAME", help=f"leave out: {', '.join(others)}"
    )
    add_outputs(parser)
    with interruptible():
        try:
            run(parser.parse_args())
        except (NotInstalled, ContenderFailed, Disagreement) as problem:
            sys.exit(str(problem))


if TYPE_CHECKING:
    Times = Mapping[Cell, Series]
    Found = Mapping[tuple[str, Sample], Series]  # of one job, by contender and frame


if __name__ == "__main__":
    main()
