"""More and more calls in flight on one pipe."""

from __future__ import annotations

from rig.account import processor
from rig.axes.axis import BUSY_CPU, LOAD, RATE, RESIDENT, Axis, Quantity
from rig.loads import Host, StdioLoad
from rig.ours import entry, on_pipes
from rig.process import resident
from rig.upstreams import stdio_command

PER_CALL = Quantity("µs a call", "µs", held=True)
WAIT = Quantity("answer ms", "ms")


class Flight(Axis):
    """One host on pipes, one server on pipes."""

    name = "flight"
    title = "Calls in flight on one pipe, to one server"
    of = "in flight"
    points = (1, 16, 64, 256, 1_024)
    quick = points

    def measure(self, point: int, seconds: float) -> dict[Quantity, float]:
        servers = {"bench": entry(stdio_command(self.era))}
        with on_pipes(servers, {"maxInFlight": 2 * max(self.points)}) as process:
            load = StdioLoad.of(process, Host(self.era, "bench__"))
            load.open()
            load.check()
            flow = load.throughput(point, seconds, {"mcpx": lambda: processor(process.pid)})
            memory = resident(process.pid)
        return {
            RATE: flow.rate,
            PER_CALL: 1e6 / flow.rate,
            WAIT: point / flow.rate * 1e3,  # the mean, as all of them are always in flight
            BUSY_CPU: flow.meters["mcpx"] / flow.calls * 1e6,
            LOAD: flow.own_cpu / flow.calls * 1e6,
            RESIDENT: memory,
        }
