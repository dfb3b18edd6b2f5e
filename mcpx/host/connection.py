"""One connection of a host that is a duplex of messages: standard streams, a socket, a WebSocket.

Reading goes on whatever happens, so that a cancellation gets through: each request is a task of its own, with a cancel
scope of its own. At the end of the stream, or on a stop, what is owed gets a bounded time; then the *inner* nursery,
that of the requests, is cancelled, and what it says farewell with still goes out through the channel around it.

A request that stays open, as a listen stream does, is a slot and a task like any other; what mcpx itself will ask of a
host goes out through the same channel, and its answers come in where ``_admit`` counts the strays.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import trio
from msgspec import UnsetType

from mcpx.errors import McpxError, RemoteProtocolError
from mcpx.host import answer
from mcpx.host.answer import Refused
from mcpx.host.changes import ChangeRelay
from mcpx.host.eras import HostState
from mcpx.host.service import Service
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import ASSUMED_ON_STREAMS, BATCHING
from mcpx.transports.channel import Oversize
from mcpx.wire.frames import INVALID_REQUEST, decode_frame, is_batch, kind, members, split_batch
from mcpx.wire.oversize import oversize_frame
from mcpx.wire.peer import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from mcpx.gateway.gateway import Gateway
    from mcpx.host.inbound import Inbound
    from mcpx.transports.channel import Channel
    from mcpx.wire.frames import Frame

log = logging.getLogger("mcpx.host")

INITIALIZED = frozenset({"notifications/initialized", "initialized"})  # the second is what some hosts write


async def serve_channel(
    gateway: Gateway, channel: Channel, *, host: str, drain: Callable[[], float], stop: trio.Event | None = None
) -> None:
    """Serve one host until its stream ends or breaks, or ``stop`` is set.

    ``host`` names the connection to the gateway. ``drain`` is called when the end begins, and once more if ``stop`` is
    set while it lasts; it says how many seconds from then the answers that are owed may take. The last of them are
    queued when this returns, and leaving the channel writes them. Raises nothing but for a bug in the keeping of the
    connection itself.
    """
    with ChangeRelay(gateway, channel) as relay:
        await _Connection(gateway, channel, host, drain, relay).run(stop)


class _Unreadable(Exception):
    """What came cannot be made sense of, nor safely passed over: the connection has to end."""


class _Slot:
    """A request in flight: what it asks, and the scope that its cancellation cancels."""

    __slots__ = ("id", "inbound", "scope")

    inbound: Inbound

    def __init__(self, id: Raw) -> None:
        self.id = id
        self.scope = trio.CancelScope()


class _Connection:
    _requests: trio.Nursery

    def __init__(
        self, gateway: Gateway, channel: Channel, host: str, drain: Callable[[], float], relay: ChangeRelay
    ) -> None:
        self._limits = gateway.settings.limits
        self._channel = channel
        self._send = channel.send
        self._service = Service(gateway)
        self._state = HostState(host, ASSUMED_ON_STREAMS)
        self._relay = relay
        self._drain = drain
        self._incoming: Incoming[_Slot] = Incoming(self._limits.max_in_flight)
        # Tasks that start in one go do so in any order; as each takes its request from here, requests keep theirs.
        self._admitted: deque[_Slot] = deque()
        self._unsent = 0  # refusals and batches on their way to a host that is slow to read
        self._strays = 0  # responses to nothing that mcpx asked
        self._reading = trio.CancelScope()
        self._draining = trio.CancelScope()
        self._ending = trio.Event()
        self._idle = trio.Event()  # set when, after the end has begun, nothing is owed any more

    async def run(self, stop: trio.Event | None) -> None:
        async with trio.open_nursery() as around:
            async with trio.open_nursery() as requests:
                self._requests = requests
                requests.start_soon(self._relay.run)
                around.start_soon(self._read)
                if stop is not None:
                    around.start_soon(self._heed, stop)
                await self._ending.wait()
                with self._draining:
                    await self._idle.wait()
                self._reading.cancel()
                requests.cancel_scope.cancel()
            around.cancel_scope.cancel()
        if self._strays:
            log.info("Host %s: ignored %d responses to nothing that was asked", self._state.name, self._strays)

    # -- the end

    async def _heed(self, stop: trio.Event) -> None:
        await stop.wait()
        self._end()

    def _end(self) -> None:
        """Begin the end, or hasten one that has begun: no more requests are taken, and the time for answers runs."""
        self._draining.deadline = min(self._draining.deadline, trio.current_time() + self._drain())
        self._ending.set()
        self._settle()

    def _settle(self) -> None:
        """Something owed was delivered, or the end has begun: see whether that was all."""
        if self._ending.is_set() and not len(self._incoming) and not self._unsent:
            self._idle.set()

    # -- reading

    async def _read(self) -> None:
        with self._reading:
            try:
                while messages := await self._channel.receive():
                    for message in messages:
                        if isinstance(message, Oversize):
                            await self._take_oversize(message)
                        elif is_batch(message):
                            await self._take_batch(message)
                        else:
                            taken = self._admit(message)
                            if isinstance(taken, _Slot):
                                self._admitted.append(taken)
                                self._requests.start_soon(self._run)
                            elif taken is not None:
                                await self._refuse(taken)
            except trio.BrokenResourceError as error:
                log.info("Host %s: the connection broke: %s", self._state.name, error.__cause__ or error)
            except _Unreadable as error:
                log.error("Host %s: closing the connection: %s", self._state.name, error)
            self._end()

    async def _take_batch(self, message: bytes) -> None:
        """A batch: its answers come back together, the refusals among them, when the last request has ended."""
        try:
            messages = split_batch(message)
            if self._state.legacy.revision not in BATCHING:
                raise _no_batches()
        except RemoteProtocolError as error:
            await self._refuse(self._refusal(None, error))
            return
        slots: list[_Slot] = []
        answers: list[bytes] = []
        for one in messages:
            taken = self._admit(one, batched=True)
            if isinstance(taken, _Slot):
                slots.append(taken)
            elif taken is not None:
                answers.append(taken)
        if slots:
            self._unsent += 1
            self._requests.start_soon(self._run_batch, slots, answers)
        elif answers:
            await self._refuse(_batch(answers))

    async def _take_oversize(self, message: Oversize) -> None:
        """A message over the limit: an error for the request that it was, where that is certain; else the end."""
        frame = oversize_frame(message)
        if frame.is_response:
            self._strays += 1
            return
        error = RemoteProtocolError(
            INVALID_REQUEST, f"A message of {message.size} bytes is over the limit of {self._limits.max_frame}"
        )
        certain = frame.is_response is False and frame.id is not None
        await self._refuse(self._refusal(frame.id if certain else None, error))
        if not certain:
            raise _Unreadable(error.message)

    def _admit(self, message: bytes, *, batched: bool = False) -> _Slot | bytes | None:
        """Look at one message: a request comes back as the slot that it was given, or as the error that refuses it."""
        try:
            frame = decode_frame(message)
            sort = kind(frame)
        except RemoteProtocolError as error:
            return self._refusal(error.id, error)
        if sort == "request":
            return self._admit_request(frame, batched=batched)
        if sort == "notification":
            self._notified(frame)
        else:
            self._strays += 1
        return None

    def _admit_request(self, frame: Frame, *, batched: bool) -> _Slot | bytes:
        id, method = frame.id, frame.method
        assert not isinstance(id, UnsetType)
        assert not isinstance(method, UnsetType)
        slot = _Slot(id)
        try:
            self._incoming.begin(id, slot)
        except RemoteProtocolError as error:
            return self._refusal(error.id, error)
        try:
            if self._ending.is_set():
                raise Refused("mcpx is stopping")
            if batched and method == "initialize":
                raise RemoteProtocolError(INVALID_REQUEST, "Invalid request: initialize in a batch")
            slot.inbound = self._state.read(method, frame.params)
            if batched and slot.inbound.modern:
                raise _no_batches()
        except McpxError as error:
            self._incoming.end(id)
            return self._refusal(id, error, method)
        return slot

    def _notified(self, frame: Frame) -> None:
        """A notification is never answered, and one that means nothing here is dropped (JSON-RPC 2.0, Notification)."""
        if frame.method == "notifications/cancelled":
            self._cancel(frame)
        elif frame.method in INITIALIZED and self._state.legacy.agreed:
            self._relay.follow(self._state.legacy)
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
        try:
            id = members(frame.params).get("requestId")
        except RemoteProtocolError:
            return
        slot = None if id is None else self._incoming.find(id)
        if slot is not None and slot.inbound.handshake is None:  # an initialize is never cancelled
            self._incoming.cancel(slot.id)
            slot.scope.cancel()

    # -- answering

    async def _run(self) -> None:
        """Serve the next request: it ends with its answer, with its cancellation, or with the connection."""
        slot = self._admitted.popleft()
        data: bytes | None = None
        owed = True
        try:
            with slot.scope:
                data = await self._answer(slot)
                await self._send(data)
                owed = False
        finally:
            if self._incoming.end(slot.id) and owed:
                self._channel.send_nowait(data or self._farewell(slot))
            self._settle()

    async def _run_batch(self, slots: list[_Slot], answers: list[bytes]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                for slot in slots:
                    nursery.start_soon(self._run_member, slot, answers)
            if answers:
                await self._send(_batch(answers))
                answers.clear()
        finally:
            if answers:
                self._channel.send_nowait(_batch(answers))
            self._unsent -= 1
            self._settle()

    async def _run_member(self, slot: _Slot, answers: list[bytes]) -> None:
        data: bytes | None = None
        try:
            with slot.scope:
                data = await self._answer(slot)
        finally:
            if self._incoming.end(slot.id):
                answers.append(data or self._farewell(slot))

    async def _answer(self, slot: _Slot) -> bytes:
        """The answer to a request, whatever befalls it; only a cancellation goes through."""
        request = slot.inbound
        failure: BaseException | None = None
        try:
            return answer.result(slot.id, await self._service.serve(request, self._send))
        except* Exception as group:  # the one place where a bug is caught: it ends its request and nothing else
            failure = group
        assert failure is not None
        return answer.error(slot.id, failure, request.method, request.revision)

    def _farewell(self, slot: _Slot) -> bytes:
        """The answer to a request that the end of the connection cut short: owed, since its host did not cancel it."""
        return answer.error(slot.id, Refused("mcpx is stopping"), slot.inbound.method, slot.inbound.revision)

    def _refusal(self, id: Raw | None, error: McpxError, method: str = "") -> bytes:
        return answer.error(id, error, method, self._state.revision)

    async def _refuse(self, refusal: bytes) -> None:
        """Send an error without holding up the reader, unless a host that does not read leaves too many unread."""
        if self._unsent < self._limits.max_in_flight and not self._ending.is_set():
            self._unsent += 1
            self._requests.start_soon(self._run_refusal, refusal)
        else:
            await self._send(refusal)

    async def _run_refusal(self, refusal: bytes) -> None:
        owed = True
        try:
            await self._send(refusal)
            owed = False
        finally:
            if owed:
                self._channel.send_nowait(refusal)
            self._unsent -= 1
            self._settle()


def _no_batches() -> RemoteProtocolError:
    return RemoteProtocolError(INVALID_REQUEST, f"Invalid request: a batch, which only {', '.join(BATCHING)} has")


def _batch(answers: list[bytes]) -> bytes:
    return b"[" + b",".join(answers) + b"]"
