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
from typing import NamedTuple

import trio
from served import Host, Mcpx, Stream, machine, serving

LIMIT = 60.0  # seconds for one storm and all that it leads to
CALM = 1.0  # seconds after the last list in which nothing more may come: ten times what mcpx keeps quiet for


class Storm(NamedTuple):
    """What one storm led to."""

    said: int
    quick: int  # frames that the host was sent that reads
    slow: int  # and the one that does not
    lists: int  # that were asked of the server
    seconds: float  # from the call to its answer, behind all that was said
    late: float  # from there until the quick host had the last list
    before: float  # MiB
    peak: float

    def row(self, era: str) -> str:
        return (
            f"{era:8}  {self.said:8}  {self.quick:6}  {self.slow:6}  {self.lists:6}  {self.seconds:8.2f}  "
            f"{self.late:6.2f}  {self.before:8.1f}  {self.peak:8.1f}"
        )


HEAD = (
    f"{'era':8}  {'said':>8}  {'quick':>6}  {'slow':>6}  {'lists':>6}  {'storm s':>8}  "
    f"{'late s':>6}  {'MiB':>8}  {'peak MiB':>8}"
)


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
        before = mcpx.memory()
        mcpx.forget_peak()
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
    return Storm(2 * count, quick.frames.total(), slow, lists, ended - began, late, before, mcpx.memory("VmHWM"))


async def tally(host: Host) -> Counter[str]:
    """How often the server was asked for each method."""
    result = await host.ask("tools/call", name="noisy__tally", arguments={})
    return Counter(json.loads(result["content"][0]["text"]))


async def measure(count: int) -> None:
    print(machine())
    print(HEAD)
    for era in ("modern", "legacy"):
        with trio.fail_after(LIMIT):
            async with serving(era) as mcpx:
                print((await storm(mcpx, era, count)).row(era))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how often both change (10000)")
    trio.run(measure, parser.parse_args().count)


if __name__ == "__main__":
    main()
