"""What mcpx takes while nobody wants anything of it."""

from __future__ import annotations

import time

from rig.account import account
from rig.axes.axis import RESIDENT, Axis, Quantity
from rig.axes.listing import listed
from rig.loads import Host, StdioLoad
from rig.ours import entry, on_pipes
from rig.process import resident
from rig.upstreams import stdio_command

SETTLING = 1.0  # seconds after the last answer, for what is still done then
TIMES = 8  # as long as other measurements
CPU = Quantity("CPU ms/s", "ms/s")
WAKEUPS = Quantity("wake-ups/s", "1/s")


class Idle(Axis):
    """One host on pipes that has listed all tools and does nothing more; servers on pipes that do nothing either."""

    name = "idle"
    title = "Idle, with one host connected"
    of = "upstreams"
    points = (1, 50)
    quick = points
    one = "an upstream"

    def measure(self, point: int, seconds: float) -> dict[Quantity, float]:
        servers = {f"s{number:03}": entry(stdio_command(self.era)) for number in range(point)}
        with on_pipes(servers) as process:
            load = StdioLoad.of(process, Host(self.era, "s000__"))
            load.open()
            listed(load, 2 * point)
            time.sleep(SETTLING)
            before, begun = account(process.pid), time.perf_counter()
            time.sleep(TIMES * seconds)
            spent, span = account(process.pid).since(before), time.perf_counter() - begun
            return {
                CPU: spent.cpu / span * 1e3,
                WAKEUPS: spent.waits / span,
                RESIDENT: resident(process.pid),
            }
