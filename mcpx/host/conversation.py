"""What is said with one host: who it is, and which of its requests are in flight. Moves no frames itself.

One of these for each scope of request ids: a byte-stream connection, a legacy session, a modern POST (LV-37). Whoever
owns it reads the frames, runs a task for each request that ``take`` lets in, and sends what comes back:

    slot = conversation.take(message)
    with slot.scope:
        answer = await conversation.answer(slot, way)
    if conversation.end(slot):
        ...  # and not otherwise: its host has cancelled it

A request that stays open, as a listen stream does, is a slot and a task like any other.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, Self

import trio
from msgspec import UnsetType

from mcpx.errors import McpxError, RemoteProtocolError, RpcError
from mcpx.host import answer
from mcpx.host.answer import Answer, Refused
from mcpx.host.desk import Desk, say_question
from mcpx.host.eras import Envelopes, HostState
from mcpx.host.inbound import Turn
from mcpx.host.listen import LISTEN
from mcpx.spec.asking import refusal
from mcpx.spec.carry import CannotSay
from mcpx.spec.codes import URL_ELICITATION_REQUIRED
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import BATCHING
from mcpx.upstream.call import Reply
from mcpx.wire.frames import INVALID_REQUEST, decode_frame, kind, members, split_batch
from mcpx.wire.oversize import unreadable_frame
from mcpx.wire.peer import Incoming
from mcpx.wire.raws import members_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from msgspec import Raw

    from mcpx.gateway.exchange import Exchange
    from mcpx.host.inbound import Inbound, Relay, Way
    from mcpx.host.service import Service
    from mcpx.upstream.call import Asker, Unasked
    from mcpx.wire.frames import Frame

log = logging.getLogger("mcpx.host")

# What is never in a batch: the handshake (2025-03-26 basic/lifecycle, Initialization), and what would keep the answers
# to all others.
_ALONE = frozenset({"initialize", LISTEN})
ROOTS_CHANGED = "notifications/roots/list_changed"
INITIALIZED = frozenset({"notifications/initialized", "initialized"})  # the second is what some hosts write


class Aloft(Protocol):
    """Where requests are under way without a task."""

    def cancel(self, slot: Slot) -> None:
        """Its host wants no answer to one of them any more."""
        ...


class Slot:
    """A request in flight: what it asks, and how it is cancelled."""

    __slots__ = ("_scope", "answer", "begun", "flights", "id", "inbound", "key")

    inbound: Inbound
    key: int | str  # the value of its id

    def __init__(self, id: Raw) -> None:
        self.id = id
        self._scope: trio.CancelScope | None = None
        self.begun: Exchange | None = None  # which was sent before there was a task for it
        self.answer: Answer | None = None  # which there was before it could be sent
        self.flights: Aloft | None = None  # where it is under way without a task

    @property
    def scope(self) -> trio.CancelScope:
        """What its task is to run in: its cancellation cancels that."""
        if self._scope is None:
            self._scope = trio.CancelScope()
        return self._scope

    def cancel(self) -> None:
        """Its host wants no answer any more."""
        if self.flights is not None:
            self.flights.cancel(self)
        else:
            self.scope.cancel()


class Conversation:
    """One host's requests, from their frames to the bytes of their answers. A context manager: it has an end.

    ``host`` names it in the log and to the gateway, ``transport`` says for status what it came on. ``assumed`` is the
    revision of requests before any handshake, and ``named`` says that this is no guess, as the transport has named it;
    ``relay`` is what is said to the host unasked. ``limit`` bounds the requests in flight. ``line`` is the way for what
    belongs to no request; without one the host can be asked nothing, and whatever it comes back for may come from
    elsewhere. ``caller`` is who makes the requests, where that is not the conversation's host.
    ``envelopes`` and ``ending`` are given where several of these share them.
    """

    def __init__(
        self,
        service: Service,
        host: str,
        transport: str,
        *,
        assumed: str,
        limit: int,
        relay: Relay,
        line: Way | None = None,
        caller: str | None = None,
        envelopes: Envelopes | None = None,
        ending: trio.Event | None = None,
        named: bool = False,
    ) -> None:
        self.host = host
        self.transport = transport
        self.since = trio.current_time()
        self._service = service
        self._state = HostState(host, assumed, envelopes, named=named, lasting=line is not None)
        self._incoming: Incoming[Slot] = Incoming(limit)
        self._relay = relay
        self._ending = trio.Event() if ending is None else ending
        self._freed: trio.Event | None = None  # set when a request has ended; made by who waits for that
        self._line = line
        self._caller = host if caller is None else caller
        self._desk = None if line is None else Desk(host, lambda: self._state.legacy.revision)
        self._entered: ExitStack | None = None  # what is left with this, where the host can be asked
        self._strays = 0  # responses to nothing that mcpx asked

    def __enter__(self) -> Self:
        self._service.enter(self)
        if self._desk is not None:
            gateway, self._entered = self._service.gateway, ExitStack()
            self._entered.callback(self._desk.close)
            self._entered.callback(gateway.parking.leave, self.host)
            self._entered.enter_context(gateway.desks.desk(self.host, self._ask))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._entered is not None:
            self._entered.close()
        self._service.leave(self)
        if self._strays:
            log.info("Host %s: ignored %d responses to nothing that was asked", self.host, self._strays)

    @property
    def in_flight(self) -> int:
        """Requests that were let in and have not ended."""
        return len(self._incoming)

    @property
    def listening(self) -> int:
        """Those of them that are listen streams, which stay open until somebody ends them."""
        return sum(slot.inbound.method == LISTEN for slot in self._incoming)

    @property
    def asked(self) -> int:
        """Questions that the host was asked and has not answered."""
        return 0 if self._desk is None else len(self._desk)

    @property
    def subscriptions(self) -> int:
        """Listen streams, and the resources that the host has subscribed to by themselves."""
        return self.listening + self._relay.subscribed

    @property
    def revision(self) -> str | None:
        """The revision that the host speaks; ``None`` before that is known."""
        return self._state.revision

    @property
    def asker(self) -> Asker:
        """Who it is, as far as it has said."""
        return self._state.asker

    def stop(self) -> None:
        """Let no more requests in, and have those end that would stay open."""
        self._ending.set()

    # -- in

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more request before a cancelled one has ended: see ``make_room``."""
        return self._incoming.makes_room

    async def make_room(self) -> None:
        """Let cancelled requests end where they hold the last places, before what comes behind is refused for that.

        A request's task ends in its next turns once it is cancelled: nothing in it is shielded. So it must have been
        started, which that of a batch is not while the batch is being taken.
        """
        while self._incoming.makes_room:
            self._freed = trio.Event()
            await self._freed.wait()
            self._freed = None

    def take(self, message: bytes, *, batched: bool = False) -> Slot | Answer | None:
        """Take one message in: a request comes back as the slot that it was given, or as the error that refuses it.

        Anything else has no answer. Never waits, so that a cancellation gets through.
        """
        try:
            return self.take_frame(decode_frame(message), batched=batched)
        except RemoteProtocolError as error:
            self._take_unreadable(message, error)
            return self.refusal(error.id, error)

    def take_frame(self, frame: Frame, *, batched: bool = False) -> Slot | Answer | None:
        """The same for a message that is decoded already.

        Raises ``RemoteProtocolError`` (``-32600``) where it is no request, notification or response.
        """
        sort = kind(frame)
        if sort == "request":
            return self._admit(frame, batched=batched)
        if sort == "notification":
            self._notified(frame)
        elif self._desk is None or not self._desk.settle(frame):
            self.stray()
        return None

    def split(self, message: bytes) -> list[bytes]:
        """The messages of a batch, each to be taken as ``batched``.

        Raises ``RemoteProtocolError`` for what is none, and in a revision without batches.
        """
        messages = split_batch(message)
        if self._state.legacy.revision not in BATCHING:
            raise _no_batches()
        return messages

    def stray(self) -> None:
        """Count a response to nothing that mcpx asked."""
        self._strays += 1

    def unreadable(self, id: Raw | None, reason: str) -> None:
        """A response has come that cannot be taken; whatever it answers has no answer."""
        if self._desk is None or not self._desk.refuse(id, reason):
            self.stray()

    def _take_unreadable(self, message: bytes, error: RemoteProtocolError) -> None:
        """What cannot be taken may be an answer all the same (Python writes NaN): no better one will come."""
        if self._desk is None or not self._desk:
            return
        owner = unreadable_frame(message)
        if owner.is_response or (error.id is not None and owner.is_response is None):
            self._desk.refuse(error.id or owner.id, error.message)

    def _admit(self, frame: Frame, *, batched: bool) -> Slot | Answer:
        id, method = frame.id, frame.method
        assert not isinstance(id, UnsetType)
        assert not isinstance(method, UnsetType)
        slot = Slot(id)
        try:
            slot.key = self._incoming.begin(id, slot)
        except RemoteProtocolError as error:
            return self.refusal(error.id, error)
        try:
            if self._ending.is_set():
                raise Refused("mcpx is stopping")
            if batched and method in _ALONE:
                raise RemoteProtocolError(INVALID_REQUEST, f"Invalid request: {method} in a batch")
            slot.inbound = self._state.read(method, frame.params)
            if batched and slot.inbound.modern:
                raise _no_batches()
        except McpxError as error:
            self._incoming.end(slot.key)
            return self.refusal(id, error, method)
        return slot

    def _notified(self, frame: Frame) -> None:
        """A notification is never answered, and one that means nothing here is dropped (JSON-RPC 2.0, Notification)."""
        if frame.method == "notifications/cancelled":
            self._cancel(frame)
        elif frame.method in INITIALIZED and self._state.legacy.agreed:
            self._relay.follow(self._state.legacy)
        elif frame.method == ROOTS_CHANGED and self._state.legacy.agreed:
            self._service.gateway.roots_changed(self._state.legacy.asker)
        elif frame.method not in METHODS and self._service.gateway.passthrough:
            self._relay_foreign(frame)

    def _relay_foreign(self, frame: Frame) -> None:
        """In pass-through a notification that no revision defines is the upstream's own affair."""
        assert not isinstance(frame.method, UnsetType)
        try:
            params = members(frame.params)
        except RemoteProtocolError:
            return  # nothing that could be relayed, and a notification is never answered
        self._service.gateway.relay(self._state.legacy.asker, frame.method, params)

    def _cancel(self, frame: Frame) -> None:
        """Cancel the request that is named, if it can be (the cancellation pages, Behavior Requirements)."""
        id = (members_of(frame.params) or {}).get("requestId")
        slot = None if id is None else self._incoming.find(id)
        if slot is not None and slot.inbound.handshake is None:  # an initialize is never cancelled
            self._incoming.cancel(slot.id)
            slot.cancel()

    def _ask(self, unasked: Unasked) -> Callable[[], None] | None:
        """Ask the host what belongs to none of its requests; see ``mcpx.gateway.questions.Desk``.

        Only a legacy host is asked so. To any other, and to one that does not listen now, it is put in a call.
        """
        legacy, line, desk = self._state.legacy, self._line, self._desk
        if not legacy.agreed or line is None or desk is None:
            return None
        question = unasked.question
        try:
            params = say_question(question, legacy.asker, legacy.revision)
        except (CannotSay, RpcError) as error:
            log.warning("A question of %s (%s) was refused: %s", unasked.server, question.method, error)
            unasked.answer(refusal(question.method, str(error)), legacy.revision)
            return lambda: None
        id, frame = desk.ask(question.method, params, lambda outcome: unasked.answer(outcome, legacy.revision))
        if not line.offer(frame):
            desk.withdraw(id, "")
            return None

        def withdraw() -> None:
            if said := desk.withdraw(id, "No answer is needed any more"):
                line.offer(said)

        return withdraw

    # -- out

    async def answer(self, slot: Slot, way: Way) -> Answer:
        """The answer to a request, whatever befalls it; only a cancellation goes through.

        What belongs to the request and comes before its answer is said on the ``way``.
        """
        if slot.answer is not None:
            return slot.answer
        request = slot.inbound
        turn = Turn(slot.id, way, self._ending, self._relay, self._caller, self._desk, slot.begun)
        failure: BaseException | None = None
        try:
            payload = await self._service.serve(request, turn)
            return answer.result(slot.id, payload, turn.epilogue)
        except* Exception as group:  # a bug is caught at this edge: it ends its request and nothing else
            failure = group
        assert failure is not None
        return self._failed(slot, failure)

    def begin(self, slot: Slot, heed: Callable[[], None]) -> bool:
        """Send a request to its upstream at once, where nothing has to be waited for; say whether it was sent.

        From then until ``answer``, ``heed`` is called whenever ``look`` may find something.
        """
        exchange = self._service.open_exchange(slot.inbound, self._relay)
        if exchange is None:
            return False
        slot.begun = exchange
        try:
            return exchange.begin_nowait(heed)
        except McpxError:
            return False  # which `answer` comes upon as well, and says
        except Exception as error:  # see `answer`
            exchange.close()
            slot.answer = self._failed(slot, error)
            return False

    def look(self, slot: Slot) -> Answer | None:
        """The answer to a request that was begun, if it is there; ``None`` where ``answer`` is to go on with it."""
        request, exchange = slot.inbound, slot.begun
        assert exchange is not None
        try:
            event = exchange.next_nowait()
            if isinstance(event, Reply):
                payload = self._service.say_nowait(request, event)
                if payload is not None:
                    return answer.result(slot.id, payload)
            if event is not None:
                exchange.unread(event)
        except RpcError as error:
            if error.code == URL_ELICITATION_REQUIRED:  # of which a question can be made
                exchange.unread(error)
                return None
            return self._failed(slot, error)
        except Exception as error:  # see `answer`
            return self._failed(slot, error)
        return None

    def _failed(self, slot: Slot, failure: BaseException) -> Answer:
        return answer.error(slot.id, failure, slot.inbound.method, slot.inbound.revision)

    def end(self, slot: Slot) -> bool:
        """A request has ended, however it did; say whether it is owed an answer: a cancelled one gets none."""
        if self._freed is not None:
            self._freed.set()
        return self._incoming.end(slot.key)

    def farewell(self, slot: Slot) -> Answer:
        """The answer to a request that the end of the connection cut short: owed, since its host did not cancel it."""
        return self._failed(slot, Refused("mcpx is stopping"))

    def refusal(self, id: Raw | None, error: McpxError, method: str = "") -> Answer:
        """The error that answers what was not let in."""
        return answer.error(id, error, method, self._state.revision)


def _no_batches() -> RemoteProtocolError:
    return RemoteProtocolError(INVALID_REQUEST, f"Invalid request: a batch, which only {', '.join(BATCHING)} has")
