"""More and more hosts by HTTP, in front of one server on pipes."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from rig.axes.axis import RESIDENT, Axis, Quantity, of_calls
from rig.crowd import Crowd
from rig.ours import by_http, entry
from rig.process import resident
from rig.upstreams import stdio_command

if TYPE_CHECKING:
    from rig.loads import Era

OPENING = Quantity("opening ms", "ms", held=True)
SPARE = 64  # connections that are on their way out while others come in


class _Hosts(Axis):
    of = "hosts"
    points = (1, 10, 100, 1_000)
    quick = (1, 10, 100)
    host: Era  # the era of both sides

    def measure(self, point: int, seconds: float) -> dict[Quantity, float]:
        servers = {"bench": entry(stdio_command(self.host))}
        limits = {"maxConnections": 2 * point + SPARE, "maxSessions": point + SPARE}
        with by_http(servers, limits) as mcpx:
            with closing(Crowd(mcpx.port, self.host, "bench__", 1)):
                pass  # the server has been started by now
            begun = time.perf_counter()
            with closing(Crowd(mcpx.port, self.host, "bench__", point)) as crowd:
                opening = time.perf_counter() - begun
                memory = resident(mcpx.pid)
                measured = of_calls(mcpx.pid, seconds, crowd.in_turn, crowd.at_once)
        return {**measured, OPENING: opening / point * 1e3, RESIDENT: memory}


class Connections(_Hosts):
    """Modern hosts need no session; each has a connection, which is kept."""

    name = "hosts"
    title = "Hosts by HTTP, modern: a connection each"
    one = "a host"
    host = "modern"


class Sessions(_Hosts):
    """Legacy hosts have a session each, and a connection."""

    name = "sessions"
    title = "Hosts by HTTP, legacy: a session and a connection each"
    one = "a session with its connection"
    host = "legacy"
