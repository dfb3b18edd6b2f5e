"""What does a listen stream cost that is open?

Thousands of hosts listen for changes by HTTP at once, in front of one server. ``README.md`` beside this file says how
to read the figures.
"""

from __future__ import annotations

import argparse
import resource
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio
from rig import chart
from rig.machine import machine, versions
from rig.process import cpu, interruptible, peak, resident
from rig.report import Report, add_outputs, figure, table, write_outputs
from rig.rounds import Series
from rig.served import Host, Mcpx, Stream, serving

if TYPE_CHECKING:
    from collections.abc import Iterable

AT_ONCE = 50  # streams that are being opened
SPARE = 200  # descriptors that are for anything else
IDLE = 5.0  # seconds in which nothing changes
LIMIT = 30.0  # seconds until a change has reached all


async def hold(host: Host, turn: trio.Semaphore, streams: list[Stream], task_status: trio.TaskStatus[None]) -> None:
    """Keep a stream open."""
    async with AsyncExitStack() as stack:
        async with turn:
            streams.append(await stack.enter_async_context(host.listening()))
        task_status.started()
        await trio.sleep_forever()


async def open_all(mcpx: Mcpx, number: int, nursery: trio.Nursery) -> list[Stream]:
    """Open so many streams, each of a host of its own."""
    streams: list[Stream] = []
    turn = trio.Semaphore(AT_ONCE)
    async with trio.open_nursery() as opening:
        for _ in range(number):
            host = Host(mcpx, "modern")

            async def start(host: Host = host) -> None:
                await nursery.start(hold, host, turn, streams)

            opening.start_soon(start)
    return streams


async def change(host: Host, streams: list[Stream]) -> list[float]:
    """Let the server tell of a change of its tools and of a resource: the seconds until each stream had both."""
    reached: list[float] = []

    async def receive(stream: Stream) -> None:
        methods = {(await stream.next())["method"] for _ in range(2)}
        reached.append(time.perf_counter() - began)
        assert methods == {"notifications/tools/list_changed", "notifications/resources/updated"}

    began = time.perf_counter()
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(receive, stream)
            await host.ask("tools/call", name="noisy__storm", arguments={"count": 1})
    return reached


class Figures:
    """What is found out, as it is: into the report, and a row of the table each."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.rows: list[list[str]] = []

    def add(self, what: str, unit: str, *values: float) -> None:
        series = Series(values)
        self._report.add(unit, series, quantity=what)
        self.rows.append([what, figure(series), unit])


async def measure(number: int, rounds: int, found: Figures) -> None:
    async with serving("modern", maxConnections=number + SPARE // 2) as mcpx, trio.open_nursery() as nursery:
        host = Host(mcpx, "modern")
        await host.ask("tools/list")
        streams = await open_all(mcpx, 1, nursery)
        before = resident(mcpx.pid)
        began = time.perf_counter()
        streams += await open_all(mcpx, number - 1, nursery)
        found.add("opening a stream", "ms", 1000 * (time.perf_counter() - began) / (number - 1))
        memory = resident(mcpx.pid)
        found.add("memory with one stream", "MiB", before)
        found.add("memory with all", "MiB", memory)
        found.add("memory of a stream", "KiB", 1024 * (memory - before) / (number - 1))
        spent = cpu(mcpx.pid)
        await trio.sleep(IDLE)
        found.add(f"idle over {IDLE:g} s", "% of a CPU", 100 * (cpu(mcpx.pid) - spent) / IDLE)
        firsts: list[float] = []
        lasts: list[float] = []
        costs: list[float] = []
        for _ in range(rounds):
            spent = cpu(mcpx.pid)
            reached = await change(host, streams)
            firsts.append(min(reached))
            lasts.append(max(reached))
            costs.append(cpu(mcpx.pid) - spent)
            await trio.sleep(0.2)  # or the next would be held back for a moment, being so soon
        found.add("a change, to the first stream", "ms", *milliseconds(firsts))
        found.add("a change, to the last stream", "ms", *milliseconds(lasts))
        found.add("a change, processor time", "ms", *milliseconds(costs))
        found.add("memory afterwards", "MiB", resident(mcpx.pid))
        found.add("memory at most", "MiB", peak(mcpx.pid))
        nursery.cancel_scope.cancel()


def milliseconds(seconds: Iterable[float]) -> list[float]:
    return [1000 * value for value in seconds]


def picture(report: Report, number: int) -> str:
    """The times, which have one unit."""
    times = {result.labels["quantity"]: result.series.median for result in report.results if result.unit == "ms"}
    return chart.bars(f"{number:,} open listen streams", "ms", {"": times})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--rounds", type=int, default=5, help="how many changes (5)")
    add_outputs(parser)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # mcpx inherits it
    number = options.streams if most == resource.RLIM_INFINITY else min(options.streams, most - SPARE)
    if number < options.streams:
        print(f"ulimit -n allows {number} of {options.streams} streams")
    settings = {"streams": number, "rounds": options.rounds}
    report = Report("streams", machine(), versions("mcpx", "trio"), settings)
    print(report.heading())
    print(f"{number} listen streams, each on a connection and of a host of its own; the hosts share the machine")
    found = Figures(report)
    with interruptible():
        trio.run(measure, number, options.rounds, found)
    print(table(["quantity", "median", "unit"], found.rows))
    write_outputs(options, report, picture(report, number))


if __name__ == "__main__":
    main()
