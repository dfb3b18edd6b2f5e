"""More and more servers behind one mcpx.

Calls go to one of them, which shows what the others cost by being there; and round all of them, where each call wakes a
program that has slept and finds caches cold, and few frames are one read or one write. ``without`` is a round with no
gateway, which shows how much of that is the machine's.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack

from rig.axes.axis import ALONE, ALONE_CPU, BUSY_CPU, RESIDENT, Axis, Quantity, of_calls
from rig.axes.listing import listed
from rig.loads import Host, StdioLoad
from rig.ours import entry, on_pipes
from rig.process import resident, running
from rig.spread import Spread
from rig.upstreams import stdio_command

IN_FLIGHT = 64
ROUND = Quantity("round µs", "µs", held=True)
ROUND_CPU = Quantity("round CPU µs", "µs", held=True)
ROUND_BUSY = Quantity("round busy CPU µs", "µs", held=True)
WITHOUT = Quantity("without µs", "µs")
ALL_LISTED = Quantity("all listed ms", "ms")
LISTING = 60  # seconds that a list may wait for servers, which all start at once


class Upstreams(Axis):
    """Servers are programs on pipes, each with two tools; calls go to all of them in turn."""

    name = "upstreams"
    title = "Upstreams: calls to one of them, and round all of them"
    of = "upstreams"
    points = (1, 10, 50, 200)
    quick = (1, 10, 50)
    one = "an upstream"

    def measure(self, point: int, seconds: float) -> dict[Quantity, float]:
        names = [f"s{number:03}" for number in range(point)]
        servers = {name: entry(stdio_command(self.era)) for name in names}
        begun = time.perf_counter()
        with on_pipes(servers, {"listTimeout": LISTING}) as process:
            load = StdioLoad.of(process, Host(self.era, f"{names[0]}__"))
            load.open()
            listed(load, 2 * point)
            ready = time.perf_counter() - begun
            load.host.prefix = ""  # from here on tools are named in full
            tools = [f"{name}__echo" for name in names]
            everyone, last = Spread(load, tools), Spread(load, tools[-1:])
            everyone.in_turn(0)  # each server has then had a call
            to_one = _measure(last, process.pid, seconds)
            to_all = _measure(everyone, process.pid, seconds)
            memory = resident(process.pid)
        return {
            **to_one,
            ROUND: to_all[ALONE],
            ROUND_CPU: to_all[ALONE_CPU],
            ROUND_BUSY: to_all[BUSY_CPU],
            WITHOUT: self._without(point, seconds),
            ALL_LISTED: ready * 1e3,
            RESIDENT: memory,
        }

    def _without(self, point: int, seconds: float) -> float:
        """Microseconds of a call to so many servers in turn without a gateway: what the machine does to both."""
        with ExitStack() as stack:
            command = stdio_command(self.era)
            processes = [stack.enter_context(running(command)) for _ in range(point)]
            loads = [StdioLoad.of(process, Host(self.era)) for process in processes]
            for load in loads:
                load.open()
            messages = [load.message(load.host.echo(1_000_000)) for load in loads]
            taken: list[float] = []
            end = time.perf_counter() + seconds / 2
            while time.perf_counter() < end or not taken:
                for load, message in zip(loads, messages, strict=True):
                    before = time.perf_counter()
                    load.ask(message)
                    taken.append(time.perf_counter() - before)
            for process in processes:
                assert process.stdin is not None
                process.stdin.close()  # all at once, so that they end side by side
        return statistics.median(taken) * 1e6


def _measure(spread: Spread, pid: int, seconds: float) -> dict[Quantity, float]:
    return of_calls(pid, seconds, spread.in_turn, lambda span, meters: spread.throughput(IN_FLIGHT, span, meters))
