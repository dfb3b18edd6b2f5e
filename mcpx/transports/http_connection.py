"""One HTTP/1.1 connection: its requests one after the other, and every bound on them.

A connection is two tasks. One does nothing but read, also while a request is being handled, which is how a client that
hangs up is noticed at once. The other has the conversation: a request, its handler, its answer, the next request. What
was read too early waits between them, and reading pauses when that is more than a little. A request that comes whole
while nothing else is under way is begun by the reader itself: most are answered before there is anything for a task.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import trio

from mcpx.errors import LocalProtocolError
from mcpx.settings import KiB, MiB
from mcpx.transports.http_aloft import Aloft, Begin
from mcpx.transports.http_answer import CONTINUE, Answer, HttpResponse, Outgoing, render_head
from mcpx.transports.http_incoming import Incoming, UpgradedStream
from mcpx.transports.http_parse import BadRequest, ChunkedBody, Head, HeadReader, HttpRequest, SizedBody, too_large
from mcpx.transports.listeners import as_tls, peer_address

if TYPE_CHECKING:
    from mcpx.transports.http_heads import Heads

log = logging.getLogger("mcpx.http")

LEAST_RATE = 4 * KiB  # bytes of a body a second, on the whole: fewer are no slow line but a client that holds a place
DRAINED = 64 * KiB  # a refused body up to this is read over, so that the connection can be used again
# A client that is still sending when it is refused would lose the answer in the reset that closing means to it: its
# words are read over first, RFC 9112 section 9.6.
LINGER_TIME = 2.0  # seconds
LINGER_BYTES = 4 * MiB
CLOSE_TIME = 1.0  # seconds for the farewell of TLS

PLAIN = {"Content-Type": "text/plain; charset=utf-8"}

Check: TypeAlias = Callable[[HttpRequest], Answer | None]
"""Looks at a complete head before the body is read; an answer refuses it."""
Handler: TypeAlias = Callable[[HttpRequest, HttpResponse], Awaitable[None]]
"""Answers a request. It is cancelled when the client hangs up."""


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a server and of each of its connections. Times are seconds, sizes bytes."""

    max_body: int
    max_connections: int
    max_head: int = 64 * KiB
    head_time: float = 10.0  # from the first byte of a request to its complete head; also for a TLS handshake
    body_time: float = 60.0  # a body may pause for this long, and the whole of it take so much and what its size allows
    idle_time: float = 75.0  # without any request
    write_time: float = 30.0  # for any one write


class HttpService(NamedTuple):
    """What all connections of a server have in common."""

    check: Check
    handler: Handler
    limits: HttpLimits
    stop: trio.Event
    heads: Heads
    begin: Begin | None = None


class _Opened(NamedTuple):
    """A request whose head was read."""

    head: Head
    rest: bytes  # what came behind it
    refusal: Answer | None  # of the check


class HttpConnection:
    """One connection: its requests, one after the other."""

    def __init__(self, service: HttpService, stream: trio.abc.Stream) -> None:
        self._service = service
        self._limits = service.limits
        self._stream = stream
        self._tls = as_tls(stream)
        self._peer = peer_address(stream)
        self._incoming = Incoming(stream, self._begin)
        # One scope for the whole conversation, whose deadline moves: a scope for each wait would take longer than all
        # else. Cancelled, by a client that hangs up, reads no more or has nothing to say, it ends the connection.
        self._scope = trio.CancelScope()
        self._outgoing = Outgoing(stream, self._scope, service.limits.write_time)
        self._aloft: Aloft | None = None  # the request that is under way without a task, or has just landed
        self._wake: trio.Event | None = None  # of the conversation, while it has nothing to do
        self._work: Aloft | _Opened | None = None  # with which it is woken
        self._quiet_since = 0.0  # since when there has been no request
        self._handshake = trio.CancelScope()  # of TLS

    def close_idle(self) -> None:
        """End the connection if it has no request."""
        self._handshake.cancel()
        if self._wake is not None and self._aloft is None:
            self._scope.cancel()

    async def run(self) -> None:
        """Serve until either side has had enough, and close the connection."""
        try:
            if self._tls is not None and not await self._shake_hands(self._tls):
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._incoming.run)
                self._watch(self._hung_up)
                with self._scope:
                    await self._talk()
                unread = self._outgoing.broken and not self._outgoing.lost and not self._incoming.ended
                if self._scope.cancelled_caught and unread:
                    log.debug("A client did not read: nothing could be written for %g s", self._limits.write_time)
                nursery.cancel_scope.cancel()
            if self._tls is not None and not self._outgoing.broken:
                with trio.move_on_after(CLOSE_TIME):
                    await self._tls.aclose()
        finally:
            self._drop()
            await trio.aclose_forcefully(self._stream)

    async def _shake_hands(self, stream: trio.SSLStream[trio.abc.Stream]) -> bool:
        """Agree on TLS, and say whether that went well."""
        self._handshake.deadline = trio.current_time() + self._limits.head_time
        with self._handshake:
            try:
                await stream.do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                log.debug("A client failed at TLS: %s", error.__cause__ or error)
                return False
            return True
        if not self._service.stop.is_set():
            log.debug("A client did not agree on TLS in time")
        return False

    async def _talk(self) -> None:
        rest: bytes | None = b""
        while rest is not None:
            try:
                work = rest or await self._next()
                if isinstance(work, Aloft):
                    rest = await self._land(work)
                elif not work:
                    return
                else:
                    opened = work if isinstance(work, _Opened) else await self._open(work)
                    rest = None if opened is None else await self._serve(opened)
            except BadRequest as refusal:
                log.debug("Refused a request: %s", refusal.message)
                await self._refuse(refusal)
                return

    async def _next(self) -> bytes | _Opened | Aloft:
        """The next request, or its first bytes; empty where there shall be none any more."""
        if self._incoming.waiting or self._service.stop.is_set():
            return self._incoming.take()
        self._quiet_since = trio.current_time()
        wake = self._wake = trio.Event()
        while not wake.is_set():
            # What it waits for is not moved with each request that is answered meanwhile, but looked at when it comes.
            since = self._quiet_since if self._aloft is None else trio.current_time()
            if since + self._limits.idle_time <= trio.current_time():
                self._wake = None
                return b""
            with trio.move_on_at(since + self._limits.idle_time):
                await wake.wait()
        work, self._work = self._work, None
        if work is None and not self._scope.cancel_called:  # what came in the moment of the end is not begun
            return self._incoming.take()
        return work or b""

    # -- requests without a task

    def _begin(self, data: bytes) -> bool:
        """Begin with what has come, where it is all of a request and there is no other; say whether it was taken."""
        if self._wake is None or self._aloft is not None or self._scope.cancel_called:
            return False
        work: _Opened | None = None
        if self._service.begin is not None and not self._service.stop.is_set():
            try:
                begun = self._service.heads.read(data, self._peer)
            except BadRequest:
                begun = None  # the conversation reads it again, and answers
            if begun is not None:
                head, rest = begun
                work = _Opened(head, rest, self._service.check(head.request))
                if work.refusal is None and len(rest) == head.length and self._send_aloft(head, rest):
                    return True
        self._rouse(work)
        return work is not None

    def _send_aloft(self, head: Head, body: bytes) -> bool:
        if len(body) > self._limits.max_body or head.expects_continue:
            return False
        aloft = self._aloft = Aloft(head.request.with_body(body), self._response(head, b""), self._see_to)
        assert self._service.begin is not None
        aloft.hang_up = self._service.begin(aloft)
        if aloft.hang_up is None:
            self._aloft = None
        return aloft.hang_up is not None

    def _see_to(self, aloft: Aloft) -> None:
        """A request was answered, or takes a task."""
        if self._aloft is aloft:
            if aloft.landed or aloft.unsent or not aloft.response.persistent or self._incoming.waiting:
                self._rouse(aloft)
            else:
                self._aloft = None
                self._quiet_since = trio.current_time()

    def _hung_up(self) -> None:
        self._drop()
        self._rouse()

    def _drop(self) -> None:
        """There is nobody to answer any more."""
        aloft = self._aloft
        if aloft is not None and (aloft.landed is not None or not aloft.response.started):
            self._aloft = None
            assert aloft.hang_up is not None
            aloft.hang_up()

    def _rouse(self, work: Aloft | _Opened | None = None) -> None:
        """There is something for the conversation to do."""
        if self._wake is not None:
            self._work = work
            self._wake.set()
            self._wake = None

    async def _land(self, aloft: Aloft) -> bytes | None:
        """Go on with a request that was under way, or with what could not be written of its answer."""
        if self._aloft is None:
            return None  # its client has hung up
        self._aloft = aloft.hang_up = None
        if aloft.landed is not None:
            again = await self._handle(aloft.request, aloft.response, partial(aloft.landed, aloft.response))
        else:
            self._watch(self._scope.cancel)
            written = not aloft.unsent or await self._write(aloft.unsent)
            self._watch(self._hung_up)
            again = written and aloft.response.persistent
            if written and not again and self._incoming.waiting:
                await self._linger()
        return b"" if again else None

    # -- requests as the conversation serves them

    async def _open(self, rest: bytes) -> _Opened | None:
        """Read the head that begins with ``rest``; ``None`` where the client hung up."""
        heading = await self._read_head(rest)
        if heading is None:
            return None
        head, behind = heading
        return _Opened(head, behind, self._service.check(head.request))

    async def _read_head(self, rest: bytes) -> tuple[Head, bytes] | None:
        """The head that begins with ``rest``, and what came behind it; ``None`` where the client hung up."""
        reader = HeadReader(self._limits.max_head, self._peer)
        behind = reader.feed(rest)
        if behind is None:
            with trio.move_on_after(self._limits.head_time) as waiting:
                while behind is None:
                    data = await self._incoming.more()
                    if not data:
                        return None
                    behind = reader.feed(data)
            if waiting.cancelled_caught or behind is None:
                raise BadRequest(408, "The head of the request did not come in time.")
        return reader.head, behind

    async def _serve(self, opened: _Opened) -> bytes | None:
        """Answer the request; what came behind it, or ``None`` where nothing may follow."""
        head, rest, refusal = opened
        if refusal is not None:
            return await self._turn_down(head, rest, refusal)
        request = head.request
        if head.length != 0:
            if head.length is not None and head.length > self._limits.max_body:
                raise too_large(self._limits.max_body)
            if head.expects_continue and not rest and not await self._write(CONTINUE):
                return None
            read = await self._read_body(head, rest)
            if read is None:
                return None
            body, rest = read
            request = request.with_body(body)
        response = self._response(head, rest)
        again = await self._handle(request, response, partial(self._service.handler, request, response), rest)
        return rest if again else None

    async def _turn_down(self, head: Head, rest: bytes, answer: Answer) -> bytes | None:
        """Give the answer of the check. A small body is read over, behind a larger one the connection ends."""
        over = head.expects_continue or head.length is None or head.length > DRAINED
        response = self._response(head, rest, close=over)
        try:
            await response.send(*answer)
        except trio.BrokenResourceError:
            return None
        if not response.persistent:
            await self._linger()
            return None
        read = await self._read_body(head, rest)
        return None if read is None else read[1]

    async def _read_body(self, head: Head, rest: bytes) -> tuple[bytes, bytes] | None:
        """The body that begins with ``rest``, and what came behind it; ``None`` where the client hung up."""
        length = head.length
        if length is not None and len(rest) >= length:
            return rest[:length], rest[length:]
        body = ChunkedBody(self._limits.max_body) if length is None else SizedBody(length)
        patience = self._limits.body_time
        latest = trio.current_time() + patience
        behind = body.feed(rest)
        while behind is None:
            data = None
            with trio.move_on_at(min(trio.current_time() + patience, latest + body.received / LEAST_RATE)):
                data = await self._incoming.more()
            if data is None:
                raise BadRequest(408, "The body of the request did not come in time.")
            if not data:
                return None
            behind = body.feed(data)
        return bytes(body.data), behind

    async def _handle(
        self, request: HttpRequest, response: HttpResponse, handler: Callable[[], Awaitable[None]], rest: bytes = b""
    ) -> bool:
        """Have the request handled, and say whether another one may follow."""
        self._watch(self._scope.cancel)
        try:
            await handler()
        except* trio.BrokenResourceError:
            if not self._outgoing.broken and not self._incoming.broken:
                raise  # that was no stream of this connection
        self._watch(self._hung_up)
        if response.upgraded or self._outgoing.broken or self._scope.cancel_called:
            return False
        if not response.started:
            raise LocalProtocolError(f"the handler of {request.method} {request.path} did not answer")
        try:
            await response.finish()
        except trio.BrokenResourceError:
            return False
        if not response.persistent and (rest or self._incoming.waiting):
            await self._linger()
        return response.persistent

    def _response(self, head: Head, rest: bytes, *, close: bool = False) -> HttpResponse:
        stop = self._service.stop
        return HttpResponse(self._outgoing, head, lambda: self._take_over(head, rest), stop=stop, close=close)

    def _watch(self, hang_up: Callable[[], None] | None) -> None:
        """Have it called when the client hangs up, whoever finds out."""
        self._incoming.watch(hang_up)
        self._outgoing.watch(hang_up)

    def _take_over(self, head: Head, rest: bytes) -> trio.abc.Stream:
        self._watch(None)
        return UpgradedStream(self._stream, self._incoming, self._outgoing, head.rewritten() + rest)

    async def _refuse(self, refusal: BadRequest) -> None:
        body = f"{refusal.message}\n".encode()
        head = render_head(refusal.status, PLAIN, f"Content-Length: {len(body)}\r\nConnection: close\r\n")
        if await self._write(head + body):
            await self._linger()

    async def _write(self, data: bytes | memoryview) -> bool:
        """Write, and say whether the client is there to read it."""
        try:
            await self._outgoing.write(data)
        except trio.BrokenResourceError:
            return False
        return True

    async def _linger(self) -> None:
        """Say that nothing more will come, and read over what the client still has to say."""
        left = LINGER_BYTES
        with trio.move_on_after(LINGER_TIME):
            try:
                await send_eof(self._stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            while left > 0 and (data := await self._incoming.more()):
                left -= len(data)


async def send_eof(stream: trio.abc.Stream) -> None:
    """Say that nothing more will come, as far as the stream can."""
    if isinstance(stream, trio.abc.HalfCloseableStream):
        await stream.send_eof()
