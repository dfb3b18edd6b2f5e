"""The questions of a legacy server, each a request of its own on the wire: whose it is, and what is answered.

No frame says which of our requests caused it, unless each has a stream of its own, as over Streamable HTTP. What makes
that certain is that all calls of one session are one host's (``Certainty``); it rides on the last of them.
(2024-11-05 to 2025-11-25 client/elicitation, client/sampling, client/roots.)
"""

from __future__ import annotations

import logging
from itertools import count
from typing import TYPE_CHECKING, Literal

import trio

from mcpx.errors import RemoteProtocolError, RpcError
from mcpx.spec.asking import carry_answer, permit_question, refusal, without_hop_keys
from mcpx.spec.capabilities import promises_changes
from mcpx.upstream.call import Question, Unasked, Withdrawn
from mcpx.upstream.pending import ANY_HOST
from mcpx.upstream.roots import ROOTS
from mcpx.wire import frames
from mcpx.wire.peer import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from mcpx.upstream.connection import Connection
    from mcpx.upstream.pending import PendingCall

log = logging.getLogger("mcpx.upstream")

# Whether what a server asks beside any call is for the host whose requests it has, or had last. Where that is likely,
# as of a host without a connection that calls itself the same, it may be asked for its roots and for nothing else.
Certainty = Literal["certain", "likely", "unknown"]

MAX_QUESTIONS = 64  # of one session, open at once; one more is refused


class Open:
    """A question that the server awaits the answer to."""

    __slots__ = ("call", "due", "id", "over", "place", "question", "tied")

    place: int | str  # among the requests of the server that are not done with

    def __init__(self, id: Raw, question: Question) -> None:
        self.id = id.copy()  # and not all of the message
        self.question = question
        self.call: PendingCall | None = None  # which it rides on; None: it came unasked
        self.tied = False  # the server has said by the stream that this is the call
        self.due: float | None = None  # when it is refused, while it waits for a call to ride on
        self.over = trio.Event()


class Questions:
    """Those of one session. ``told`` is what the server was told at its handshake about ``host``.

    ``unasked`` takes one that comes while no call is under way, and says whether it did; otherwise it is kept for the
    next call, for ``patience`` seconds. ``roots`` is the answer to ``roots/list`` where it is not the host's to give.
    """

    def __init__(
        self,
        connection: Connection,
        revision: str,
        told: Mapping[str, Raw],
        host: str,
        patience: float,
        unasked: Callable[[Unasked], bool],
        roots: Raw | None = None,
    ) -> None:
        self.certainty: Callable[[], Certainty] = lambda: "certain"  # whether all its requests are one host's now
        self._connection = connection
        self._revision = revision
        self._told = told
        self._host = host
        self._patience = patience
        self._unasked = unasked
        self._roots = roots
        self._incoming: Incoming[Open] = Incoming(MAX_QUESTIONS)
        self._open: dict[str, Open] = {}
        self._numbers = count(1)
        self._kept = trio.Event()  # set when there is another one to be kept

    def __len__(self) -> int:
        return len(self._open)

    @property
    def follows_roots(self) -> bool:
        """Whether the server was told that it hears of it when the host's roots change."""
        return self._roots is None and promises_changes(self._told.get("roots"))

    # -- what the server says

    def asked(self, id: Raw, method: str, params: dict[str, Raw], stream: int | None) -> None:
        """The server has sent a request; ``stream`` is that of our request on whose stream it came."""
        server = self._connection.server
        try:
            params = without_hop_keys(permit_question(method, params, self._told, self._revision))
        except RpcError as error:
            log.debug("[%s] %s is refused: %s", server, method, error.message)
            self._connection.answer(frames.error(id, error.code, error.message))
            return
        if method == ROOTS and self._roots is not None:
            self._connection.answer(frames.result(id, self._roots))
            return
        one = Open(id, Question(str(next(self._numbers)), method, params, self._revision))
        try:
            one.place = self._incoming.begin(id, one)
        except RemoteProtocolError as error:
            self._connection.answer(frames.error(id, error.code, error.message))
            return
        self._open[one.question.key] = one
        caused_by = None if stream is None else self._connection.find_number(stream)
        if stream is not None and caused_by is None:
            self._refuse(one, "The request that this belongs to is over")
        elif caused_by is not None and caused_by.rank:
            one.tied = True
            self._put(one, caused_by)
        else:
            self._place(one)

    def withdrawn(self, id: Raw | None) -> None:
        """The server has cancelled a request of its own, which gets no answer then."""
        one = None if id is None else self._incoming.find(id)
        if one is not None:
            self._withdraw(one)

    def ended(self) -> None:
        """The connection is over, and so are all questions, as the calls that they ride on learn by themselves."""
        for one in list(self._open.values()):
            self._close(one)

    def forgotten(self) -> None:
        """The server has forgotten what it asked."""
        for one in list(self._open.values()):
            self._withdraw(one)

    @property
    def certain_host(self) -> str | None:
        """The host that what names no request is for; ``None`` where that is not certain."""
        return self._host if self.certainty() == "certain" else None

    # -- what the host says

    def answer(self, key: str, outcome: Raw | RpcError, revision: str) -> None:
        """Answer a question, if it is still open."""
        one = self._open.get(key)
        if one is not None:
            self._answer(one, carry_answer(one.question.method, outcome, revision, self._revision))

    def expire(self, key: str) -> None:
        """The answer is overdue: the question is refused, and no longer open at the host."""
        one = self._open.get(key)
        if one is None:
            return
        call = one.call
        self._refuse(one, f"There was no answer within {self._patience:g} s")
        if call is not None:
            call.put(Withdrawn(key))

    def adopt(self, call: PendingCall) -> None:
        """A call is about to be sent: what was kept for the host is put to it first, if every host can be asked then.

        A server that asks for roots right after its handshake wants to know them before it does anything.
        """
        if call.rank < ANY_HOST:
            return
        for one in self._open.values():
            if one.due is not None:
                self._put(one, call)

    def leave(self, call: PendingCall) -> None:
        """A call is over. What it left open is answered by nobody, unless the server has answered the call itself: then
        a question that merely happened to ride on it was never about it, and finds another way.
        """
        for one in list(self._open.values()):
            if one.call is not call:
                continue
            if call.answered and not one.tied:
                call.clock.close(one.question.key)
                one.call = None
                self._place(one)
            else:
                self._refuse(one, "The request that this belongs to is over")

    def released(self) -> None:
        """No request of the host is under way any more. The next one is likely to be its own, and not certainly."""
        self._give_up(lambda one: one.question.method != ROOTS)

    def replaced(self) -> None:
        """The next request is another host's."""
        self._give_up(lambda one: True)

    def _give_up(self, which: Callable[[Open], bool]) -> None:
        for one in list(self._open.values()):
            if one.due is not None and which(one):
                self._refuse(one, "The host has gone")

    async def run(self) -> None:
        """Refuse what was kept for too long, until cancelled."""
        while True:
            due = min((one.due for one in self._open.values() if one.due is not None), default=float("inf"))
            with trio.move_on_at(due):
                self._kept = trio.Event()
                await self._kept.wait()
            for one in list(self._open.values()):
                if one.due is not None and trio.current_time() >= one.due:
                    self.expire(one.question.key)

    # -- inside

    def _rider(self) -> PendingCall | None:
        """The call in flight that a question rides on: the last one sent, of those that take questions best."""
        calls = [call for call in self._connection.calls if call.rank]
        return max(reversed(calls), key=lambda call: call.rank, default=None)

    def _place(self, one: Open) -> None:
        """Find a way to the host for a question that names no request."""
        server, method = self._connection.server, one.question.method
        if (certainty := self.certainty()) == "unknown" or (certainty == "likely" and method != ROOTS):
            log.info("[%s] %s is refused: it is not certain which host it is for", server, method)
            self._refuse(one, "It is not certain which request this belongs to")
        elif (call := self._rider()) is not None:
            self._put(one, call)
        elif not self._unasked(Unasked(server, self._host, one.question, self._answering(one), one.over)):
            one.due = trio.current_time() + self._patience
            self._kept.set()

    def _put(self, one: Open, call: PendingCall) -> None:
        one.call, one.due = call, None
        call.put(one.question)

    def _answering(self, one: Open) -> Callable[[Raw | RpcError, str], None]:
        return lambda outcome, revision: self.answer(one.question.key, outcome, revision)

    def _refuse(self, one: Open, reason: str) -> None:
        self._answer(one, refusal(one.question.method, reason))

    def _answer(self, one: Open, outcome: Raw | RpcError) -> None:
        self._close(one)
        if isinstance(outcome, RpcError):
            frame = frames.error(one.id, outcome.code, outcome.message, outcome.data)
        else:
            frame = frames.result(one.id, outcome)
        self._connection.answer(frame)

    def _withdraw(self, one: Open) -> None:
        call = one.call
        self._close(one)
        if call is not None:
            call.put(Withdrawn(one.question.key))

    def _close(self, one: Open) -> None:
        del self._open[one.question.key]
        self._incoming.end(one.place)
        one.over.set()
        if one.call is not None:
            one.call.clock.close(one.question.key)
            one.call.poke()
