"""The answer to one HTTP/1 request: whole, as a stream of chunks, or the connection itself for another protocol."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import trio

from mcpx.errors import LocalProtocolError
from mcpx.settings import KiB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpx.transports.http_parse import Head

PIECE = 64 * KiB  # bytes of one write, each of which has its own time: a slow client is no dead one

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = "Connection: close\r\n"
KEEP = "Connection: keep-alive\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})  # RFC 9110 section 6.4.1
_OURS = frozenset({"connection", "content-length", "transfer-encoding"})
NO_HEADERS: Mapping[str, str] = {}


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = NO_HEADERS


def render_head(status: int, headers: Mapping[str, str], framing: str) -> bytes:
    """The head of an answer; ``framing`` is the lines that say where it ends.

    Raises ``LocalProtocolError`` for what cannot be said in a header.
    """
    return _render_start(status, *headers.items()) + f"{framing}\r\n".encode("latin-1")


@lru_cache(maxsize=128)  # nearly every answer has one of a few
def _render_start(status: int, *headers: tuple[str, str]) -> bytes:
    line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if fields.count("\n") != len(headers) or fields.count("\r") != len(headers) or "\0" in fields:
        raise LocalProtocolError("a header of an answer holds a line break or NUL")
    for name, _ in headers:
        if name.lower() in _OURS:
            raise LocalProtocolError(f"the server itself says {name}")
    try:
        return f"{line}{fields}".encode("latin-1")
    except UnicodeEncodeError:
        raise LocalProtocolError("a header of an answer holds a character that HTTP has no form for") from None


def direct_socket(stream: trio.abc.Stream) -> trio.socket.SocketType | None:
    """The socket of a stream that is nothing else, to be used without a task; ``None`` where there is none."""
    return stream.socket if isinstance(stream, trio.SocketStream) and sys.platform != "win32" else None


class Outgoing:
    """What goes out on a connection: one write after the other, each bounded in time."""

    def __init__(self, stream: trio.abc.Stream, scope: trio.CancelScope, write_time: float) -> None:
        self._stream = stream
        self._scope = scope  # of the connection, which a client that does not read has no use for
        self._write_time = write_time
        self._socket = direct_socket(stream)
        self._turn = trio.Lock()
        self.broken = False  # nothing can be written any more
        self.lost = False  # and that because the client has gone
        self._hang_up: Callable[[], None] | None = None

    def watch(self, hang_up: Callable[[], None] | None) -> None:
        """Have it called when a write finds that the client has gone, which reading may not see yet."""
        self._hang_up = hang_up

    def write_nowait(self, head: bytes, body: bytes) -> bytes | memoryview:
        """Write what can be written at once; the rest of it, which is to be written before anything else.

        That is all of it where the client has gone: writing it tells. A large body is not copied.
        """
        sent = 0
        if self._socket is not None and not self.broken and not self._turn.locked():
            with suppress(OSError):
                if len(body) > PIECE:
                    sent = os.writev(self._socket.fileno(), (head, body))
                else:
                    sent = os.write(self._socket.fileno(), head + body)
        if sent < len(head):
            return head[sent:] + body
        return memoryview(body)[sent - len(head) :]

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of it. Raises ``trio.BrokenResourceError`` when the client has gone.

        When it reads no more the scope of the connection is cancelled.
        """
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            if self.broken:
                raise trio.BrokenResourceError("the connection has ended")
            self.broken = True  # until it is all out: whatever cuts a write off leaves the client amidst something
            if len(data) <= PIECE:
                await self._write_piece(data)
            else:
                with memoryview(data) as whole:
                    for at in range(0, len(whole), PIECE):
                        await self._write_piece(whole[at : at + PIECE])
            self.broken = False
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.lost = True
            if self._hang_up is not None:
                self._hang_up()
            if isinstance(error, trio.ClosedResourceError):
                raise trio.BrokenResourceError("the connection has been closed") from None
            raise
        finally:
            self._scope.deadline = inf
            self._turn.release()

    async def _write_piece(self, piece: bytes | bytearray | memoryview) -> None:
        self._scope.deadline = trio.current_time() + self._write_time
        await self._stream.send_all(piece)


class HttpResponse:
    """What the handler of a request answers with. Any of its tasks may write, and whole chunks never mix.

    Everything raises ``LocalProtocolError`` where an answer is begun a second time, or goes on that was not begun.
    """

    __slots__ = (
        "_close",
        "_head",
        "_outgoing",
        "_stop",
        "_streaming",
        "_take_over",
        "common_headers",
        "persistent",
        "started",
        "upgraded",
    )

    def __init__(
        self, outgoing: Outgoing, head: Head, take_over: Callable[[], trio.abc.Stream], *, stop: trio.Event, close: bool
    ) -> None:
        self._outgoing = outgoing
        self._head = head
        self._take_over = take_over
        self._stop = stop  # from then on an answer is the last one on its connection
        self._close = close  # this one is in any case
        self._streaming = False
        self.common_headers = NO_HEADERS  # said with the answer, whatever it is
        self.started = False
        self.persistent = False  # the connection can be used for another request
        self.upgraded = False

    async def send(self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Send a whole answer. Raises ``trio.BrokenResourceError`` when the client has gone."""
        head = self._begin_whole(status, body, headers)
        if not body or self._head.request.method == "HEAD":
            await self._outgoing.write(head)
        elif len(body) <= PIECE:
            await self._outgoing.write(head + body)
        else:
            await self._outgoing.write(head)
            await self._outgoing.write(body)

    def send_nowait(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> bytes | memoryview:
        """The same as far as it goes at once; the rest of the answer, as ``Outgoing.write_nowait`` has it."""
        head = self._begin_whole(status, body, headers)
        return self._outgoing.write_nowait(head, b"" if self._head.request.method == "HEAD" else body)

    async def open_stream(self, status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Send the head of an answer whose body follows by ``write``, and ends when the handler returns.

        Raises ``trio.BrokenResourceError`` when the client has gone.
        """
        if status in _BODILESS:
            raise LocalProtocolError(f"an answer with status {status} has no body")
        self._begin(status)
        self._streaming = True
        chunked = self._head.version != "1.0"
        if not chunked:
            self._close = True  # which is what ends the body then, RFC 9112 section 6.3
        await self._outgoing.write(self._render(status, headers, CHUNKED if chunked else ""))

    async def write(self, data: bytes) -> None:
        """Send more of the body. Raises ``trio.BrokenResourceError`` when the client has gone."""
        if not self._streaming:
            raise LocalProtocolError("no stream is open")
        if not data or self._head.request.method == "HEAD":
            await trio.lowlevel.checkpoint()
        elif self._head.version == "1.0":
            await self._outgoing.write(data)
        else:
            await self._outgoing.write(b"%x\r\n%b\r\n" % (len(data), data))

    def upgrade(self) -> trio.abc.Stream:
        """Take the connection over for another protocol: a stream that begins with the head of the request.

        Behind it comes whatever the client sent since. Until the handler returns, which closes it, the stream is the
        handler's: a client that hangs up is the end of the stream and cancels nothing any more.
        """
        self._begin(HTTPStatus.SWITCHING_PROTOCOLS)
        self.upgraded = True
        return self._take_over()

    async def finish(self) -> None:
        """End what ``open_stream`` began. Raises ``trio.BrokenResourceError`` when the client has gone."""
        if self._streaming and self._head.version != "1.0" and self._head.request.method != "HEAD":
            await self._outgoing.write(LAST_CHUNK)

    def _begin(self, status: int) -> None:
        if self.started:
            raise LocalProtocolError("a request is answered once")
        if status < HTTPStatus.OK and status != HTTPStatus.SWITCHING_PROTOCOLS:
            raise LocalProtocolError(f"{status} is no status of a final answer")
        self.started = True

    def _begin_whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The head of a whole answer, which has begun with this."""
        if status in _BODILESS:
            if body:
                raise LocalProtocolError(f"an answer with status {status} has no body")
            framing = ""
        else:
            framing = f"Content-Length: {len(body)}\r\n"
        self._begin(status)
        return self._render(status, headers, framing)

    def _render(self, status: int, headers: Mapping[str, str], framing: str) -> bytes:
        said = {**self.common_headers, **headers} if self.common_headers else headers
        return render_head(status, said, framing + self._persistence())

    def _persistence(self) -> str:
        """The line that says whether the connection lives on, which is settled now."""
        self.persistent = self._head.keep_alive and not self._close and not self._stop.is_set()
        if not self.persistent:
            return CLOSE
        return KEEP if self._head.version == "1.0" else ""
