"""More and more open streams by HTTP that tell hosts of changes; while nothing changes, and one host makes calls."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import trio

from rig.account import account
from rig.axes.axis import ALONE, ALONE_CPU, RESIDENT, Axis, Quantity
from rig.process import resident
from rig.served import Host, serving

if TYPE_CHECKING:
    from rig.axes.axis import Measured
    from rig.loads import Era

AT_ONCE = 50  # streams that are being opened
LIMIT = 60.0  # seconds for opening all
SPARE = 64
OPENING = Quantity("opening ms", "ms", held=True)


class _Streams(Axis):
    of = "streams"
    points = (1, 10, 100, 1_000)
    quick = (1, 10, 100)
    one = "a stream"
    host: Era

    def measure(self, point: int, seconds: float) -> Measured:
        return trio.run(self._measure, point, seconds)

    async def _measure(self, point: int, seconds: float) -> Measured:
        limits = {"maxConnections": 2 * point + SPARE, "maxSessions": point + SPARE}
        async with serving(self.host, **limits) as mcpx, trio.open_nursery() as nursery:
            caller = Host(mcpx, self.host)
            await caller.enter()
            await caller.ask("tools/list")
            begun = time.perf_counter()
            with trio.fail_after(LIMIT):
                await _open([Host(mcpx, self.host) for _ in range(point)], nursery)
            opening = time.perf_counter() - begun
            memory = resident(mcpx.pid)
            before = account(mcpx.pid)
            taken = await _calls(caller, seconds)
            spent = account(mcpx.pid).since(before)
            nursery.cancel_scope.cancel()
        return {
            ALONE: statistics.median(taken) * 1e6,
            ALONE_CPU: spent.cpu / len(taken) * 1e6,
            OPENING: opening / point * 1e3,
            RESIDENT: memory,
        }


class ListenStreams(_Streams):
    """Modern: ``subscriptions/listen``."""

    name = "streams"
    title = "Listen streams, modern: one host makes calls meanwhile, each on a new connection"
    host = "modern"


class GetStreams(_Streams):
    """Legacy: a session with its GET stream, and a subscription to a resource."""

    name = "gets"
    title = "GET streams, legacy, with a session each: one host makes calls meanwhile, each on a new connection"
    host = "legacy"


async def _open(hosts: list[Host], nursery: trio.Nursery) -> None:
    """Open a stream of each, some at a time; the nursery keeps them."""
    turn = trio.Semaphore(AT_ONCE)

    async def hold(host: Host, task_status: trio.TaskStatus[None]) -> None:
        async with host.listening():
            task_status.started()
            await trio.sleep_forever()

    async def start(host: Host) -> None:
        async with turn:
            await host.enter()
            await nursery.start(hold, host)

    async with trio.open_nursery() as opening:
        for host in hosts:
            opening.start_soon(start, host)


async def _calls(host: Host, seconds: float) -> list[float]:
    """Seconds of each call, one after the other."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        before = time.perf_counter()
        answer = await host.ask("tools/call", name="noisy__tally", arguments={})
        taken.append(time.perf_counter() - before)
        assert "tools/call" in answer["content"][0]["text"]
    return taken
