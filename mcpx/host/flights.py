"""Calls that are under way without a task of their own.

Most calls are quick, and nothing happens in their course: they are sent as they come, and their answers are passed on
by whoever reads them. Whatever takes longer, or needs something to be waited for, *lands*: it becomes a task, which
goes on with the same exchange.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from mcpx.host.conversation import Conversation, Slot
    from mcpx.settings import Limits
    from mcpx.transports.channel import Channel

T = TypeVar("T")

MAX_FLIGHT = 0.1  # seconds before a call lands: its limits in time are measured by its task


class Timetable(Generic[T]):
    """What is under way without a task, in the order in which it began. ``land`` is called with each whose time is
    over, and takes it out.
    """

    def __init__(self, limits: Limits, land: Callable[[T], None]) -> None:
        # Whether anything may be under way so: limits in time that are shorter than a flight take tasks to measure.
        self.is_open = min(limits.call_timeout, limits.call_timeout_total) > MAX_FLIGHT
        self._land = land
        self._due: OrderedDict[T, float] = OrderedDict()  # when each is to land; the first one first
        self._some = trio.Event()  # set while there are any, unless `run` is awake anyway

    def __contains__(self, one: T) -> bool:
        return one in self._due

    def __iter__(self) -> Iterator[T]:
        """Those under way now, whatever becomes of them meanwhile."""
        return iter(list(self._due))

    def add(self, one: T, since: float) -> None:
        """One is under way, since that time on Trio's clock."""
        self._due[one] = since + MAX_FLIGHT
        self._some.set()

    def remove(self, one: T) -> bool:
        """One is over, or lands; say whether it was under way until now."""
        return self._due.pop(one, None) is not None

    async def run(self) -> None:
        """Land what takes too long, until cancelled."""
        while True:
            await self._some.wait()
            if self._due:
                await trio.sleep_until(next(iter(self._due.values())))
            now = trio.current_time()
            while self._due and next(iter(self._due.values())) <= now:
                self._land(next(iter(self._due)))
            if not self._due:
                self._some = trio.Event()


class Flights:
    """The flights of one connection. A context manager: what is under way at its end is cut short, and told so.

    ``land`` gives a request its task; ``settle`` is called when one has ended without.
    """

    def __init__(
        self,
        conversation: Conversation,
        channel: Channel,
        limits: Limits,
        land: Callable[[Slot], None],
        settle: Callable[[], None],
    ) -> None:
        self._conversation = conversation
        self._channel = channel
        self._land = land
        self._settle = settle
        self._aloft: Timetable[Slot] = Timetable(limits, self._come_down)
        self.run = self._aloft.run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for slot in self._aloft:
            if self._end(slot):
                self._channel.send_nowait(self._conversation.farewell(slot).data)

    def begin(self, slot: Slot) -> bool:
        """Send a request at once, if it needs no task so far; say whether it is under way."""
        if not self._aloft.is_open or not self._conversation.begin(slot, partial(self._heed, slot)):
            return False
        slot.flights = self
        self._aloft.add(slot, trio.current_time())
        return True

    def cancel(self, slot: Slot) -> None:
        """The host wants no answer to a request any more."""
        self._end(slot)

    def land_all(self) -> None:
        """The end begins: what is under way gets tasks, which can be waited for and cut short."""
        for slot in self._aloft:
            self._come_down(slot)

    def _heed(self, slot: Slot) -> None:
        """Something has come for a request, or will not come."""
        if slot not in self._aloft:
            return  # it has landed, and its task, which has not run yet, will see
        answer = self._conversation.look(slot)
        if answer is None:
            self._come_down(slot)
        elif self._channel.offer(answer.data):
            self._end(slot)
        else:  # the host is slow to read
            assert slot.begun is not None
            slot.begun.close()
            slot.answer = answer
            self._come_down(slot)

    def _come_down(self, slot: Slot) -> None:
        self._aloft.remove(slot)
        slot.flights = None
        self._land(slot)

    def _end(self, slot: Slot) -> bool:
        """A request is over; say whether it is owed an answer."""
        self._aloft.remove(slot)
        assert slot.begun is not None
        slot.begun.close()
        owed = self._conversation.end(slot)
        self._settle()
        return owed
