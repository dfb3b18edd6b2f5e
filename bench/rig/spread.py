"""Calls of several tools in turn, where ``Load`` has one tool: their names must be of one length."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from rig.loads import Flow
from rig.loads.load import Batch
from rig.trial import calls_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rig.loads import Load

FIRST = 5_000_000  # ids begin here, beyond those that a load gives out itself


class Spread:
    """A host that goes round all tools, each an ``echo``, with one call after another or a window of them."""

    def __init__(self, load: Load, tools: Sequence[str]) -> None:
        self._load = load
        self._tools = tools
        self._next = FIRST

    def in_turn(self, seconds: float) -> list[float]:
        """Seconds of each call, one at a time, for about so long and of each tool at least once."""
        taken: list[float] = []
        heard: list[bytes] = []
        first = self._next
        clock = time.perf_counter
        end = clock() + seconds
        for tool in itertools.cycle(self._tools):
            message = self._message(tool)
            before = clock()
            heard.append(self._load.ask(message))
            after = clock()
            taken.append(after - before)
            if after > end and len(taken) >= len(self._tools):
                break
        self._load.host.check_echoes(map(self._load.payload, heard), first, len(heard))
        return taken

    def throughput(self, in_flight: int, seconds: float, meters: Mapping[str, Callable[[], float]]) -> Flow:
        """Keep so many calls in flight for about so long, as ``Load.throughput`` does."""
        self._load.ready(in_flight)
        least = max(in_flight, len(self._tools))
        count = calls_for(seconds, least, lambda calls: self._flow(calls, in_flight, {}).rate)
        return self._flow(count, in_flight, meters)

    def _flow(self, count: int, in_flight: int, meters: Mapping[str, Callable[[], float]]) -> Flow:
        tools = itertools.cycle(self._tools)
        batch = _Various([self._message(next(tools)) for _ in range(count)], self._next - count)
        before = {name: meter() for name, meter in meters.items()}
        own, start = time.process_time(), time.perf_counter()
        heard = self._load.slide(batch, in_flight)
        seconds, own = time.perf_counter() - start, time.process_time() - own
        passed = {name: meter() - before[name] for name, meter in meters.items()}
        self._load.host.check_echoes(self._load.payloads(heard), batch.first, count)
        return Flow(count, seconds, own, passed)

    def _message(self, tool: str) -> bytes:
        id = self._next
        self._next += 1
        return self._load.message(self._load.host.echo(id, tool))


class _Various(Batch):
    """Messages of one length that differ in more than their id."""

    def __init__(self, messages: Sequence[bytes], first: int) -> None:
        self.first = first
        self.count = len(messages)
        self.size = len(messages[0])
        self.view = memoryview(b"".join(messages))
        assert len(self.view) == self.size * self.count
