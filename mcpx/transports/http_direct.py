"""HTTP requests to a server without a proxy: HTTP/1.1, one request at a time on each connection.

A request costs no task of its own, and where all goes well its one write and its one read wait for nothing but the
answer. Connections are kept for a while and used again, the last used first; one that the server has closed meanwhile
is found out before it is used. A request is never sent a second time: nobody can say whether it ran.
"""

from __future__ import annotations

import ssl
from collections import deque
from typing import TYPE_CHECKING

import trio

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.settings import KiB
from mcpx.transports.http_engine import (
    CONNECT_LIMIT,
    KEEP_ALIVE,
    MAX_IDLE,
    NO_HTTP,
    SILENT,
    HttpAnswer,
    Unheard,
    broken_amidst,
    broken_before,
)
from mcpx.transports.http_messages import AnswerHead, AnswerReader, CutShort, NoHttp
from mcpx.transports.reasons import why_no_tls
from mcpx.transports.tcp_stream import TcpStream, open_tcp_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.transports.handshake import Opening
    from mcpx.transports.http_messages import RequestHead

JOINED = 64 * KiB  # bytes of a body that is written together with its head; a larger one is not copied for that
READ_SIZE = 64 * KiB
READ_MOST = 256 * KiB  # where that much is known to come

_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


class Connection:
    """One connection to the server."""

    __slots__ = ("secured", "since", "sound", "stream", "tcp")

    def __init__(self, tcp: TcpStream, secured: trio.SSLStream[TcpStream] | None) -> None:
        self.tcp = tcp
        self.secured = secured
        self.stream: trio.abc.Stream = tcp if secured is None else secured
        self.since = 0.0  # when it was used last
        self.sound = True  # no request was cut off on it


class DirectAnswer(HttpAnswer):
    """An answer on a connection."""

    def __init__(
        self, engine: DirectEngine, connection: Connection, reader: AnswerReader, head: AnswerHead, first: bytes
    ) -> None:
        super().__init__(head.status, head.headers)
        self._engine = engine
        self._connection: Connection | None = connection  # None: given back or closed
        self._reader = reader
        self._first = first  # of the body; it came with the head
        self._settle()

    async def receive_some(self) -> bytes:
        if self._first:
            piece, self._first = self._first, b""
            self._settle()
            return piece
        while not self.ended:
            piece = await self._receive()
            self._settle()
            if piece:
                return piece
        await trio.lowlevel.checkpoint()
        return b""

    async def read(self, limit: int) -> bytes | None:
        reader = self._reader
        if reader.ended and len(self._first) <= limit:  # as with most: all of it came at once
            piece, self._first = self._first, b""
            self._settle()
            return piece
        if reader.missing is not None and not reader.ended and len(self._first) + reader.missing > limit:
            return None
        return await super().read(limit)

    async def _receive(self) -> bytes:
        """What comes next, if it is of the body."""
        connection, reader = self._connection, self._reader
        if connection is None:
            self.ended = True
            raise BrokenAnswer(broken_amidst(None))
        size = READ_SIZE if reader.missing is None else min(reader.missing, READ_MOST)
        try:
            data = await connection.stream.receive_some(size)
            if data:
                return reader.feed(bytes(data))
            reader.feed_end()
        except _BROKEN as error:
            self._abandon()
            raise BrokenAnswer(broken_amidst(error)) from None
        except (NoHttp, CutShort):
            self._abandon()
            raise BrokenAnswer(broken_amidst(None)) from None
        except BaseException:
            self._abandon()
            raise
        return b""

    def _settle(self) -> None:
        """Give the connection back as soon as nothing more comes for this answer."""
        if self._reader.ended and not self._first:
            self.ended = True
            if self._connection is not None:
                self._engine.release(self._connection, reusable=self._reader.reusable)
                self._connection = None

    def _abandon(self) -> None:
        self.ended = True
        if self._connection is not None:
            self._engine.release(self._connection, reusable=False)
            self._connection = None

    async def aclose(self) -> None:
        self._first = b""
        self._settle()
        self._abandon()


class _Writing:
    """The rest of a request on its way, beside which its answer is awaited already."""

    def __init__(self, stream: trio.abc.Stream, parts: list[bytes | memoryview]) -> None:
        self._stream = stream
        self._parts = parts
        self.done = False

    async def run(self, sent: Callable[[], None] | None) -> None:
        try:
            for part in self._parts:
                await self._stream.send_all(part)
        except _BROKEN:
            return  # what the server has to say about it is read
        self.done = True
        if sent is not None:
            sent()


class DirectEngine:
    """Requests to one server, and its connections; see ``Engine``."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._tls = ssl.create_default_context() if opening.tls else None
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()  # the last used at the end
        self._closed = False

    async def ask(self, head: RequestHead, body: bytes, sent: Callable[[], None] | None) -> HttpAnswer:
        """Send a request and wait for the head of its answer; see ``Engine``."""
        written = head.write(len(body))
        await trio.lowlevel.checkpoint_if_cancelled()  # a request that is not wanted any more is not begun
        connection = self._reuse() or await self._connect()
        reader = AnswerReader(head.method)
        try:
            rest = await self._send(connection, written, body)
            if not rest:
                if sent is not None and connection.sound:
                    sent()
                first = await _read_head(connection, reader)
            else:
                first = await self._send_and_read(connection, rest, sent, reader)
            assert reader.head is not None
            return DirectAnswer(self, connection, reader, reader.head, first)
        except (NoHttp, CutShort) as error:
            self.release(connection, reusable=False)
            raise Unheard(NO_HTTP if isinstance(error, NoHttp) else SILENT) from None
        except _BROKEN as error:
            self.release(connection, reusable=False)
            raise BrokenAnswer(broken_before(error)) from None
        except BaseException:
            self.release(connection, reusable=False)
            raise

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """An exchange is over: keep its connection for the next, or close it."""
        if not reusable or not connection.sound or self._closed:
            self._drop(connection)
            return
        now = connection.since = trio.current_time()
        idle = self._idle
        idle.append(connection)
        while len(idle) > MAX_IDLE or now - idle[0].since > KEEP_ALIVE:
            self._drop(idle.popleft())

    async def aclose(self) -> None:
        """Close all connections, whatever is under way on them."""
        self._closed = True
        self._idle.clear()
        for connection in list(self._open):
            self._drop(connection)

    # -- connections

    def _reuse(self) -> Connection | None:
        """A connection that can be used again."""
        oldest = trio.current_time() - KEEP_ALIVE
        while self._idle:
            connection = self._idle.pop()
            if connection.since >= oldest and connection.tcp.is_quiet:
                return connection
            self._drop(connection)
        return None

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.tcp.close()

    async def _connect(self) -> Connection:
        opening = self._opening
        with trio.move_on_after(CONNECT_LIMIT):
            connection = await self._dial(opening)
            self._open.add(connection)
            return connection
        raise ConnectError(f"{opening.where} could not be connected to within {CONNECT_LIMIT:g} s.")

    async def _dial(self, opening: Opening) -> Connection:
        tcp = await open_tcp_stream(opening.host, opening.port)
        if self._tls is None:
            return Connection(tcp, None)
        try:
            secured = trio.SSLStream(tcp, self._tls, server_hostname=opening.host, https_compatible=True)
            await secured.do_handshake()
        except trio.BrokenResourceError as error:
            tcp.close()
            raise ConnectError(why_no_tls(opening.where, error.__cause__, "http://")) from None
        except BaseException:
            tcp.close()
            raise
        return Connection(tcp, secured)

    # -- one exchange

    async def _send(self, connection: Connection, head: bytes, body: bytes) -> list[bytes | memoryview]:
        """Write what can be written without waiting for the server to read; what is left of it."""
        joined = head + body if len(body) <= JOINED else head
        more: list[bytes | memoryview] = [] if len(body) <= JOINED else [body]
        if connection.secured is not None:
            if more:
                return [joined, *more]
            await connection.secured.send_all(joined)
            return []
        try:
            at = connection.tcp.send_nowait(joined)
        except trio.BrokenResourceError:
            connection.sound = False  # the server has closed it, and may have said why before that
            return []
        return more if at == len(joined) else [memoryview(joined)[at:], *more]

    async def _send_and_read(
        self,
        connection: Connection,
        rest: list[bytes | memoryview],
        sent: Callable[[], None] | None,
        reader: AnswerReader,
    ) -> bytes:
        """Write the rest while the head of the answer is awaited: a server may refuse a body before it has read it."""
        writing = _Writing(connection.stream, rest)
        first, failure = b"", None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writing.run, sent)
            try:
                first = await _read_head(connection, reader)
            except (NoHttp, CutShort, *_BROKEN) as error:
                failure = error
            if failure is not None or (reader.head is not None and reader.head.status >= 300):
                nursery.cancel_scope.cancel()
        connection.sound = writing.done
        if failure is not None:
            raise failure
        return first


async def _read_head(connection: Connection, reader: AnswerReader) -> bytes:
    """Read until the head has come; the first bytes of the body, as far as they came with it."""
    receive_some = connection.stream.receive_some
    while True:
        data = await receive_some(READ_SIZE)
        if not data:
            reader.feed_end()
        first = reader.feed(bytes(data))
        if reader.head is not None:
            return first
