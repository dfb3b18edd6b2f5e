"""The questions of one call that are open, and who is asked those that come while no call is under way."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from mcpx.errors import RpcError
from mcpx.spec.asking import refusal
from mcpx.spec.carry import CannotSay

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from msgspec import Raw

    from mcpx.upstream.call import Call, Question, Unasked

    Say = Callable[[Question], dict[str, Raw]]
    # Ask a host at once, giving back what withdraws the question there; ``None`` where it cannot be asked so.
    Desk = Callable[[Unasked], Callable[[], None] | None]

log = logging.getLogger("mcpx.gateway")

# Seconds after a question for which others are waited for that a modern host is then asked together with it: over HTTP
# each comes in a message of its own, and a round takes the host far longer.
GATHER = 0.1
MAX_OPEN = 256  # questions that hosts are asked outside any call; further ones wait for one


class Asked(NamedTuple):
    """A question that is open, and its params as the host's revision says them."""

    question: Question
    params: dict[str, Raw]


class OpenQuestions:
    """The questions of one call that are open at its host.

    ``say`` gives the params of a question as the host's revision says them, and raises ``CannotSay`` or ``RpcError``
    where this host cannot be asked it: such a one is refused here, and the call goes on. ``revision`` is that of the
    answers.
    """

    def __init__(self, call: Call, say: Say, revision: str) -> None:
        self._call = call
        self._say = say
        self._revision = revision
        self._open: dict[str, Asked] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Asked]:
        return iter(self._open.values())

    def take(self, question: Question) -> Asked | None:
        """Take one in; ``None`` where it was refused."""
        try:
            asked = Asked(question, self._say(question))
        except (CannotSay, RpcError) as error:
            log.warning("A question of a server (%s) was refused: %s", question.method, error)
            self._call.answer(question.key, refusal(question.method, str(error)), self._revision)
            return None
        self._open[question.key] = asked
        return asked

    def answer(self, key: str, outcome: Raw | RpcError) -> None:
        """The host has answered; ignored where no question of that key is open."""
        if self.withdraw(key):
            self._call.answer(key, outcome, self._revision)

    def withdraw(self, key: str) -> bool:
        """The server wants no answer any more; say whether the question was open."""
        return self._open.pop(key, None) is not None


class Desks:
    """The hosts that can be asked at any time, for what servers ask while none of their calls is under way.

    Such a question is refused after ``patience`` seconds. Tasks are in ``nursery``.
    """

    def __init__(self, nursery: trio.Nursery, patience: float) -> None:
        self._nursery = nursery
        self._patience = patience
        self._desks: dict[str, Desk] = {}
        self._open = 0

    @contextmanager
    def desk(self, host: str, desk: Desk) -> Generator[None]:
        """While entered, ask ``host`` by this. It must not block."""
        self._desks[host] = desk
        try:
            yield
        finally:
            del self._desks[host]

    def ask(self, unasked: Unasked) -> bool:
        """Ask the host of a question at once; ``False`` where that cannot be done."""
        desk = self._desks.get(unasked.host)
        withdraw = None if desk is None or self._open >= MAX_OPEN else desk(unasked)
        if withdraw is None:
            return False
        self._open += 1
        self._nursery.start_soon(self._bound, unasked, withdraw)
        return True

    async def _bound(self, unasked: Unasked, withdraw: Callable[[], None]) -> None:
        """Let a question wait so long and no longer."""
        try:
            with trio.move_on_after(self._patience):
                await unasked.over.wait()
            withdraw()
            if not unasked.over.is_set():
                log.info("[%s] a question (%s) was not answered in time", unasked.server, unasked.question.method)
                reason = f"The host did not answer within {self._patience:g} s"
                unasked.answer(refusal(unasked.question.method, reason), unasked.question.revision)
        finally:
            self._open -= 1
