"""How much memory does a frame of many megabytes take that passes through?

Each is the first that a new mcpx sees. ``README.md`` beside this file says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rig.bulk import BulkByHttp, BulkOnPipes, words
from rig.chart import bars
from rig.machine import machine, require_linux, versions
from rig.ours import by_http, entry, on_pipes
from rig.process import forget_peak, interruptible, peak, resident, running
from rig.report import Report, add_outputs, number, table, write_outputs
from rig.rounds import Series, turns
from rig.started import FailedError
from rig.upstreams import FOLDER

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from rig.bulk import BulkHost
    from rig.loads import Era

MIB = 1024 * 1024
LIMITS = {"maxFrame": 256 * MIB}
PACE = 32 * MIB  # bytes a second of a host that is slow
TARGET = 3.0  # times the frame
ROW = 3  # frames, one after the other
WAYS = ("stdio-stdio", "http-stdio", "stdio-http", "http-http")
ERAS: tuple[Era, ...] = ("legacy", "modern")


class Cell(NamedTuple):
    """One passage of one frame."""

    way: str
    era: Era
    direction: str  # "result" or "request"
    speed: str  # "fast" or "slow"
    size: int  # MiB

    @property
    def title(self) -> str:
        host, _, upstream = self.way.partition("-")
        return f"{host} → {upstream}, {self.era}"


class Found(NamedTuple):
    """What was seen of mcpx, in MiB."""

    before: float
    most: float
    row: float  # the most while more of them followed
    after: float

    @property
    def kept(self) -> float:
        return max(0.0, self.after - self.before)


@contextmanager
def opened(cell: Cell, events: bool) -> Generator[tuple[int, BulkHost]]:
    """mcpx with its server, and a host that has made its first call."""
    host_by, _, upstream_by = cell.way.partition("-")
    pace = PACE if cell.speed == "slow" else 0
    script = [sys.executable, "-S", "-E", str(FOLDER / "bulk.py"), cell.era]
    with ExitStack() as stack:
        if upstream_by == "stdio":
            server = entry([*script, "stdio"])
        else:
            process = stack.enter_context(running([*script, "events" if events else "http"]))
            assert process.stdout is not None
            server = {"url": f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"}
        if host_by == "stdio":
            process = stack.enter_context(on_pipes({"bench": server}, LIMITS))
            pid, host = process.pid, BulkOnPipes(process, words(cell.era), pace)
        else:
            mcpx = stack.enter_context(by_http({"bench": server}, LIMITS))
            pid, host = mcpx.pid, BulkByHttp(mcpx.port, words(cell.era), pace)
        stack.enter_context(closing(host))
        host.open()
        yield pid, host


def passage(cell: Cell, events: bool) -> Found:
    with opened(cell, events) as (pid, host):
        send = host.give if cell.direction == "result" else host.take
        host.small()
        before = resident(pid)
        forget_peak(pid)
        send(cell.size * MIB)
        most = peak(pid)
        if cell.speed == "fast":
            for _ in range(ROW - 1):
                send(cell.size * MIB)
        row = peak(pid)
        host.small()
        return Found(before, most, row, resident(pid))


def cells(asked: argparse.Namespace) -> list[Cell]:
    """All that is asked for. Slow hosts have the largest alone: smaller ones fit into the system's buffers."""
    return [
        Cell(way, era, direction, speed, size)
        for way in asked.ways
        for era in asked.eras
        for direction in ("result", "request")
        for speed in ("fast", "slow")
        for size in asked.sizes
        if speed == "fast" or (size == max(asked.sizes) and not asked.quick)
    ]


# -- reporting


def tell(found: Mapping[Cell, Sequence[Found]]) -> str:
    """For each way and era a row for each frame; then what is above the target."""
    head = ["way", "what", "host", "MB", "before", "peak +", "× frame", "±", f"× frame, {ROW}", "kept +"]
    lines: list[list[str]] = []
    above: list[str] = []
    for cell, values in found.items():
        if not values:
            continue
        once = Series([(one.most - one.before) / cell.size for one in values])
        row = Series([(one.row - one.before) / cell.size for one in values])
        lines.append(
            [
                cell.title,
                cell.direction,
                cell.speed,
                str(cell.size),
                number(Series([one.before for one in values]).median),
                number(Series([one.most - one.before for one in values]).median),
                number(once.median),
                f"{once.spread:.0%}",
                number(row.median) if cell.speed == "fast" else "",
                number(Series([one.kept for one in values]).median),
            ]
        )
        if row.median > TARGET:
            above.append(
                f"ABOVE {TARGET:g} times: {cell.title}, {cell.direction} of {cell.size} MB, {cell.speed} host: "
                f"{once.median:.2f}, {ROW} in a row {row.median:.2f}"
            )
    return "\n".join([table(head, lines, left=3), *(above or [f"none is above {TARGET:g} times the frame"])])


def chart(found: Mapping[Cell, Sequence[Found]]) -> str:
    groups: dict[str, dict[str, float]] = {}
    for cell, values in found.items():
        if values and cell.speed == "fast":
            times = Series([(one.most - one.before) / cell.size for one in values]).median
            groups.setdefault(cell.title, {})[f"{cell.direction}, {cell.size} MB"] = times
    return bars("Peak memory of a frame that passes through", "times the frame", groups)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--eras", nargs="+", choices=ERAS, default=ERAS, metavar="ERA", help=", ".join(ERAS))
    parser.add_argument("--sizes", nargs="+", type=int, metavar="MB", help="of the frames (1 16 64)")
    parser.add_argument("--events", action="store_true", help="servers by HTTP answer as a stream of one event")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured (1)")
    parser.add_argument("--quick", action="store_true", help="1 and 16 MB, fast hosts alone")
    add_outputs(parser)
    found = parser.parse_args()
    found.sizes = found.sizes or ([1, 16] if found.quick else [1, 16, 64])
    return found


def main() -> None:
    require_linux()
    asked = options()
    report = Report("memory", machine(), versions("mcpx", "trio", "msgspec"), dict(vars(asked)))
    print(report.heading(), flush=True)
    found: dict[Cell, list[Found]] = {cell: [] for cell in cells(asked)}
    failures: dict[str, None] = {}  # in order, each once
    with interruptible():
        for cell in turns(found, asked.rounds):
            try:
                found[cell].append(passage(cell, asked.events))
            except FailedError as error:
                failures[f"{cell.title}, {cell.direction} of {cell.size} MB, {cell.speed} host: {error}"] = None
    print("\n".join([tell(found), *failures]))
    for cell, values in found.items():
        labels = {name: str(value) for name, value in cell._asdict().items()}
        for name, part in (
            ("before", [one.before for one in values]),
            ("peak", [one.most - one.before for one in values]),
            (f"peak, {ROW} in a row", [one.row - one.before for one in values if cell.speed == "fast"]),
            ("kept", [one.kept for one in values]),
        ):
            if part:
                report.add("MiB", part, **labels, quantity=name)
    write_outputs(asked, report, chart(found))


if __name__ == "__main__":
    main()
