"""One connection to one server: frames out, frames in, matched by id. Knows no revision and no handshake."""

from __future__ import annotations

import logging
import re
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import trio
from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import RemoteProtocolError, RpcError, UpstreamError, UpstreamGone, UpstreamUnanswered
from mcpx.spec import meta
from mcpx.spec.revisions import BATCHING
from mcpx.transports.channel import Gap, Lost, Said
from mcpx.transports.crew import open_crew
from mcpx.upstream.call import Progress
from mcpx.wire import frames
from mcpx.wire.lines import Oversize
from mcpx.wire.oversize import oversize_frame, unreadable_frame
from mcpx.wire.peer import Outgoing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcpx.transports.channel import ClientChannel
    from mcpx.upstream.pending import PendingCall

log = logging.getLogger("mcpx.upstream")

NOISE_SHOWN = 5  # lines of noise shown in the log and kept for status; the rest is counted
NOISE_LENGTH = 200  # characters of such a line shown
MAX_ANSWERS = 4096  # answers kept for a server that asks and does not read them, before it is given up

_MESSAGE = re.compile(rb'\{\s*"(?:jsonrpc|id|method|result|error)"\s*:')  # how a message begins


class Listener(Protocol):
    """What a session wants to hear of its connection. Called by the reader: must not block.

    ``stream`` is the id of our request on whose stream it came, where each has one of its own; that may be over.
    """

    def notified(self, method: str, params: dict[str, Raw], stream: int | None) -> None: ...

    def asked(self, id: Raw, method: str, params: dict[str, Raw], stream: int | None) -> None: ...

    def interrupted(self, *, forgotten: bool) -> None: ...

    def ended(self) -> None: ...


class Connection:
    """Requests to one server over one channel. Open it with ``open_connection``."""

    def __init__(self, server: str, channel: ClientChannel, describe_end: Callable[[], Awaitable[str]]) -> None:
        self.server = server
        self.noise_count = 0
        self.noise: list[str] = []  # the first few lines that were no frames, shortened
        self.trouble: str | None = None  # why the server cannot be reached, where the last request could not be sent
        self.closed = trio.Event()
        self.end_reason = "The connection to the server ended."  # a sentence; final once `closed` is set
        self.listener: Listener | None = None
        self.revision: str | None = None  # what errors are marked with, once it is agreed
        self._channel = channel
        self._describe_end = describe_end
        self._outgoing: Outgoing[PendingCall] = Outgoing()
        self._complaints = 0
        self._answers: deque[bytes] = deque()
        self._answered = trio.Event()  # set while there are answers to send
        self._all_answered = trio.Event()  # set while there are none
        self._all_answered.set()

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return len(self._outgoing)

    # -- out

    async def issue(self, call: PendingCall, build: Callable[[int], bytes]) -> int:
        """Queue a call's frame under a new id, never used before on this connection; waits while the server is behind.

        What the server was answered before goes out before it: it may have asked in order to serve this very call.
        Cancelled while it waits, nothing was sent. Raises ``UpstreamGone`` when the server has gone.
        """
        if not (self._all_answered.is_set() or self.closed.is_set()):
            await self._all_answered.wait()
        if self.closed.is_set():
            raise UpstreamGone(self.server, self.end_reason)
        number = self._outgoing.issue(call)
        try:
            await self._channel.send(build(number))
        except BaseException:
            self._outgoing.abandon(number)
            raise
        return number

    def issue_nowait(self, call: PendingCall, build: Callable[[int], bytes]) -> int | None:
        """The same where nothing has to be waited for; ``None`` where something has, and nothing was sent."""
        if self.closed.is_set() or not self._all_answered.is_set():
            return None
        number = self._outgoing.issue(call)
        queued = False
        try:
            queued = self._channel.offer(build(number))
        finally:
            if not queued:
                self._outgoing.abandon(number)
        return number if queued else None

    def abandon(self, number: int, reason: str, *, tell: bool) -> None:
        """Await an answer no longer and, once, say so. A late answer is dropped silently."""
        if self._outgoing.abandon(number) and not self.closed.is_set():
            farewell = frames.notification("notifications/cancelled", {"requestId": number, "reason": reason})
            self._channel.cancel(number, frames.encode(farewell) if tell else None)

    def find(self, id: Raw) -> PendingCall | None:
        """The call of ours in flight that an id names, in whichever way the server spells it."""
        return self._outgoing.find(id)

    def find_number(self, number: int) -> PendingCall | None:
        """The call of ours in flight that has this id."""
        return self._outgoing.find(Raw(b"%d" % number))

    @property
    def calls(self) -> list[PendingCall]:
        """Our calls in flight, in the order in which they were sent."""
        return list(self._outgoing)

    def notify(self, method: str, params: object = UNSET) -> None:
        """Queue a notification."""
        self._channel.send_nowait(frames.encode(frames.notification(method, params)))

    def offer(self, method: str, params: object = UNSET) -> None:
        """Queue a notification that the server can do without: one that is too far behind is not told."""
        if not self._channel.offer(frames.encode(frames.notification(method, params))):
            self.complain(f"does not read what it is sent, and was not told {method!r}")

    def answer(self, frame: frames.Frame) -> None:
        """Queue the answer to a request of the server's. One that asks without end and reads nothing is given up."""
        if len(self._answers) >= MAX_ANSWERS:
            self.end("The server sends requests, but does not read the answers to them.")
            return
        self._answers.append(frames.encode(frame))
        if self._all_answered.is_set():
            self._all_answered = trio.Event()
        self._answered.set()

    def complain(self, what: str) -> None:
        """Say in the log what is wrong with what the server sends, the first few times."""
        self._complaints += 1
        if self._complaints <= NOISE_SHOWN:
            last = ", the last time that such a thing is shown" if self._complaints == NOISE_SHOWN else ""
            log.warning("[%s] %s%s", self.server, what, last)

    def end(self, reason: str) -> None:
        """Give the connection up for a reason (a sentence); whoever owns it closes it when ``closed`` is set."""
        if not self.closed.is_set():
            self.end_reason = reason
            self.closed.set()
            self._all_answered.set()
            for call in self._outgoing.drain():
                call.finish(UpstreamGone(self.server, reason))
            if self.listener is not None:
                self.listener.ended()

    async def run_answers(self) -> None:
        """Send the answers to the server's requests, as far as it reads them."""
        while True:
            await self._answered.wait()
            self._answered = trio.Event()
            while self._answers:
                await self._channel.send(self._answers.popleft())
            self._all_answered.set()

    # -- in

    async def run(self) -> None:
        """Read until the stream ends, then end every call that is still in flight."""
        try:
            while await self._read_some():
                if self.closed.is_set():
                    return
        except trio.BrokenResourceError:
            pass  # how it ended is told by the process, not by the pipe
        self.end(await self._describe_end())

    async def _read_some(self) -> bool:
        """Take what comes next; say whether more may. Nothing of it is held while the server is waited for again."""
        messages = await self._channel.receive()
        for message in messages:
            self._take(message)
        return bool(messages)

    def _take(self, message: bytes | Oversize | Said | Lost | Gap) -> None:
        if isinstance(message, bytes):
            self._take_message(message, None)
        elif isinstance(message, Said):
            self._take_message(message.message, message.stream)
        elif isinstance(message, Oversize):
            self._take_oversize(message)
        elif isinstance(message, Lost):
            self._take_lost(message)
        elif self.listener is not None:
            self.listener.interrupted(forgotten=message.forgotten)

    def _take_message(self, message: bytes, stream: int | None) -> None:
        try:
            if self.revision in BATCHING and frames.is_batch(message):
                for one in frames.split_batch(message):
                    self._take_message(one, stream)
                return
            frame = frames.decode_frame(message)
            if frame.method is UNSET:
                self._take_answer(frame)
            elif frame.id is UNSET:
                self._take_notification(frame.method, frames.optional_members(frame.params), stream)
            else:
                self._take_request(frame.id, frame.method, frame.params, stream)
        except RemoteProtocolError as error:
            if error.code == frames.PARSE_ERROR:
                begin = _MESSAGE.search(message)
                if begin is not None and begin.start() > 0:  # noise without a newline, and a message on the same line
                    self._take_noise(message[: begin.start()])
                    self._take_message(message[begin.start() :], stream)
                    return
                self._fail_unreadable(message, error.message)
            self._take_noise(message)

    def _take_answer(self, frame: frames.Frame) -> None:
        try:
            kind = frames.kind(frame)
        except RemoteProtocolError:
            if isinstance(frame.id, Raw):
                self._fail(frame.id, "The server sent an answer that is neither a result nor an error.")
            raise
        self.trouble = None
        if isinstance(frame.id, Raw) and (call := self._outgoing.settle(frame.id)) is not None:
            if kind == "result":
                assert isinstance(frame.result, Raw)
                call.finish(frame.result)
            else:
                assert isinstance(frame.error, Raw)
                body = frames.error_object(frame.error)
                data = None if body.data is UNSET else body.data
                call.finish(RpcError(body.code, body.message, data, revision=self.revision, server=self.server))
        elif kind == "error" and isinstance(frame.error, Raw) and frame.id in (UNSET, frames.NULL):
            self.complain(f"sent an error that names no request: {_shorten(bytes(frame.error))}")

    def _take_request(self, id: Raw, method: str, params: Raw | UnsetType, stream: int | None) -> None:
        if frames.id_key(id) is None:
            return  # whatever is answered could not be matched
        if self.listener is not None:
            try:
                self.listener.asked(id, method, frames.optional_members(params), stream)
            except RemoteProtocolError:
                self.listener.asked(id, method, {}, stream)  # it waits for an answer all the same
        elif method == "ping":  # the one request that may come before the handshake is over (2025-11-25 lifecycle)
            self.answer(frames.result(id, Raw(b"{}")))
        else:
            self.answer(frames.error(id, frames.INVALID_REQUEST, "Invalid request: the handshake is not over"))

    def _take_notification(self, method: str, params: dict[str, Raw], stream: int | None) -> None:
        if method == "notifications/progress":
            token = params.pop(meta.PROGRESS_TOKEN, None)
            call = self._outgoing.find(token) if token is not None else None
            if call is not None:
                call.put(Progress(params))
        elif self.listener is not None:
            self.listener.notified(method, params, stream)

    def _take_oversize(self, message: Oversize) -> None:
        owner = oversize_frame(message)
        reason = f"The server sent a message of {message.size} bytes, more than maxFrame allows."
        if owner.id is not None and owner.is_response:
            self._fail(owner.id, reason)
        else:
            self.end(reason)

    def _take_lost(self, lost: Lost) -> None:
        self.trouble = None if lost.reached else lost.reason
        if (call := self._outgoing.settle(Raw(b"%d" % lost.id))) is not None:
            call.finish(UpstreamUnanswered(self.server, lost.reason, lost.status, reached=lost.reached))

    def _fail_unreadable(self, line: bytes, problem: str) -> None:
        """A line that is no JSON may be an answer all the same, as its ends tell: Python writes NaN, others bytes that
        are not UTF-8. Who waits for it is told at once.
        """
        owner = unreadable_frame(line)
        if owner.id is not None and owner.is_response:
            self._fail(owner.id, f"The server sent an answer that is not valid JSON. {problem}.")

    def _fail(self, id: Raw, reason: str) -> None:
        """End the call, if there is one, whose answer came and is of no use."""
        if (call := self._outgoing.settle(id)) is not None:
            call.finish(UpstreamError(self.server, reason))

    def _take_noise(self, line: bytes) -> None:
        self.noise_count += 1
        if self.noise_count <= NOISE_SHOWN:
            shown = _shorten(line)
            self.noise.append(shown)
            log.warning("[%s] wrote a line that is no MCP message, skipped: %s", self.server, shown)


@asynccontextmanager
async def open_connection(
    server: str, channel: ClientChannel, describe_end: Callable[[], Awaitable[str]]
) -> AsyncGenerator[Connection]:
    """Own a connection's reader. ``describe_end`` says in a sentence how the server ended, once its stream has."""
    connection = Connection(server, channel, describe_end)
    async with open_crew() as crew:
        crew.start_soon(connection.run, name=f"reader of {server}")
        crew.start_soon(connection.run_answers, name=f"answers to {server}")
        try:
            yield connection
        finally:
            connection.end("mcpx closed the connection.")


def _shorten(line: bytes) -> str:
    text = line[: NOISE_LENGTH * 4].decode(errors="backslashreplace")
    text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= NOISE_LENGTH else f"{text[:NOISE_LENGTH]}… ({len(line)} bytes)"
