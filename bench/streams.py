"""What does a listen stream cost that is open?

Thousands of hosts listen for changes by HTTP at once, in front of one server. ``README.md`` beside this file says how
to read the figures.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from contextlib import AsyncExitStack

import trio
from served import Host, Mcpx, Stream, machine, serving

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


async def measure(number: int, rounds: int) -> None:
    print(machine())
    print(f"{number} listen streams, each on a connection and of a host of its own; the hosts share the machine")
    async with serving("modern", maxConnections=number + SPARE // 2) as mcpx, trio.open_nursery() as nursery:
        host = Host(mcpx, "modern")
        await host.ask("tools/list")
        streams = await open_all(mcpx, 1, nursery)
        before = mcpx.memory()
        began = time.perf_counter()
        streams += await open_all(mcpx, number - 1, nursery)
        seconds = time.perf_counter() - began
        memory = mcpx.memory()
        print(f"opening    {seconds:8.2f} s, {1000 * seconds / number:.2f} ms a stream")
        print(f"memory     {before:8.1f} MiB with one, {memory:.1f} MiB with all: ", end="")
        print(f"{1024 * (memory - before) / (number - 1):.1f} KiB a stream")
        spent = mcpx.cpu()
        await trio.sleep(IDLE)
        print(f"idle       {100 * (mcpx.cpu() - spent) / IDLE:8.2f} % of a CPU, over {IDLE:g} s")
        firsts: list[float] = []
        lasts: list[float] = []
        spent = mcpx.cpu()
        for _ in range(rounds):
            reached = await change(host, streams)
            firsts.append(min(reached))
            lasts.append(max(reached))
            await trio.sleep(0.2)  # or the next would be held back for a moment, being so soon
        print(f"a change   {1000 * statistics.median(firsts):8.1f} ms to the first, ", end="")
        print(f"{1000 * statistics.median(lasts):.1f} ms to the last stream (median of {rounds}; ", end="")
        print(f"longest {1000 * max(lasts):.1f} ms), {1000 * (mcpx.cpu() - spent) / rounds:.0f} ms of CPU")
        print(f"afterwards {mcpx.memory():8.1f} MiB, at most {mcpx.memory('VmHWM'):.1f} MiB")
        nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--rounds", type=int, default=5, help="how many changes (5)")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # mcpx inherits it
    number = options.streams if most == resource.RLIM_INFINITY else min(options.streams, most - SPARE)
    if number < options.streams:
        print(f"ulimit -n allows {number} of {options.streams} streams")
    trio.run(measure, number, options.rounds)


if __name__ == "__main__":
    main()
