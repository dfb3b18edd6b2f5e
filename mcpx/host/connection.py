"""One connection of a host that is a duplex of messages: standard streams, a socket, a WebSocket.

Reading goes on whatever happens, so that a cancellation gets through: each request is a task of its own, with a cancel
scope of its own. At the end of the stream, or on a stop, what is owed gets a bounded time; then the *inner* nursery,
that of the requests, is cancelled, and what it says farewell with still goes out through the channel around it.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import trio

from mcpx.errors import RemoteProtocolError
from mcpx.host.changes import ChangeRelay
from mcpx.host.conversation import Conversation, Slot
from mcpx.host.flights import Flights
from mcpx.spec.revisions import ASSUMED_ON_STREAMS
from mcpx.transports.channel import Oversize
from mcpx.wire.frames import INVALID_REQUEST, is_batch
from mcpx.wire.oversize import oversize_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.host.answer import Answer
    from mcpx.host.service import Service
    from mcpx.settings import Limits
    from mcpx.transports.channel import Channel

log = logging.getLogger("mcpx.host")


async def serve_channel(
    service: Service,
    channel: Channel,
    *,
    host: str,
    transport: str,
    drain: Callable[[], float],
    stop: trio.Event | None = None,
) -> None:
    """Serve one host until its stream ends or breaks, or ``stop`` is set.

    ``host`` names the connection to the gateway, ``transport`` says for status what it is. ``drain`` is called when the
    end begins, and once more if ``stop`` is set while it lasts; it says how many seconds from then the answers that are
    owed may take. The last of them are queued when this returns, and leaving the channel writes them. Raises nothing
    but for a bug in the keeping of the connection itself.
    """
    limits = service.gateway.settings.limits
    with (
        ChangeRelay(service.gateway, channel) as relay,
        Conversation(
            service,
            host,
            transport,
            assumed=ASSUMED_ON_STREAMS,
            limit=limits.max_in_flight,
            relay=relay,
            line=channel,
        ) as conversation,
    ):
        await _Connection(conversation, channel, limits, drain, relay).run(stop)


class _Unreadable(Exception):
    """What came cannot be made sense of, nor safely passed over: the connection has to end."""


class _Connection:
    _requests: trio.Nursery

    def __init__(
        self,
        conversation: Conversation,
        channel: Channel,
        limits: Limits,
        drain: Callable[[], float],
        relay: ChangeRelay,
    ) -> None:
        self._conversation = conversation
        self._channel = channel
        self._send = channel.send
        self._limits = limits
        self._drain = drain
        self._relay = relay
        # Tasks that start in one go do so in any order; as each takes its request from here, requests keep theirs.
        self._admitted: deque[Slot] = deque()
        self._flights = Flights(conversation, channel, limits, self._start, self._settle)
        self._unsent = 0  # refusals and batches on their way to a host that is slow to read
        self._reading = trio.CancelScope()
        self._draining = trio.CancelScope()
        self._ending = trio.Event()
        self._idle = trio.Event()  # set when, after the end has begun, nothing is owed any more

    async def run(self, stop: trio.Event | None) -> None:
        with self._flights:
            async with trio.open_nursery() as around:
                async with trio.open_nursery() as requests:
                    self._requests = requests
                    requests.start_soon(self._relay.run)
                    requests.start_soon(self._flights.run)
                    around.start_soon(self._read)
                    if stop is not None:
                        around.start_soon(self._heed, stop)
                    await self._ending.wait()
                    with self._draining:
                        await self._idle.wait()
                    self._reading.cancel()
                    requests.cancel_scope.cancel()
                around.cancel_scope.cancel()

    # -- the end

    async def _heed(self, stop: trio.Event) -> None:
        await stop.wait()
        self._end()

    def _end(self) -> None:
        """Begin the end, or hasten one that has begun: no more requests are taken, and the time for answers runs."""
        self._draining.deadline = min(self._draining.deadline, trio.current_time() + self._drain())
        self._conversation.stop()
        self._flights.land_all()
        self._ending.set()
        self._settle()

    def _settle(self) -> None:
        """Something owed was delivered, or the end has begun: see whether that was all."""
        if self._ending.is_set() and not self._conversation.in_flight and not self._unsent:
            self._idle.set()

    # -- reading

    async def _read(self) -> None:
        with self._reading:
            try:
                while await self._read_some():
                    pass
            except trio.BrokenResourceError as error:
                log.info("Host %s: the connection broke: %s", self._conversation.host, error.__cause__ or error)
            except _Unreadable as error:
                log.error("Host %s: closing the connection: %s", self._conversation.host, error)
            self._end()

    async def _read_some(self) -> bool:
        """Take what comes next; say whether more may. Nothing of it is held while the host is waited for again."""
        messages = await self._channel.receive()
        for message in messages:
            if self._conversation.is_full:
                await self._conversation.make_room()
            if isinstance(message, Oversize):
                await self._take_oversize(message)
            elif is_batch(message):
                await self._take_batch(message)
            else:
                taken = self._conversation.take(message)
                if isinstance(taken, Slot):
                    if self._admitted or not self._flights.begin(taken):
                        self._start(taken)
                elif taken is not None:
                    await self._refuse(taken.data)
        return bool(messages)

    async def _take_batch(self, message: bytes) -> None:
        """A batch: its answers come back together, the refusals among them, when the last request has ended."""
        try:
            messages = self._conversation.split(message)
        except RemoteProtocolError as error:
            await self._refuse(self._conversation.refusal(None, error).data)
            return
        slots: list[Slot] = []
        answers: list[bytes] = []
        for one in messages:
            taken = self._conversation.take(one, batched=True)
            if isinstance(taken, Slot):
                slots.append(taken)
            elif taken is not None:
                answers.append(taken.data)
        if slots:
            self._unsent += 1
            self._requests.start_soon(self._run_batch, slots, answers)
        elif answers:
            await self._refuse(_batch(answers))

    async def _take_oversize(self, message: Oversize) -> None:
        """A message over the limit: an error for the request that it was, where that is certain; else the end."""
        frame = oversize_frame(message)
        reason = f"A message of {message.size} bytes is over the limit of {self._limits.max_frame}"
        if frame.is_response:
            self._conversation.unreadable(frame.id, reason)
            return
        error = RemoteProtocolError(INVALID_REQUEST, reason)
        certain = frame.is_response is False and frame.id is not None
        await self._refuse(self._conversation.refusal(frame.id if certain else None, error).data)
        if not certain:
            raise _Unreadable(error.message)

    # -- answering

    def _start(self, slot: Slot) -> None:
        """Give a request its task."""
        self._admitted.append(slot)
        self._requests.start_soon(self._run)

    async def _run(self) -> None:
        """Serve the next request: it ends with its answer, with its cancellation, or with the connection."""
        slot = self._admitted.popleft()
        answer: Answer | None = None
        owed = True
        try:
            with slot.scope:
                answer = await self._conversation.answer(slot, self._channel)
                await self._send(answer.data)
                owed = False
        finally:
            if self._conversation.end(slot):
                answer = answer or self._conversation.farewell(slot)
                if owed:
                    self._channel.send_nowait(answer.data)
                if answer.epilogue is not None:
                    self._channel.send_nowait(answer.epilogue)
            self._settle()

    async def _run_batch(self, slots: list[Slot], answers: list[bytes]) -> None:
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

    async def _run_member(self, slot: Slot, answers: list[bytes]) -> None:
        data: bytes | None = None
        try:
            with slot.scope:
                data = (await self._conversation.answer(slot, self._channel)).data
        finally:
            if self._conversation.end(slot):
                answers.append(data or self._conversation.farewell(slot).data)

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


def _batch(answers: list[bytes]) -> bytes:
    return b"[" + b",".join(answers) + b"]"
