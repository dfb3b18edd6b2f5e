"""From the start of a program to the first answer: no axis, but what everything else begins with."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rig.axes.axis import RESIDENT, Axis, Quantity
from rig.gateways import RELAYS
from rig.loads import Host, StdioLoad
from rig.ours import entry, on_pipes
from rig.process import resident, running
from rig.upstreams import stdio_command

if TYPE_CHECKING:
    import subprocess

    from rig.axes.axis import Measured, Medians

FIRST = Quantity("first answer ms", "ms")
NOTHING, LIBRARIES, NO_GATEWAY, RELAY, NEW, KNOWN = range(6)
LABELS = {
    NOTHING: "python, nothing",
    LIBRARIES: "python, import trio and msgspec",
    NO_GATEWAY: "no gateway",
    RELAY: "bare Trio relay",
    NEW: "mcpx, which does not know the server",
    KNOWN: "mcpx, which has met it before",
}
PROGRAMS = {NOTHING: "print()", LIBRARIES: "import trio, msgspec; print()"}
TARGET = 1.5  # times the bare relay's


class Start(Axis):
    """A host on pipes shakes hands, where its era does, and makes one call; a bare Python says a line instead."""

    name = "start"
    title = "From the start to the first answer, one server"
    of = "program"
    points = tuple(LABELS)
    quick = points

    def label(self, point: int) -> str:
        return LABELS[point]

    def measure(self, point: int, seconds: float) -> Measured:
        if point in PROGRAMS:
            return self._bare(PROGRAMS[point])
        if point in (NEW, KNOWN):
            return self._mcpx(known=point == KNOWN)
        relay = [sys.executable, str(RELAYS / "bare_stdio.py")] if point == RELAY else []
        begun = time.perf_counter()
        with running([*relay, *stdio_command(self.era)]) as process:
            return self._answered(process, Host(self.era), begun)

    def remarks(self, found: Medians) -> list[str]:
        if RELAY not in found or NEW not in found:
            return []
        times = found[NEW][FIRST] / found[RELAY][FIRST]
        known = found[KNOWN][FIRST] / found[RELAY][FIRST] if KNOWN in found else times
        over = "" if max(times, known) <= TARGET else f", ABOVE {TARGET}"
        return [f"mcpx takes {times:.2f} times the bare Trio relay's time, {known:.2f} where it knows the server{over}"]

    def _bare(self, program: str) -> Measured:
        begun = time.perf_counter()
        with running([sys.executable, "-c", f"{program}; input()"]) as process:
            # It ends by itself with the block, as its stdin is closed then; what it says of that nobody needs.
            assert process.stdout is not None
            process.stdout.readline()
            taken = time.perf_counter() - begun
            memory = resident(process.pid)
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        return {FIRST: taken * 1e3, RESIDENT: memory}

    def _mcpx(self, *, known: bool) -> Measured:
        servers = {"bench": entry(stdio_command(self.era))}
        with ExitStack() as stack:
            state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if known:
                with on_pipes(servers, state=state) as process:
                    self._answered(process, Host(self.era, "bench__"), 0.0)
            begun = time.perf_counter()
            process = stack.enter_context(on_pipes(servers, state=state))
            return self._answered(process, Host(self.era, "bench__"), begun)

    def _answered(self, process: subprocess.Popen[bytes], host: Host, begun: float) -> Measured:
        StdioLoad.of(process, host).open()
        return {FIRST: (time.perf_counter() - begun) * 1e3, RESIDENT: resident(process.pid)}
