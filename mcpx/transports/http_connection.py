"""One HTTP/1.1 connection: its requests one after the other, and every bound on them.

A connection is two tasks. One does nothing but read, also while a request is being handled, which is how a client that
hangs up is noticed at once. The other has the conversation: a request, its handler, its answer, the next request. What
was read too early waits between them, and reading pauses when that is more than a little.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import NamedTuple, TypeAlias

import msgspec
import trio

from mcpx.errors import LocalProtocolError
from mcpx.settings import KiB, MiB
from mcpx.transports.http_answer import CONTINUE, Answer, HttpResponse, Outgoing, render_head
from mcpx.transports.http_incoming import Incoming, UpgradedStream
from mcpx.transports.http_parse import BadRequest, ChunkedBody, Head, HeadReader, HttpRequest, SizedBody, too_large
from mcpx.transports.listeners import as_tls, peer_address

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


class HttpConnection:
    """One connection: its requests, one after the other."""

    def __init__(self, service: HttpService, stream: trio.abc.Stream) -> None:
        self._service = service
        self._limits = service.limits
        self._stream = stream
        self._tls = as_tls(stream)
        self._peer = peer_address(stream)
        self._incoming = Incoming(stream)
        # One scope for the whole conversation, whose deadline moves: a scope for each wait would take longer than all
        # else. Cancelled, by a client that hangs up, reads no more or has nothing to say, it ends the connection.
        self._scope = trio.CancelScope()
        self._outgoing = Outgoing(stream, self._scope, service.limits.write_time)
        self._idle = False  # there is no request
        self._handshake = trio.CancelScope()  # of TLS

    def close_idle(self) -> None:
        """End the connection if it has no request."""
        self._handshake.cancel()
        if self._idle:
            self._scope.cancel()

    async def run(self) -> None:
        """Serve until either side has had enough, and close the connection."""
        try:
            if self._tls is not None and not await self._shake_hands(self._tls):
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._incoming.run)
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
        rest = b""
        while rest := rest or await self._first_bytes():
            try:
                heading = await self._read_head(rest)
                if heading is None:
                    return
                head, rest = heading
                served = await self._serve(head, rest)
                if served is None:
                    return
                rest = served
            except BadRequest as refusal:
                log.debug("Refused a request: %s", refusal.message)
                await self._refuse(refusal)
                return

    async def _first_bytes(self) -> bytes:
        """The first bytes of a request; empty where there shall be none any more."""
        if self._service.stop.is_set():
            return self._incoming.take()
        self._idle = True
        self._scope.deadline = trio.current_time() + self._limits.idle_time
        data = await self._incoming.more()
        self._scope.deadline = inf
        self._idle = False
        return b"" if self._scope.cancel_called else data  # what came in the moment of the end is not begun

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

    async def _serve(self, head: Head, rest: bytes) -> bytes | None:
        """Answer the request; what came behind it, or ``None`` where nothing may follow."""
        answer = self._service.check(head.request)
        if answer is not None:
            return await self._turn_down(head, rest, answer)
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
        return rest if await self._handle(request, head, rest) else None

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

    async def _handle(self, request: HttpRequest, head: Head, rest: bytes) -> bool:
        """Have the request handled, and say whether another one may follow."""
        response = self._response(head, rest)
        self._watch(self._scope.cancel)
        try:
            await self._service.handler(request, response)
        except* trio.BrokenResourceError:
            if not self._outgoing.broken and not self._incoming.broken:
                raise  # that was no stream of this connection
        self._watch(None)
        if response.upgraded or self._outgoing.broken or self._scope.cancel_called:
            return False
        if not response.started:
            raise LocalProtocolError(f"the handler of {request.method} {request.path} did not answer")
        try:
            await response.finish()
        except trio.BrokenResourceError:
            return False
        if rest and not response.persistent:
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

    async def _write(self, data: bytes) -> bool:
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
