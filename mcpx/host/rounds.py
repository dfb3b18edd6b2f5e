"""Calls of modern hosts that may ask: what is asked is a result, and its answers come with a retry.

What a modern server asks is passed on with its own keys, and its own state sealed into mcpx's; nothing is kept here
for it. What a legacy server asks parks the exchange, which the sealed state names. (2026-07-28 basic/patterns/mrtr.)
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from mcpx.errors import RpcError, UpstreamError
from mcpx.gateway.parking import Open, Ticket
from mcpx.gateway.questions import GATHER, OpenQuestions
from mcpx.gateway.sealing import State
from mcpx.host.desk import say_question
from mcpx.host.events import Events
from mcpx.spec.carry import CannotSay
from mcpx.spec.codes import URL_ELICITATION_REQUIRED
from mcpx.spec.meta import SERVER_INFO
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import REVISIONS
from mcpx.upstream.call import InputRequired, Question, Reply, Request, Withdrawn
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, NULL, to_raw
from mcpx.wire.raws import elements_of, is_object, members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from msgspec import Raw

    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service
    from mcpx.upstream.call import Event

ELICIT = "elicitation/create"
RETRY = ("requestState", "inputResponses")  # the params that make a request a retry
# The methods whose results may ask, each in the revisions that have that: modern ones.
_MAY_ASK = frozenset(
    (name, revision)
    for name, row in METHODS.items()
    for revision in REVISIONS
    if row.interrupts is not None and row.interrupts.covers(revision)
)
_tickets = msgspec.json.Decoder(Ticket)
_keys = msgspec.json.Decoder(list[str])


def may_ask(request: Inbound) -> bool:
    """Whether the result of a request may ask its host for input."""
    return request.modern and (request.method, request.revision) in _MAY_ASK


async def call_in_rounds(service: Service, request: Inbound, turn: Turn) -> Reply | Raw:
    """The answer to a request that may ask, or the result that asks.

    Raises ``RpcError`` (``-32602``) for a state that cannot be used, otherwise as the gateway does.
    """
    rounds = _Rounds(service, request, turn)
    try:
        return await rounds.run()
    except RpcError as error:
        visits = rounds.visits(error)
        if visits is None:
            raise
        return await rounds.ask_for_visits(error.server or "", visits)


class _Rounds:
    """One request, the first one or a retry."""

    def __init__(self, service: Service, request: Inbound, turn: Turn) -> None:
        self._service = service
        self._gateway = service.gateway
        self._request = request
        self._turn = turn
        self._events = Events(request, turn)
        self._sealed = request.params.pop("requestState", NULL)
        self._answers = _answers(request.params.pop("inputResponses", NULL))

    async def run(self) -> Reply | Raw:
        if self._sealed == NULL:
            return await self._begin(resumes=self._answers)
        sealed = string_of(self._sealed)
        if sealed is None:
            raise RpcError(INVALID_PARAMS, "Invalid params: requestState must be a string")
        state = self._gateway.sealer.open(sealed, self._bound, time.time())
        if state.kind == "wrapped":
            return await self._begin(resumes=self._answers, state=state.inner, expected=state.server)
        if state.kind == "visits":
            self._check_visits(state)
            return await self._begin(expected=state.server)
        return await self._resume(_tickets.decode(state.inner))

    async def _begin(
        self, *, resumes: Mapping[str, Raw] | None = None, state: Raw | None = None, expected: str | None = None
    ) -> Reply | Raw:
        """Make the request upstream, until it is answered or something is asked."""
        request = self._request
        asked = Request(
            request.method,
            request.params,
            request.revision,
            request.asker,
            request.meta,
            resumes=resumes,
            state=state,
            takes_input_required=True,
        )
        with ExitStack() as entered:
            exchange = self._turn.begun or self._gateway.exchange(asked, expected=expected)
            entered.enter_context(exchange)
            questions = OpenQuestions(exchange, self._say, request.revision)
            ask_at = inf  # when what is asked goes out, with all else that is asked by then
            while True:
                event: Event | None = None
                with trio.move_on_at(ask_at):
                    event = await exchange.next()
                match event:
                    case Reply():
                        return event
                    case InputRequired():
                        return await self._pass_on(event)
                    case Question():
                        questions.take(event)
                    case Withdrawn():
                        questions.withdraw(event.key)
                    case None:
                        parked = self._gateway.parking.park(request.asker.host, exchange, questions, entered)
                        return await self._ask_parked(exchange.server, parked)
                    case _:
                        await self._events.tell(event)
                ask_at = min(ask_at, trio.current_time() + GATHER) if questions else inf

    async def _resume(self, ticket: Ticket) -> Reply | Raw:
        """Go on with the exchange that was parked, until it is answered or something more is asked."""
        answers = self._answers or {}
        for key, answer in answers.items():
            if not is_object(answer):
                raise RpcError(INVALID_PARAMS, f"Invalid params: inputResponses[{key!r}] must be an object")
        with self._gateway.parking.resume(ticket, answers) as retry:
            while True:
                event = await retry.next()
                if isinstance(event, Open):
                    return await self._ask_parked("", event)
                if isinstance(event, Reply):
                    return event
                await self._events.tell(event)

    # -- results that ask

    async def _pass_on(self, required: InputRequired) -> Raw:
        """What a modern server asks, as it asks it."""
        try:
            asked = [(one.key, one.method, self._say(one)) for one in required.questions]
        except (CannotSay, RpcError) as error:
            raise UpstreamError(required.server, f"The server asks what its host cannot be asked: {error}.") from None
        state = None if required.state is None else self._seal("wrapped", required.server, required.state)
        return await self._required(asked, state)

    async def _ask_parked(self, server: str, opened: Open) -> Raw:
        asked = [(one.question.key, one.question.method, one.params) for one in opened.asked]
        return await self._required(asked, self._seal("parked", server, to_raw(opened.ticket)))

    async def _required(self, asked: Iterable[tuple[str, str, dict[str, Raw]]], state: str | None) -> Raw:
        requests = {key: {"method": method, **({"params": params} if params else {})} for key, method, params in asked}
        result: dict[str, Any] = {"resultType": "input_required"}
        if requests:
            result["inputRequests"] = requests
        if state is not None:
            result["requestState"] = state
        return to_raw({**result, "_meta": {SERVER_INFO: await self._service.server_info(self._request)}})

    def _say(self, question: Question) -> dict[str, Raw]:
        return say_question(question, self._request.asker, self._request.revision)

    # -- URLs that a legacy server's error asks to visit (2025-11-25 client/elicitation, URL Elicitation Required Error)

    def visits(self, error: RpcError) -> list[tuple[str, str, dict[str, Raw]]] | None:
        """What an error asks of the host before the request can be made again; ``None`` where it is an error."""
        if error.code != URL_ELICITATION_REQUIRED or error.revision is None:
            return None
        data = None if error.data is None else members_of(to_raw(error.data))
        found: list[tuple[str, str, dict[str, Raw]]] = []
        for one in elements_of((data or {}).get("elicitations")) or ():
            params = members_of(one) or {}
            key = string_of(params.get("elicitationId"))
            said = [string_of(params.get(name)) for name in ("url", "message")]  # what a visit cannot do without
            if key is None or string_of(params.get("mode")) != "url" or None in said:
                return None
            try:
                found.append((key, ELICIT, self._say(Question(key, ELICIT, params, error.revision))))
            except (CannotSay, RpcError):
                return None
        return found or None

    async def ask_for_visits(self, server: str, visits: list[tuple[str, str, dict[str, Raw]]]) -> Raw:
        """The result that asks for them. Once they are agreed to, the request is made anew."""
        return await self._required(visits, self._seal("visits", server, to_raw([key for key, _, _ in visits])))

    def _check_visits(self, state: State) -> None:
        for key in _keys.decode(state.inner):
            answer = members_of((self._answers or {}).get(key)) or {}
            if string_of(answer.get("action")) != "accept":
                raise RpcError(
                    INTERNAL_ERROR,
                    f"{state.server}: The request needs a visit to a URL, which was not agreed to.",
                    {"server": state.server, "reason": "The visit to a URL was not agreed to."},
                )

    # -- the seal

    @property
    def _bound(self) -> bytes:
        return self._gateway.sealer.bind(self._request.method, self._request.params, self._turn.caller)

    def _seal(self, kind: Any, server: str, inner: Raw) -> str:
        expires = time.time() + self._gateway.settings.limits.question_timeout
        return self._gateway.sealer.seal(State(kind, server, expires, inner), self._bound)


def _answers(raw: Raw) -> dict[str, Raw] | None:
    """The answers by their questions' keys. Raises ``RpcError`` (``-32602``) for what is no object of them."""
    if raw == NULL:
        return None
    answers = members_of(raw)
    if answers is None:
        raise RpcError(INVALID_PARAMS, "Invalid params: inputResponses must be an object")
    return answers
