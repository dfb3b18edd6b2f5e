"""The questions of a call, asked on the wire while it runs, as legacy hosts are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mcpx.gateway.questions import OpenQuestions
from mcpx.host.desk import say_question
from mcpx.spec.carry import CannotSay

if TYPE_CHECKING:
    from types import TracebackType

    from msgspec import Raw

    from mcpx.errors import RpcError
    from mcpx.gateway.exchange import Exchange
    from mcpx.host.inbound import Inbound, Turn
    from mcpx.upstream.call import Question


class Asking:
    """Asks the host of one call. A context manager: what is open at its end is withdrawn at the host."""

    def __init__(self, exchange: Exchange, request: Inbound, turn: Turn) -> None:
        self._request = request
        self._turn = turn
        self._questions = OpenQuestions(exchange, self._say, request.revision)
        self._ids: dict[str, str] = {}  # by key, of the questions that the host was asked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for key in list(self._ids):
            if said := self._withdrawal(key):
                self._turn.way.offer(said)  # nothing may be waited for: the call has been cancelled, or is answered

    async def ask(self, question: Question) -> None:
        """Ask one; the answer goes to the call by itself."""
        asked = self._questions.take(question)
        desk = self._turn.desk
        if asked is None or desk is None:
            return
        key = question.key
        id, frame = desk.ask(question.method, asked.params, lambda outcome: self._settle(key, outcome))
        self._ids[key] = id
        await self._turn.way.send(frame)

    async def withdraw(self, key: str) -> None:
        """The server wants no answer any more."""
        self._questions.withdraw(key)
        if said := self._withdrawal(key):
            await self._turn.way.send(said)

    def _say(self, question: Question) -> dict[str, Raw]:
        if self._turn.desk is None or self._request.modern:
            raise CannotSay(f"its host cannot be asked anything in a request of {self._request.method}")
        return say_question(question, self._request.asker, self._request.revision)

    def _settle(self, key: str, outcome: Raw | RpcError) -> None:
        self._ids.pop(key, None)
        self._questions.answer(key, outcome)

    def _withdrawal(self, key: str) -> bytes | None:
        id, desk = self._ids.pop(key, None), self._turn.desk
        return None if id is None or desk is None else desk.withdraw(id, "No answer is needed any more")
