"""Exchanges that wait for a modern host to come back with answers.

A legacy server asks in the midst of a call, which goes on meanwhile; a modern host hears of it as the result of its
request, and answers with another request. Between the two the exchange is parked: a task of the gateway owns it, with a
limit in time, and keeps what comes of it for the retry. Each set of questions that a host is given begins a round,
which one retry ends. A repeat of that retry joins it while it lasts; whatever comes later with the same state is
refused (2026-07-28 basic/patterns/mrtr).
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
import trio

from mcpx.errors import LocalProtocolError, McpxError, RpcError, UpstreamTimeout
from mcpx.gateway.questions import GATHER
from mcpx.upstream.call import LogMessage, Progress, Question, Reply, Withdrawn
from mcpx.wire.frames import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from msgspec import Raw

    from mcpx.gateway.exchange import Exchange
    from mcpx.gateway.questions import Asked, OpenQuestions
    from mcpx.upstream.call import Event

log = logging.getLogger("mcpx.gateway")

ID_BYTES = 16  # of randomness in the name of a parked exchange
MAX_KEPT = 64  # events kept of an exchange that nobody follows, or whose host is slow to; the oldest go first


class Ticket(msgspec.Struct, frozen=True):
    """What a retry names a parked exchange by: which one, and which of its rounds the retry ends."""

    id: str
    round: int


class Open(NamedTuple):
    """A round ends with this where there is more to answer: all that is open, and the ticket for the retry."""

    asked: tuple[Asked, ...]
    ticket: Ticket


class Parking:
    """All parked exchanges. Their tasks are in ``nursery``; ``limit`` is how many there can be, ``patience`` how long
    each waits for answers, in seconds.
    """

    def __init__(self, nursery: trio.Nursery, limit: int, patience: float) -> None:
        self._nursery = nursery
        self._limit = limit
        self._patience = patience
        self._parked: dict[str, _Parked] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, owner: str, exchange: Exchange, questions: OpenQuestions, entered: ExitStack) -> Open:
        """Park an exchange with questions open, for the host ``owner``.

        ``entered`` holds the two, which are left when the exchange is over. Raises ``McpxError``, and takes nothing
        over, where there are too many.
        """
        if len(self._parked) >= self._limit:
            raise McpxError(f"Too many requests wait for answers (the limit is {self._limit})")
        parked = _Parked(owner, exchange, questions, entered.pop_all(), self._patience)
        self._parked[parked.id] = parked
        self._nursery.start_soon(self._keep, parked)
        return parked.open

    def resume(self, ticket: Ticket, answers: Mapping[str, Raw]) -> Retry:
        """Go on with a parked exchange: a retry has brought these answers, by the keys of the questions.

        Keys of no open question are ignored, and open questions without an answer are asked again. Raises ``RpcError``
        (``-32602``) where the exchange is over, or the round is.
        """
        parked = self._parked.get(ticket.id)
        if parked is None:
            raise _used("the request that it belongs to is over")
        return parked.resume(ticket.round, answers)

    def leave(self, owner: str) -> None:
        """The host has gone, and comes back for none of its exchanges."""
        for parked in self._parked.values():
            if parked.owner == owner:
                parked.cancel()

    async def _keep(self, parked: _Parked) -> None:
        try:
            await parked.run()
        finally:
            del self._parked[parked.id]


class _Round:
    """One retry, and those that repeat it while it lasts."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.begun = False
        self.outcome: Reply | Open | BaseException | None = None
        self.followers: dict[Retry, None] = {}

    def settle(self, outcome: Reply | Open | BaseException) -> None:
        self.outcome = outcome
        for follower in self.followers:
            follower.wake()


class _Parked:
    """One parked exchange; ``run`` is its task."""

    def __init__(
        self, owner: str, exchange: Exchange, questions: OpenQuestions, entered: ExitStack, patience: float
    ) -> None:
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.owner = owner
        self._exchange = exchange
        self._questions = questions
        self._entered = entered
        self._patience = patience
        self._scope = trio.CancelScope()
        self._round = _Round(1)
        self._end: Reply | BaseException | None = None
        self._claimed = trio.Event()  # somebody has the end, or nobody comes for it any more
        self._backlog: deque[Progress | LogMessage] = deque(maxlen=MAX_KEPT)
        self._held = ExitStack()
        self._wait_for_retry()

    @property
    def open(self) -> Open:
        """All that is open, for the round under way."""
        return Open(tuple(self._questions), Ticket(self.id, self._round.number))

    def cancel(self) -> None:
        """Nobody is interested any more."""
        self._scope.cancel()
        self._claimed.set()

    async def run(self) -> None:
        """Follow the exchange to its end, and keep that for a while."""
        try:
            with self._scope, self._entered:
                try:
                    self._conclude(await self._follow())
                except McpxError as error:
                    self._conclude(error)
        except* Exception as failure:  # a bug ends this call alone; whoever makes the retry gets it, if anybody does
            log.error("A bug in mcpx ended a parked call", exc_info=failure)
            self._conclude(failure)
        if self._end is None:
            self._conclude(
                UpstreamTimeout(
                    self._exchange.server,
                    f"Its questions were not answered within {self._patience:g} s and the request was cancelled.",
                )
            )
        with trio.move_on_after(self._patience):
            await self._claimed.wait()

    async def _follow(self) -> Reply:
        ask_at = inf  # when the host is given the questions that have come since its retry began
        while True:
            event: Event | None = None
            with trio.move_on_at(ask_at):
                event = await self._exchange.next()
            if isinstance(event, Reply):
                return event
            if event is not None:
                self._take(event)
            due = self._round.begun and len(self._questions) > 0
            if event is None and due:
                self._ask()
                due = False
            ask_at = min(ask_at, trio.current_time() + GATHER) if due else inf

    def _take(self, event: Event) -> None:
        match event:
            case Question():
                self._questions.take(event)
            case Withdrawn():
                self._questions.withdraw(event.key)
            case Progress() | LogMessage():
                if self._round.begun:
                    for follower in self._round.followers:
                        follower.put(event)
                else:
                    self._backlog.append(event)
            case _:
                raise LocalProtocolError(f"{type(event).__name__} of a call that was parked")

    def _conclude(self, end: Reply | BaseException) -> None:
        self._end = end
        if self._round.begun:
            self._round.settle(end)
            self._claimed.set()

    # -- rounds

    def resume(self, number: int, answers: Mapping[str, Raw]) -> Retry:
        round = self._round
        if number != round.number or (round.begun and round.outcome is not None):
            raise _used("it was used before")
        retry = Retry(self, round)
        if not round.begun:
            round.begun = True
            self._scope.deadline = inf  # a retry is there, so that the limits of the call itself count again
            self._held.close()
            for event in self._backlog:
                retry.put(event)
            self._backlog.clear()
            for key, answer in answers.items():
                self._questions.answer(key, answer)
            if self._end is not None:
                self._conclude(self._end)
            elif len(self._questions):
                self._ask()
        return retry

    def _ask(self) -> None:
        """End this round with what is open, and begin the next."""
        round, self._round = self._round, _Round(self._round.number + 1)
        self._wait_for_retry()
        round.settle(self.open)

    def _wait_for_retry(self) -> None:
        """Nothing but this limit counts until a retry is there: neither the server's nor that of its questions."""
        self._scope.deadline = trio.current_time() + self._patience
        self._held.enter_context(self._exchange.hold())


class Retry:
    """A retry that follows its exchange: a context manager. When the last one leaves before the round is over, the
    exchange is cancelled.
    """

    def __init__(self, parked: _Parked, round: _Round) -> None:
        self._parked = parked
        self._round = round
        self._events: deque[Progress | LogMessage] = deque(maxlen=MAX_KEPT)
        self._news = trio.Event()
        round.followers[self] = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._round.followers[self]
        if self._round.outcome is None and not self._round.followers:
            self._parked.cancel()

    def put(self, event: Progress | LogMessage) -> None:
        """An event that the retry's host is to hear of."""
        self._events.append(event)
        self.wake()

    def wake(self) -> None:
        """There may be something new."""
        self._news.set()

    async def next(self) -> Progress | LogMessage | Reply | Open:
        """The next event; the last one is the ``Reply``, or the questions that are open. Raises what ended the
        exchange otherwise.
        """
        while not self._events and self._round.outcome is None:
            self._news = trio.Event()
            await self._news.wait()
        if self._events:
            return self._events.popleft()
        outcome = self._round.outcome
        assert outcome is not None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def _used(why: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: requestState cannot be used: {why}")
