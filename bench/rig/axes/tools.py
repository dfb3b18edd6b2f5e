"""A catalogue with more and more tools in it."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from rig.axes.axis import RESIDENT, Axis, Quantity, of_calls
from rig.axes.listing import listed
from rig.loads import Host, StdioLoad
from rig.ours import entry, on_pipes
from rig.process import resident, running
from rig.upstreams import stdio_command

if TYPE_CHECKING:
    from rig.loads import Load

IN_FLIGHT = 64
FIRST_LIST = Quantity("first list ms", "ms")
NEXT_LIST = Quantity("next list ms", "ms")
PER_TOOL = Quantity("µs a tool", "µs", held=True)
WITHOUT = Quantity("without ms", "ms")


class Tools(Axis):
    """One server lists all of them, in one page; the last one is called."""

    name = "tools"
    title = "Tools in the catalogue, of one server"
    of = "tools"
    points = (2, 100, 2_000, 20_000)
    quick = (2, 100, 2_000)
    one = "a tool"

    def measure(self, point: int, seconds: float) -> dict[Quantity, float]:
        command = stdio_command(self.era, point)
        with running(command) as process:
            alone = StdioLoad.of(process, Host(self.era))
            alone.open()
            without = _following(alone, point, seconds / 2)
        with on_pipes({"bench": entry(command)}) as process:
            load = StdioLoad.of(process, Host(self.era, "bench__"))
            load.open()
            first = listed(load, point)
            following = _following(load, point, seconds)
            last = f"echo_{point}" if point > 2 else "echo"
            measured = of_calls(
                process.pid,
                seconds,
                lambda span: load.latencies(span, last),
                lambda span, meters: load.throughput(IN_FLIGHT, span, meters, last),
            )
            memory = resident(process.pid)
        return {
            **measured,
            FIRST_LIST: first * 1e3,
            NEXT_LIST: following * 1e3,
            PER_TOOL: following / point * 1e6,
            WITHOUT: without * 1e3,
            RESIDENT: memory,
        }


def _following(load: Load, tools: int, seconds: float) -> float:
    """Seconds of one list after another."""
    end = time.perf_counter() + seconds
    taken = [listed(load, tools)]
    while time.perf_counter() < end:
        taken.append(listed(load, tools))
    return statistics.median(taken)
