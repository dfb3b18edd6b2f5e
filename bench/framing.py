"""What does it cost to take a frame off a byte stream, route it, and put it back on one?

Five frames, three jobs, several contenders on the same bytes in the same run. ``README.md`` beside this file says what
is compared and how to read it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from contenders import CONTENDERS, FLOOR, JOBS, REFERENCE, Timer
from msgspec import Raw
from rig.samples import Sample, samples


class Cell(NamedTuple):
    """One contender at one job on one frame."""

    job: str
    sample: str
    contender: str
    nanoseconds: list[float]  # for one frame, a figure for each round

    @property
    def median(self) -> float:
        return statistics.median(self.nanoseconds)

    @property
    def spread(self) -> float:
        """Half of what lies between the quartiles, as a part of the median."""
        if len(self.nanoseconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.nanoseconds, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def check(sample: Sample, job: str) -> None:
    """Refuse to measure contenders that do not do the same: what comes out must be equal, as JSON."""
    expected = _plain(REFERENCE.once(job, sample))
    for contender in CONTENDERS:
        if contender is not FLOOR and _plain(contender.once(job, sample)) != expected:
            sys.exit(f"{contender.name} does not do the job {job!r} on {sample.name!r} as {REFERENCE.name} does")


def _plain(outcome: Any) -> Any:
    if isinstance(outcome, bytes):
        assert outcome.endswith(b"\n")
        assert outcome.count(b"\n") == 1
        return json.loads(outcome)
    kind, id, method = outcome
    return kind, json.loads(bytes(id)) if isinstance(id, Raw) else id, method or None


def measure(rounds: int, budget: float, only: str) -> list[Cell]:
    """All cells, in rounds: each once a round, so that what disturbs the machine for a while disturbs all alike."""
    timers: list[tuple[Cell, Timer, int]] = []
    for job, sample in itertools.product(JOBS, samples()):
        if only not in sample.name:
            continue
        check(sample, job)
        for contender in CONTENDERS:
            timer = contender.timer(job, sample)
            timer(1)
            repetitions = max(1, round(budget / max(timer(3) / 3, 1e-9)))
            timers.append((Cell(job, sample.name, contender.name, []), timer, repetitions))
    order = random.Random(0)
    for _ in range(rounds):
        for cell, timer, repetitions in order.sample(timers, len(timers)):
            cell.nanoseconds.append(timer(repetitions) / repetitions * 1e9)
    return [cell for cell, _, _ in timers]


# -- reporting


def machine() -> dict[str, Any]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),  # before the run: other work on the machine spoils the figures
        "versions": {contender.name: contender.version for contender in CONTENDERS},
    }


def table(cells: list[Cell], about: dict[str, Any]) -> str:
    found = {(cell.job, cell.sample, cell.contender): cell for cell in cells}
    names = [contender.name for contender in CONTENDERS]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        f"{about['python']}, {about['system']}, {about['cpus']} CPUs, load {about['load']} before the run",
        versions,
        "Microseconds for one frame: median of the rounds, and half the distance of their quartiles in per cent of it.",
    ]
    for job, what in JOBS.items():
        lines += ["", f"{job}: {what}"]
        lines.append(
            "  ".join([" " * 16, *(f"{name:>14}" for name in names), f"{'json/mcpx':>9}", f"{'mcpx/msgspec':>12}"])
        )
        for sample in dict.fromkeys(cell.sample for cell in cells):
            row = {name: found[job, sample, name] for name in names}
            figures = [f"{cell.median / 1000:9.2f} ±{cell.spread:3.0%}" for cell in row.values()]
            faster = row["json"].median / row["mcpx"].median
            behind = row["mcpx"].median / row["msgspec"].median
            lines.append(
                "  ".join(
                    [f"{sample:16}", *(f"{figure:>14}" for figure in figures), f"{faster:9.1f}", f"{behind:12.2f}"]
                )
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how often each cell is measured (15)")
    parser.add_argument("--budget", type=float, default=10.0, help="milliseconds for one measurement (10)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the frames whose name holds this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round as well")
    options = parser.parse_args()
    about = machine()
    cells = measure(options.rounds, options.budget / 1000, options.only)
    print(table(cells, about))
    if options.json is not None:
        rows = [{**cell._asdict(), "median": cell.median, "spread": cell.spread} for cell in cells]
        options.json.write_text(json.dumps({**about, "rounds": options.rounds, "cells": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
