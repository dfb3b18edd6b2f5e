"""Requests out of one HTTP body, run to their answers, wherever those go."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from mcpx.errors import RemoteProtocolError
from mcpx.host.answer import Answer
from mcpx.host.conversation import Slot
from mcpx.host.http.reply import JSON_HEADERS
from mcpx.wire.frames import INVALID_REQUEST, PARSE_ERROR, is_batch

if TYPE_CHECKING:
    from collections.abc import Generator

    from mcpx.host.conversation import Conversation
    from mcpx.host.http.flights import Flight
    from mcpx.host.inbound import Way
    from mcpx.transports.http_server import HttpResponse

# The HTTP status of what a legacy host is refused; any other error is an answer like others.
_REFUSED: dict[int | None, int] = {PARSE_ERROR: 400, INVALID_REQUEST: 400}


class Taken(NamedTuple):
    """What was in one body: the requests that were let in, and the errors that refuse others."""

    slots: list[Slot]
    refusals: list[Answer]
    batched: bool = False


class Owed:
    """The requests under way, so that the end can wait for them, and then cut them short."""

    def __init__(self) -> None:
        self._scopes: dict[trio.CancelScope | Flight, None] = {}
        self._settled = trio.Event()

    @contextmanager
    def owing(self, scope: trio.CancelScope) -> Generator[None]:
        """A request is under way while entered."""
        self.add(scope)
        try:
            yield
        finally:
            self.remove(scope)

    def add(self, one: trio.CancelScope | Flight) -> None:
        """A request is under way until it is removed."""
        self._scopes[one] = None

    def remove(self, one: trio.CancelScope | Flight) -> None:
        """It is over, or somebody else has added it."""
        del self._scopes[one]
        if not self._scopes:
            self._settled.set()

    async def settle(self) -> None:
        """Wait until none is under way."""
        while self._scopes:
            self._settled = trio.Event()
            await self._settled.wait()

    def cut(self) -> None:
        """Cut short what is under way: each gets the answer that mcpx is stopping."""
        for scope in list(self._scopes):
            scope.cancel()


def take_body(conversation: Conversation, body: bytes) -> Taken:
    """Take one body in: a message, or a batch where the host's revision has any."""
    if not is_batch(body):
        return _sorted([conversation.take(body)], batched=False)
    try:
        messages = conversation.split(body)
    except RemoteProtocolError as error:
        return Taken([], [conversation.refusal(None, error)])
    return _sorted([conversation.take(one, batched=True) for one in messages], batched=True)


def _sorted(taken: list[Slot | Answer | None], *, batched: bool) -> Taken:
    return Taken(
        [one for one in taken if isinstance(one, Slot)], [one for one in taken if isinstance(one, Answer)], batched
    )


async def answer_all(conversation: Conversation, taken: Taken, way: Way, owed: Owed) -> bytes | None:
    """The answers to what was taken in, those of a batch as one batch (2025-03-26 basic/index, Batching).

    ``None`` where there are none: each request was cancelled.
    """
    if not taken.batched:
        [slot] = taken.slots
        answer = await answer_one(conversation, slot, way, owed)
        return None if answer is None else answer.data
    answers = list(taken.refusals)

    async def run(slot: Slot) -> None:
        if (answer := await answer_one(conversation, slot, way, owed)) is not None:
            answers.append(answer)

    async with trio.open_nursery() as nursery:
        for slot in taken.slots:
            nursery.start_soon(run, slot)
    return batch(answers) if answers else None


async def answer_one(conversation: Conversation, slot: Slot, way: Way, owed: Owed) -> Answer | None:
    """The answer to one request; ``None`` where its host has cancelled it, a farewell where the end cut it short."""
    answer: Answer | None = None
    is_owed = False
    try:
        with owed.owing(slot.scope), slot.scope:
            answer = await conversation.answer(slot, way)
    finally:
        is_owed = conversation.end(slot)
    if not is_owed:
        return None
    return answer if answer is not None else conversation.farewell(slot)


async def send_refusals(response: HttpResponse, taken: Taken) -> None:
    """Answer a POST without requests that were let in: 202 where it held notifications and responses alone.

    (2025-03-26 to 2025-11-25 basic/transports, Sending Messages to the Server.)
    """
    if not taken.refusals:
        await response.send(202)
        return
    [refusal, *more] = taken.refusals
    message = batch(taken.refusals) if taken.batched else refusal.data
    status = 200 if more else _REFUSED.get(refusal.code, 200)
    await response.send(status, message, JSON_HEADERS)


def batch(answers: list[Answer]) -> bytes:
    """Several answers as one message."""
    return b"[" + b",".join(answer.data for answer in answers) + b"]"
