"""Calls of POSTs that are under way without a task, as those of ``mcpx.host.flights`` are on a byte stream.

A call is sent as it comes, and answered by whoever reads its answer. Where it takes longer, or anything else comes, it
*lands*: the task of its connection goes on with the same exchange.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import trio

from mcpx.host.flights import Timetable

if TYPE_CHECKING:
    from mcpx.host.answer import Answer
    from mcpx.host.conversation import Conversation, Slot
    from mcpx.host.http.exchanges import Owed
    from mcpx.settings import Limits
    from mcpx.transports.http_server import Aloft, HttpResponse

# What may be under way so: a request that upstreams answer. Anything else is left to a handler at once.
CALLS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})


class Flights:
    """Those of one endpoint."""

    def __init__(self, limits: Limits, owed: Owed) -> None:
        self.owed = owed
        self.up: Timetable[Flight] = Timetable(limits, lambda flight: flight.land())


class Flight(ABC):
    """One of them. It is up until it is answered or lands; its task has it from then on."""

    __slots__ = ("_flights", "aloft", "conversation", "since", "slot")

    def __init__(self, flights: Flights, conversation: Conversation, slot: Slot, aloft: Aloft) -> None:
        self._flights = flights
        self.conversation = conversation
        self.slot = slot
        self.aloft = aloft
        self.since = trio.current_time()

    def begin(self) -> None:
        """Send the request, if it needs no task so far; else it lands at once."""
        self.slot.flights = self
        self._flights.owed.add(self)
        if self.conversation.begin(self.slot, self._heed):
            self._flights.up.add(self, self.since)
        else:
            self.aloft.land(self._go_on)

    def land(self) -> None:
        """Have a task go on with it, if that is not so already."""
        if self._flights.up.remove(self):
            self.aloft.land(self._go_on)

    def cancel(self, slot: Slot | None = None) -> None:
        """It is cancelled, or cut short: its task says what is to be said then."""
        self.land()
        self.slot.scope.cancel()

    def hang_up(self) -> None:
        """Its client hung up before it was answered, or a task had it."""
        self._flights.up.remove(self)
        self._leave()
        self.left_alone()

    def _heed(self) -> None:
        """Something has come for it."""
        if self._flights.up.remove(self):  # else it has landed, and its task, which has not run yet, will see
            answer = self.conversation.look(self.slot)
            if answer is None:
                self.aloft.land(self._go_on)
            else:
                self._leave()
                self.end()
                self.answered(answer)

    async def _go_on(self, response: HttpResponse) -> None:
        self._leave()
        await self.landed(response)

    def _leave(self) -> None:
        self.slot.flights = None
        self._flights.owed.remove(self)

    def end(self) -> None:
        """The request is over."""
        if self.slot.begun is not None:
            self.slot.begun.close()
        self.conversation.end(self.slot)

    @abstractmethod
    def answered(self, answer: Answer) -> None:
        """The request has ended: give the answer."""

    @abstractmethod
    def left_alone(self) -> None:
        """Nobody waits for the answer."""

    @abstractmethod
    async def landed(self, response: HttpResponse) -> None:
        """Go on with it as a task."""
