"""What every load can measure, and how: ``StdioLoad`` and ``HttpLoad`` say how to send and how to hear."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rig.loads.words import FIRST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rig.loads.words import Host

PREPARED = 20_000  # calls a second that are made ready for one at a time; nobody answers more
TRIAL = 0.1  # of the time of a measurement is tried first, to know how many calls it will hold
GROWTH = 4  # of the number of calls, from one trial to the next
LEAST_LARGE = 3
NO_METERS: Mapping[str, Callable[[], float]] = {}


class Batch:
    """Messages that differ in their id alone, one behind the other, and of one length: any run of them is a slice."""

    def __init__(self, message: bytes, first: int, count: int) -> None:
        """``message`` is the first of them."""
        parts = message.split(b"%d" % first)
        self.first = first
        self.count = count
        self.size = len(message)
        self.view = memoryview(b"".join((b"%d" % id).join(parts) for id in range(first, first + count)))
        assert len(self.view) == self.size * count


@dataclass(frozen=True)
class Flow:
    """A window of calls that slid for a while."""

    calls: int
    seconds: float
    own_cpu: float  # seconds of processor time that the load itself took
    meters: Mapping[str, float]  # by how much each meter went on meanwhile

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.seconds


class Load(ABC):
    """A host with a connection to a server or gateway."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._next = FIRST

    # -- how it is done

    @abstractmethod
    def message(self, frame: bytes) -> bytes:
        """A frame as it goes out."""

    @abstractmethod
    def open(self) -> None:
        """Connect, shake hands, make a first call: what a host does before it is of use."""

    @abstractmethod
    def ask(self, message: bytes | memoryview) -> bytes:
        """Send one message and wait for its answer, all of it, as it came."""

    @abstractmethod
    def payload(self, heard: bytes) -> bytes:
        """The frame in an answer."""

    @abstractmethod
    def slide(self, batch: Batch, in_flight: int) -> Sequence[bytes]:
        """Send a batch, so many at a time, and give what was heard, as it came; the caller has the clock."""

    @abstractmethod
    def payloads(self, heard: Sequence[bytes]) -> Sequence[bytes]:
        """The frames in that."""

    @abstractmethod
    def ready(self, in_flight: int) -> None:
        """Be ready for so many calls at a time, before the clock runs."""

    # -- what is measured

    def first_call(self) -> None:
        """A call whose answer is looked at."""
        self.host.check_echo(self.payload(self.ask(self.message(self.host.echo(self._ids(1))))))

    def check(self) -> None:
        """Refuse to go on where the list of tools or an answer is wrong. Whatever is measured is looked at as well."""
        self.host.check_listing(self.payload(self.ask(self.message(self.host.listing(self._ids(1))))))
        self.first_call()

    def latencies(self, seconds: float, tool: str = "echo") -> list[float]:
        """How long each of a row of calls took, in seconds, one at a time."""
        batch = self._batch(max(1, int(PREPARED * seconds)), tool)
        heard: list[bytes] = []
        taken: list[float] = []
        clock = time.perf_counter
        end = clock() + seconds
        for start in range(0, len(batch.view), batch.size):
            message = batch.view[start : start + batch.size]
            before = clock()
            heard.append(self.ask(message))
            after = clock()
            taken.append(after - before)
            if after > end:
                break
        self.host.check_echoes(map(self.payload, heard), batch.first, len(heard))
        return taken

    def throughput(
        self,
        in_flight: int,
        seconds: float,
        meters: Mapping[str, Callable[[], float]] = NO_METERS,
        tool: str = "echo",
    ) -> Flow:
        """Keep so many calls in flight for about so long; all answers are looked at afterwards.

        A meter is read before and after, as the processor time of the gateway.
        """
        self.ready(in_flight)
        count = in_flight
        while (trial := self._flow(self._batch(count, tool), in_flight, NO_METERS)).seconds < TRIAL * seconds:
            count *= GROWTH
        count = max(in_flight, int(trial.rate * seconds))
        return self._flow(self._batch(count, tool), in_flight, meters)

    def large(self, seconds: float) -> list[float]:
        """How long each of a row of results of 1 MB took, in seconds, one at a time."""
        taken: list[float] = []
        end = time.perf_counter() + seconds
        while len(taken) < LEAST_LARGE or time.perf_counter() < end:
            message = self.message(self.host.large(self._ids(1)))
            before = time.perf_counter()
            heard = self.ask(message)
            taken.append(time.perf_counter() - before)
            self.host.check_large(self.payload(heard))
        return taken

    def _flow(self, batch: Batch, in_flight: int, meters: Mapping[str, Callable[[], float]]) -> Flow:
        before = {name: meter() for name, meter in meters.items()}
        own, start = time.process_time(), time.perf_counter()
        heard = self.slide(batch, in_flight)
        seconds, own = time.perf_counter() - start, time.process_time() - own
        passed = {name: meter() - before[name] for name, meter in meters.items()}
        self.host.check_echoes(self.payloads(heard), batch.first, batch.count)
        return Flow(batch.count, seconds, own, passed)

    def _batch(self, count: int, tool: str) -> Batch:
        first = self._ids(count)
        return Batch(self.message(self.host.echo(first, tool)), first, count)

    def _ids(self, count: int) -> int:
        """The first of so many ids that were not used yet."""
        first = self._next
        self._next += count
        return first
