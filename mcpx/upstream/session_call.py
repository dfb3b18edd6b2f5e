"""A host's request on one session: sent, sent again where the server wants it so, and its questions answered.

A legacy server asks while its request is under way. A modern one ends it with its questions, to be made again with the
answers (2026-07-28 basic/patterns/mrtr): unless the host does that itself, it is done here, and looks the same.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import msgspec
import trio
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamError
from mcpx.spec.asking import carry_answer, refusal
from mcpx.spec.codes import HEADER_MISMATCH
from mcpx.spec.methods import METHODS
from mcpx.upstream.call import InputRequired, Question, Reply, Withdrawn
from mcpx.upstream.clock import CallClock
from mcpx.upstream.pending import ANY_HOST, LEGACY_HOST, NO_HOST, PendingCall
from mcpx.upstream.roots import ROOTS, answer_rest, answer_some
from mcpx.wire import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from mcpx.upstream.call import Event, Request
    from mcpx.upstream.session import Session

log = logging.getLogger("mcpx.upstream")

# How often in all one request is made where its server asks again and again, and how long mcpx waits before a try for
# which it asked nothing.
MAX_ROUNDS = 10
ROUND_DELAY = 0.2

_INTERRUPTED = frozenset(name for name, row in METHODS.items() if row.interrupts is not None)

EMPTY_COMPLETION = Raw(b'{"completion":{"values":[]}}')  # for a server that completes nothing (LV-11)


class _Round:
    """What a modern server asked before it wants the request again."""

    def __init__(self, asked: InputRequired) -> None:
        self.state = asked.state
        self.waiting: dict[str, Question] = {}  # by the key that the host knows a question by
        self.answers: dict[str, Raw] = {}  # by the server's own

    @property
    def extra(self) -> dict[str, Raw]:
        """The params that the request is made again with."""
        extra: dict[str, Raw] = {}
        if self.answers:
            extra["inputResponses"] = frames.to_raw(self.answers)
        if self.state is not None:
            extra["requestState"] = self.state
        return extra


class _Retry(msgspec.Struct, frozen=True):
    """The request is to be made again: with these params more, at that time, once the tools were listed."""

    extra: dict[str, Raw] | None
    at: float = 0.0
    listed: bool = True


class SessionCall:
    """A ``Call`` on one session. ``params`` stand for the request's, which name the item as hosts do; ``own`` is for
    requests of mcpx's own, which no question rides on.
    """

    __slots__ = (
        "_asked",
        "_clock",
        "_events",
        "_extra",
        "_failure",
        "_listed_again",
        "_own",
        "_params",
        "_pending",
        "_request",
        "_retry",
        "_round",
        "_rounds",
        "_session",
        "_wake",
    )

    def __init__(self, session: Session, request: Request, params: dict[str, Raw], *, own: bool = False) -> None:
        limits = session.limits
        self._session = session
        self._request = request
        self._params = params
        self._own = own
        self._clock = CallClock(limits.call_timeout, limits.call_timeout_total, limits.question_timeout)
        self._rounds = 0
        self._asked = 0  # questions of a modern server, over all rounds
        self._listed_again = False
        self._events: deque[Event] = deque()  # which come from no request that is under way
        self._round: _Round | None = None  # its questions are open
        self._retry: _Retry | None = None
        self._failure: UpstreamError | None = None  # what it ends with
        self._wake: trio.Event | None = None
        self._extra: dict[str, Raw] | None = None
        if session.questions is None and (request.resumes is not None or request.state is not None):
            resumes, state = request.resumes, request.state
            if (roots := session.roots(request.asker)) is not None:
                resumes, state = answer_rest(resumes, state, roots)
            self._extra = {} if resumes is None else {"inputResponses": frames.to_raw(dict(resumes))}
            if state is not None:
                self._extra["requestState"] = state
        self._pending = self._attempt()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave it: a request that has not ended is cancelled upstream."""
        self._pending.close()
        if self._session.questions is not None:
            self._session.questions.leave(self._pending)
        self._round = None

    # -- the call

    def begin_nowait(self, heed: Callable[[], None]) -> bool:
        """Send the request before the first ``next``; see ``mcpx.gateway.exchange.Exchange``."""
        session = self._session
        if session.logs.is_behind(self._request.asker):
            return False
        if session.questions is not None:
            session.questions.adopt(self._pending)
        return self._pending.send_nowait(heed)

    async def next(self) -> Event:
        """The next event; see ``mcpx.upstream.call.Call``."""
        while (event := self._next_nowait()) is None:
            if self._retry is not None:
                await self._try_again(self._retry)
            elif self._round is not None:
                await self._wait_for_answers()
            else:
                if self._pending.id is None:
                    await self._before_sending()
                try:
                    event = self._take(await self._pending.next_raw())
                except RpcError as error:
                    event = self._take_error(error)
                if event is not None:
                    return event
        return event

    def next_nowait(self) -> Event | None:
        """The next event, where one has come already; see ``mcpx.upstream.call.Call``."""
        return self._next_nowait()

    def answer(self, key: str, outcome: Raw | RpcError, revision: str) -> None:
        """Answer a question; see ``mcpx.upstream.call.Call``."""
        if self._session.questions is not None:
            self._session.questions.answer(key, outcome, revision)
        elif self._round is not None and (question := self._round.waiting.get(key)) is not None:
            self._settle(self._round, key, carry_answer(question.method, outcome, revision, self._session.revision))

    @contextmanager
    def hold(self) -> Generator[None]:
        """Stop its clocks; see ``mcpx.upstream.call.Call``."""
        self._clock.hold()
        self._poke()
        try:
            yield
        finally:
            self._clock.release()
            self._poke()

    # -- inside

    async def _before_sending(self) -> None:
        session, asker = self._session, self._request.asker
        if session.logs.is_behind(asker):
            await session.logs.catch_up(asker)
        if session.questions is not None:
            session.questions.adopt(self._pending)

    def _next_nowait(self) -> Event | None:
        while True:
            if self._events:
                return self._events.popleft()
            if self._failure is not None:
                raise self._failure
            if self._round is not None or self._retry is not None:
                return None
            try:
                came = self._pending.next_raw_nowait()
                if came is None:
                    return None
                event = self._take(came)
            except RpcError as error:
                event = self._take_error(error)
            if event is not None:
                return event

    def _attempt(self) -> PendingCall:
        session, request, params, extra = self._session, self._request, self._params, self._extra
        rank = NO_HOST if self._own else ANY_HOST if request.method in _INTERRUPTED else LEGACY_HOST
        return PendingCall(
            session.connection,
            lambda number: session.frame(number, request, params, extra),
            self._clock,
            asker=request.asker,
            rank=rank,
            late=self._expire,
        )

    def _take(self, came: Event | Raw) -> Event | None:
        """What came of the request, for the host; ``None`` where it is to be made again first."""
        if not isinstance(came, Raw):
            return came
        session, request = self._session, self._request
        outcome = session.form.conclude(session.server, request.method, came, request.asker)
        if isinstance(outcome, InputRequired):
            roots = session.roots(request.asker)
            ours = roots is not None and {one.method for one in outcome.questions} == {ROOTS}
            if request.takes_input_required and not ours:
                return outcome if roots is None else answer_some(outcome)
            self._begin_round(outcome, roots)
            return None
        if session.mirrored is not None and request.method == "tools/list":
            outcome = session.mirrored.learn(outcome)
        return Reply(outcome, session.revision, session.server)

    def _take_error(self, error: RpcError) -> Event | None:
        if self._is_missing_completion(error):
            return Reply(EMPTY_COMPLETION, self._session.revision, self._session.server)
        if self._wants_other_headers(error):
            self._retry = _Retry(self._extra, listed=False)
            return None
        raise error

    async def _try_again(self, retry: _Retry) -> None:
        if not retry.listed:
            await self._session.list_again(self._request.asker)
            self._listed_again = True
        await trio.sleep_until(retry.at)
        self._retry = None
        self._extra = retry.extra
        self._pending = self._attempt()

    # -- the questions of a modern server

    def _begin_round(self, asked: InputRequired, roots: Raw | None) -> None:
        self._rounds += 1
        if self._rounds >= MAX_ROUNDS:
            raise UpstreamError(self._session.server, f"The server asked for the same request {self._rounds} times.")
        round = _Round(asked)
        for question in asked.questions:
            if question.method == ROOTS and roots is not None:
                round.answers[question.key] = roots
                continue
            self._asked += 1
            key = str(self._asked)
            round.waiting[key] = question
            self._clock.open(key)
            self._events.append(msgspec.structs.replace(question, key=key))
        if round.waiting:
            self._round = round
        else:
            self._retry = _Retry(round.extra, 0.0 if round.answers else trio.current_time() + ROUND_DELAY)

    def _settle(self, round: _Round, key: str, outcome: Raw | RpcError) -> None:
        """A question has its answer, or has none to be had."""
        question = round.waiting.pop(key)
        self._clock.close(key)
        if isinstance(outcome, RpcError):
            self._failure = UpstreamError(
                self._session.server,
                f"The server asked {question.method}, to which there is no answer: {outcome.message} ({outcome.code}). "
                "Its revision has no way to say so, which ends the request.",
            )
        else:
            round.answers[question.key] = outcome
        if self._failure is not None or not round.waiting:
            for left in list(round.waiting):
                del round.waiting[left]
                self._clock.close(left)
                self._events.append(Withdrawn(left))
            self._round = None
            self._retry = _Retry(round.extra)
        self._poke()

    async def _wait_for_answers(self) -> None:
        with trio.move_on_at(self._clock.expiry):
            self._wake = trio.Event()
            await self._wake.wait()
        for key in self._clock.overdue:
            self._expire(key)

    def _expire(self, key: str) -> None:
        """The answer to a question is overdue."""
        if self._session.questions is not None:
            self._session.questions.expire(key)
        elif self._round is not None and (question := self._round.waiting.get(key)) is not None:
            self._events.append(Withdrawn(key))
            reason = f"There was no answer within {self._session.limits.question_timeout:g} s"
            self._settle(self._round, key, refusal(question.method, reason))

    def _poke(self) -> None:
        if self._wake is not None:
            self._wake.set()
        self._pending.poke()

    # -- errors that are not the host's

    def _wants_other_headers(self, error: RpcError) -> bool:
        """Whether the call is to be made again, with the headers that the tool now asks for (2026-07-28
        basic/transports/streamable-http, Client Behavior). It did not run, and is made again once.
        """
        return (
            error.code == HEADER_MISMATCH
            and self._session.mirrored is not None
            and self._request.method == "tools/call"
            and not self._listed_again
        )

    def _is_missing_completion(self, error: RpcError) -> bool:
        return (
            error.code == frames.METHOD_NOT_FOUND
            and self._request.method == "completion/complete"
            and self._session.form.assumes_completions
        )
