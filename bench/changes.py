"""What does a storm of changes cost?

A server says thousands of times, as fast as it can, that its tools and one resource have changed. One host reads what
it is told and asks for the list each time; another does not read at all. ``README.md`` beside this file says how to
read the figures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import trio
from rig import chart
from rig.machine import machine, versions
from rig.process import forget_peak, interruptible, peak, resident
from rig.report import Report, add_outputs, figure, table, write_outputs
from rig.rounds import Series, turns
from rig.served import Host, Mcpx, Stream, serving

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 60.0  # seconds for one storm and all that it leads to
CALM = 1.0  # seconds after the last list in which nothing more may come: ten times what mcpx keeps quiet for


ERAS = ("modern", "legacy")


class Storm(NamedTuple):
    """What one storm led to."""

    said: int
    quick: int  # frames that the host was sent that reads
    slow: int  # and the one that does not
    lists: int  # that were asked of the server
    storm: float  # seconds from the call to its answer, behind all that was said
    late: float  # seconds from there until the quick host had the last list
    before: float  # MiB
    peak: float


# The columns of the table, and of the report with its units.
COLUMNS = {
    "said": "frames",
    "quick": "frames",
    "slow": "frames",
    "lists": "lists",
    "storm": "s",
    "late": "s",
    "before": "MiB",
    "peak": "MiB",
}


class Quick:
    """The host that reads, and asks for the tools whenever they have changed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.frames: Counter[str] = Counter()
        self.newest = 0  # change that a list has shown
        self.listed = trio.Event()

    async def read(self, stream: Stream) -> None:
        while True:
            frame = await stream.next()
            self.frames[frame["method"]] += 1
            if "tools" in frame["method"]:
                tools = (await self._host.ask("tools/list"))["tools"]
                self.newest = max(int(tool["name"].rpartition("_")[2]) for tool in tools if "changed" in tool["name"])
                self.listed.set()
                self.listed = trio.Event()


async def storm(mcpx: Mcpx, era: str, count: int) -> Storm:
    """Have it storm, and wait until it is calm again."""
    host, other = Host(mcpx, era), Host(mcpx, era)
    await host.enter()
    await other.enter()
    await host.ask("tools/list")
    quick = Quick(host)
    async with host.listening() as stream, other.listening() as unread, trio.open_nursery() as nursery:
        nursery.start_soon(quick.read, stream)
        asked = await tally(host)
        before = resident(mcpx.pid)
        forget_peak(mcpx.pid)
        began = time.perf_counter()
        await host.ask("tools/call", name="noisy__storm", arguments={"count": count})
        ended = time.perf_counter()
        while quick.newest < count:
            await quick.listed.wait()
        late = time.perf_counter() - ended
        await trio.sleep(CALM)
        lists = (await tally(host))["tools/list"] - asked["tools/list"]
        slow = 0
        with trio.move_on_after(CALM):
            while True:
                await unread.next()
                slow += 1
        nursery.cancel_scope.cancel()
    return Storm(2 * count, quick.frames.total(), slow, lists, ended - began, late, before, peak(mcpx.pid))


async def tally(host: Host) -> Counter[str]:
    """How often the server was asked for each method."""
    result = await host.ask("tools/call", name="noisy__tally", arguments={})
    return Counter(json.loads(result["content"][0]["text"]))


async def measure(count: int, rounds: int) -> dict[str, list[Storm]]:
    """A storm of each era in each round, each in front of an mcpx of its own."""
    storms: dict[str, list[Storm]] = {era: [] for era in ERAS}
    for era in turns(ERAS, rounds):
        with trio.fail_after(LIMIT):
            async with serving(era) as mcpx:
                storms[era].append(await storm(mcpx, era, count))
    return storms


def columns(storms: Mapping[str, list[Storm]]) -> dict[str, dict[str, Series]]:
    """For each era, each quantity over the rounds."""
    return {
        era: {name: Series([float(getattr(one, name)) for one in found]) for name in COLUMNS}
        for era, found in storms.items()
    }


def picture(found: Mapping[str, Mapping[str, Series]], count: int) -> str:
    """What becomes of the frames of a storm."""
    groups = {
        f"{era}: frames from the server, and to each host": {
            name: found[era][name].median for name in ("said", "quick", "slow", "lists")
        }
        for era in found
    }
    return chart.bars(f"A storm of {count:,} changes", "frames", groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how often both change (10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how many storms of each era (3)")
    add_outputs(parser)
    options = parser.parse_args()
    settings = {"count": options.count, "rounds": options.rounds}
    report = Report("changes", machine(), versions("mcpx", "trio"), settings)
    print(report.heading())
    with interruptible():
        found = columns(trio.run(measure, options.count, options.rounds))
    for era, quantities in found.items():
        for name, series in quantities.items():
            report.add(COLUMNS[name], series, era=era, quantity=name)
    rows = [[era, *(figure(series) for series in quantities.values())] for era, quantities in found.items()]
    print(table(["era", *(f"{name} {unit}" for name, unit in COLUMNS.items())], rows))
    write_outputs(options, report, picture(found, options.count))


if __name__ == "__main__":
    main()
