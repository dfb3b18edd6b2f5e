"""HTTP/1.1 as a client says and hears it, without I/O: the head of a request into bytes, an answer out of bytes.

The head of an answer is given to llhttp, which is strict, up to its last byte and not one further; where the body ends
is decided here (RFC 9112 section 6.3), so that nothing behind it is ever taken for another answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import httptools

from mcpx.errors import LocalProtocolError, McpxError
from mcpx.settings import KiB
from mcpx.transports.http_parse import MAX_HEADERS, VERSIONS, BadRequest, ChunkedBody

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HEAD = 64 * KiB  # bytes of an answer's head, and of those that only say that one is to come

_END = b"\r\n\r\n"
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")  # section 5.5
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})  # whose length is said even where it is 0, RFC 9110 section 8.6
_BODILESS = frozenset({204, 304})  # RFC 9110 section 6.4.1
_SWITCHING = 101  # which nobody asks for
_ANY_LENGTH = 1 << 62  # how much may come is up to whoever reads it


class RequestHead:
    """The head of a request, and how it is written."""

    __slots__ = ("_written", "fields", "method", "target")

    def __init__(self, method: str, target: str, fields: list[tuple[bytes, bytes]]) -> None:
        self.method = method
        self.target = target
        self.fields = fields  # without the length of the body
        self._written: bytes | None = None

    def write(self, length: int) -> bytes:
        """The head before a body of that length. Raises ``LocalProtocolError`` for what cannot be said in a header."""
        if self._written is None:
            self._written = self._write()
        if length or self.method in _WITH_BODY:
            return b"%bContent-Length: %d\r\n\r\n" % (self._written, length)
        return self._written + b"\r\n"

    def _write(self) -> bytes:
        for name, value in self.fields:
            if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
                raise LocalProtocolError("a header holds what none may hold")  # and which is nobody's business
        lines = b"".join(b"%b: %b\r\n" % field for field in self.fields)
        return f"{self.method} {self.target} HTTP/1.1\r\n".encode() + lines


class NoHttp(McpxError):
    """What came is no answer of HTTP's."""


class CutShort(McpxError):
    """The connection ended before the answer did; ``begun``: its head had come."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__("the connection ended too early")
        self.begun = begun


class AnswerHead(NamedTuple):
    """The head of an answer."""

    status: int
    headers: Mapping[str, str]  # by lower-case name; what a repeated header said, joined by ", "


class AnswerReader:
    """Reads the answer to one request, however it is cut."""

    __slots__ = (
        "_bodiless",
        "_chunks",
        "_complete",
        "_count",
        "_headers",
        "_keep_alive",
        "_missing",
        "_parser",
        "_seen",
        "_size",
        "ended",
        "head",
        "reusable",
    )

    def __init__(self, method: str) -> None:
        self.head: AnswerHead | None = None  # once it has come
        self.ended = False  # all of the answer has come
        self.reusable = False  # and the connection can take another request
        self._bodiless = method == "HEAD"
        self._size = 0  # of all heads so far
        self._missing: int | None = None  # bytes of the body; None where the head does not say how many there are
        self._chunks: ChunkedBody | None = None
        self._begin()

    @property
    def missing(self) -> int | None:
        """How many bytes of the body are still to come, where that is known."""
        return self._missing

    def feed(self, data: bytes) -> bytes:
        """Take what came; give what of the body is in it. Raises ``NoHttp``."""
        if self.head is None:
            rest = self._feed_head(data)
            if rest is None:
                return b""
            data = rest
        if self.ended:
            if data:  # of what, nobody knows
                self.reusable = False
            return b""
        if self._chunks is not None:
            return self._feed_chunks(self._chunks, data)
        if self._missing is None:
            return data
        surplus = len(data) - self._missing
        if surplus < 0:
            self._missing = -surplus
            return data
        self._end(surplus == 0)
        return data[:-surplus] if surplus else data

    def feed_end(self) -> None:
        """The connection has ended. Raises ``CutShort`` where the answer had not."""
        self.reusable = False
        if self.ended:
            return
        if self.head is None or self._missing is not None or self._chunks is not None:
            raise CutShort(begun=self.head is not None)
        self.ended = True

    # -- the head

    def _begin(self) -> None:
        self._headers: dict[str, str] = {}
        self._seen = b""  # the last bytes that were fed, where the end of the head may have begun
        self._count = 0
        self._keep_alive = self._complete = False
        # It holds this object, which lets go of it when it is done: no circle is left for the collector.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def _feed_head(self, data: bytes) -> bytes | None:
        """What came behind the head, once that is complete."""
        while True:
            seen = self._seen + data
            end = seen.find(_END)
            if end < 0:
                self._take(data)
                if self._complete:
                    raise NoHttp("the end of the head makes no sense")
                self._seen = seen[-3:]
                return None
            cut = end + len(_END) - len(self._seen)
            self._take(data[:cut])
            if not self._complete:
                raise NoHttp("the head makes no sense")
            head, data = self._judge(), data[cut:]
            if head.status >= 200:
                self.head = head
                return data
            if head.status == _SWITCHING:
                raise NoHttp("another protocol was not asked for")
            self._begin()  # one that says that the answer is to come, RFC 9110 section 15.2
            if not data:
                return None

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_HEAD:
            raise NoHttp("the head is too long")
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise NoHttp("another protocol was not asked for") from None
        except httptools.HttpParserError:
            raise NoHttp("what came is no HTTP") from None
        if self._count > MAX_HEADERS:
            raise NoHttp("there are too many headers")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; called by llhttp."""
        self._count += 1
        if self._count > MAX_HEADERS:
            return
        key = name.decode("latin-1").lower()
        try:
            said = value.decode().strip(" \t")
        except UnicodeDecodeError:
            said = value.decode("latin-1").strip(" \t")
        before = self._headers.get(key)
        self._headers[key] = said if before is None else f"{before}, {said}"

    def on_headers_complete(self) -> None:
        """The head is complete; called by llhttp."""
        assert self._parser is not None
        self._keep_alive = self._parser.should_keep_alive()  # which it forgets together with the message
        self._complete = True

    def _judge(self) -> AnswerHead:
        """What the head says, and what of it is about the body (RFC 9112 section 6.3)."""
        parser, self._parser = self._parser, None
        assert parser is not None
        if parser.get_http_version() not in VERSIONS:
            raise NoHttp("it is of another version")
        status, headers = parser.get_status_code(), self._headers
        if self._bodiless or status in _BODILESS:
            self._end(True)
        elif (coding := headers.get("transfer-encoding")) is not None:
            if coding.lower() != "chunked" or "content-length" in headers:
                raise NoHttp("nobody knows where the body ends")
            self._chunks = ChunkedBody(_ANY_LENGTH)
        elif (length := headers.get("content-length")) is not None:
            if not _LENGTH.fullmatch(length):
                raise NoHttp("the length is no number")
            self._missing = int(length)
            if not self._missing:
                self._end(True)
        return AnswerHead(status, headers)

    # -- the body

    def _feed_chunks(self, chunks: ChunkedBody, data: bytes) -> bytes:
        try:
            rest = chunks.feed(data)
        except BadRequest as error:
            raise NoHttp(error.message) from None
        if rest is not None:
            self._end(not rest)
        piece = bytes(chunks.data)
        chunks.data.clear()
        return piece

    def _end(self, clean: bool) -> None:
        self.ended = True
        self.reusable = clean and self._keep_alive
