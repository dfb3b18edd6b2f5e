"""More and more open streams by HTTP that tell hosts of changes; while nothing changes, and one host makes calls."""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import trio

from rig.account import account
from rig.axes.axis import ALONE, ALONE_CPU, RESIDENT, Axis, Quantity
from rig.ours import by_http, entry
from rig.process import resident
from rig.served import REVISIONS, Host, Mcpx
from rig.started import FailedError
from rig.upstreams import FOLDER

if TYPE_CHECKING:
    from rig.axes.axis import Measured
    from rig.loads import Era

AT_ONCE = 50  # streams that are being opened
LIMIT = 60.0  # seconds for all that is done at one point
SPARE = 64
OPENING = Quantity("opening ms", "ms", held=True)


class _Streams(Axis):
    of = "streams"
    points = (1, 10, 100, 1_000)
    quick = (1, 10, 100)
    one = "a stream"
    host: Era

    def measure(self, point: int, seconds: float) -> Measured:
        noisy = entry([sys.executable, str(FOLDER / "noisy.py"), self.host, REVISIONS[self.host]])
        limits = {"maxConnections": 2 * point + SPARE, "maxSessions": point + SPARE}
        failure = ""
        with by_http({"noisy": noisy}, limits) as mcpx:
            try:
                return trio.run(self._measure, Mcpx(*mcpx), point, seconds)
            except* (trio.BrokenResourceError, trio.TooSlowError, OSError) as group:
                failure = "; ".join(repr(error) for error in leaves(group))
            raise FailedError(failure)

    async def _measure(self, mcpx: Mcpx, point: int, seconds: float) -> Measured:
        with trio.fail_after(LIMIT):
            return await self._all(mcpx, point, seconds)

    async def _all(self, mcpx: Mcpx, point: int, seconds: float) -> Measured:
        async with trio.open_nursery() as nursery:
            caller = Host(mcpx, self.host)
            await caller.enter()
            await caller.ask("tools/list")
            begun = time.perf_counter()
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


def leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    """All that is in a group, which may hold groups."""
    return [
        leaf
        for error in group.exceptions
        for leaf in (leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


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
