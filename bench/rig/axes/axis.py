"""What all axes have in common, and what is measured of calls at every point."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from rig.account import account, processor
from rig.growth import each, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rig.loads import Era, Flow

    Measured = Mapping["Quantity", float]  # of one point, once
    Medians = Mapping[int, Mapping["Quantity", float]]  # of all points, in their order


class Quantity(NamedTuple):
    """A column of a table."""

    head: str
    unit: str
    held: bool = False  # a cost that should not grow along the axis


ALONE = Quantity("alone µs", "µs", held=True)
ALONE_CPU = Quantity("CPU µs", "µs", held=True)
RATE = Quantity("calls/s", "1/s")
BUSY_CPU = Quantity("busy CPU µs", "µs", held=True)
LOAD = Quantity("load µs", "µs")
RESIDENT = Quantity("MiB", "MiB")


class Axis(ABC):
    """One of them."""

    name: str  # on the command line
    title: str
    of: str  # what there is more and more of
    points: Sequence[int]
    quick: Sequence[int]  # those of a quick run
    one: str = ""  # of what the memory is told, where one more of it takes some

    def __init__(self, era: Era) -> None:
        self.era: Era = era  # of hosts and servers, where the axis does not say which

    @abstractmethod
    def measure(self, point: int, seconds: float) -> Measured:
        """Start everything anew and measure it once, for so long each; raises ``FailedError`` where it cannot."""

    def label(self, point: int) -> str:
        return f"{point:,}"

    def remarks(self, found: Medians) -> list[str]:
        """What follows from the medians of at least two points."""
        first = next(iter(found.values()))
        said = [
            f"{quantity.head}: {verdict([values[quantity] for values in found.values()])}"
            for quantity in first
            if quantity.held
        ]
        if self.one:
            memory = each({point: values[RESIDENT] * 1024 for point, values in found.items()})
            said.append(f"memory of {self.one}: {', '.join(f'{value:.1f}' for value in memory.values())} KiB")
        return said


def of_calls(
    pid: int,
    seconds: float,
    alone: Callable[[float], Sequence[float]],
    busy: Callable[[float, Mapping[str, Callable[[], float]]], Flow],
) -> dict[Quantity, float]:
    """What calls cost that come one at a time, and what those do of which many are in flight."""
    before = account(pid)
    taken = alone(seconds)
    spent = account(pid).since(before)
    flow = busy(seconds, {"mcpx": lambda: processor(pid)})
    return {
        ALONE: statistics.median(taken) * 1e6,
        ALONE_CPU: spent.cpu / len(taken) * 1e6,
        RATE: flow.rate,
        BUSY_CPU: flow.meters["mcpx"] / flow.calls * 1e6,
        LOAD: flow.own_cpu / flow.calls * 1e6,
    }
