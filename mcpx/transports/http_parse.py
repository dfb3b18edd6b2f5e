"""HTTP/1 requests out of bytes, without I/O: heads by way of llhttp, and where their bodies end.

A head is given to llhttp, which is strict, up to its last byte and not one further. So the bytes behind it are ours:
what is a body, what is the next request (RFC 9112 section 9.3.2) and what belongs to another protocol (RFC 9110 section
7.8) is decided here, and never by two readers in two ways, which is what request smuggling lives on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

import httptools
import msgspec

from mcpx.errors import McpxError
from mcpx.settings import KiB

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HEADERS = 256  # in one head; clients send a dozen, and joining thousands of one name takes long
MAX_CHUNK_LINE = 256  # bytes of a chunk's size and extensions; nobody uses those
MAX_TRAILERS = 8 * KiB  # bytes behind the last chunk, which nobody reads

# Headers of which a request has one at most: lists of them would be read one way here and another way elsewhere.
ONCE = frozenset({"authorization", "content-length", "host", "mcp-session-id", "origin", "transfer-encoding"})
# How what is no HTTP/1 begins, and what to say of it: a handshake record (RFC 8446 section 5.1), the preface of RFC
# 9113 section 3.4.
FOREIGN: dict[bytes, str] = {
    b"\x16": "This port speaks HTTP without TLS; the URL should begin with http://.",
    b"PRI * HTTP/2.0": "HTTP/2 is not spoken here; use HTTP/1.1.",
}
LONGEST_FOREIGN = max(map(len, FOREIGN))
VERSIONS = frozenset({"1.0", "1.1"})
CONTINUE = "100-continue"

_END = b"\r\n\r\n"
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_ABSOLUTE = re.compile(r"https?://([^/?#@\\]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


class BadRequest(McpxError):
    """What a client sent is refused: with a status, and a sentence that the client is told."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class HttpRequest(msgspec.Struct, frozen=True):
    """A request as a handler sees it."""

    method: str
    path: str  # percent-decoded, without the query
    query: str  # as it came
    headers: Mapping[str, str]  # by lower-case name; what a repeated header said, joined by ", "
    body: bytes  # empty where a check looks at the head alone
    peer: str  # the client's address without its port; empty where it has none

    def with_body(self, body: bytes) -> HttpRequest:
        """The same request with its body."""
        return HttpRequest(self.method, self.path, self.query, self.headers, body, self.peer)


class Head(NamedTuple):
    """The head of a request, and what it says of the rest."""

    request: HttpRequest  # without its body
    target: str  # path and query in origin-form, as they came
    version: str
    length: int | None  # of the body; None for a chunked one
    keep_alive: bool  # the client would like to use the connection again
    expects_continue: bool  # it waits for a 100 before it sends the body

    def rewritten(self) -> bytes:
        """The head as bytes again, for another reader of the connection. It has no body, for that has been read."""
        lines = [f"{self.request.method} {self.target} HTTP/{self.version}\r\n"]
        framing = ("content-length", "transfer-encoding", "expect")
        lines += (f"{name}: {value}\r\n" for name, value in self.request.headers.items() if name not in framing)
        return "".join([*lines, "\r\n"]).encode("latin-1")


class HeadReader:
    """Reads the head of one request."""

    def __init__(self, max_head: int, peer: str = "") -> None:
        self._max_head = max_head
        self._peer = peer
        self._size = 0
        self._seen = b""  # the last bytes that were fed, where the end of the head may have begun
        self._start = b""  # the first bytes
        self._target = b""
        self._headers: dict[str, str] = {}
        self._count = 0  # of headers
        self._repeated = ""  # a header that there may be one of
        self._keep_alive = False
        self._complete = False
        self._head: Head | None = None
        # It holds this object, which lets go of it when it is done: no circle is left for the collector.
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)

    @property
    def head(self) -> Head:
        """The head, once it is complete."""
        assert self._head is not None
        return self._head

    def feed(self, data: bytes) -> bytes | None:
        """Take more of the request; give what came behind the head once that is complete, until then ``None``.

        Raises ``BadRequest``, after which there is nothing more to feed.
        """
        if not self._size and data[:1] in b"\r\n":
            data = data.lstrip(b"\r\n")  # RFC 9112 section 2.2 has empty lines before a request ignored
            if not data:
                return None
        seen = self._seen + data
        end = seen.find(_END)
        if end < 0:
            self._take(data)
            if self._complete:
                raise BadRequest(400, "The end of the head makes no sense.")
            self._seen = seen[-3:]
            return None
        cut = end + len(_END) - len(self._seen)
        self._take(data[:cut])
        if not self._complete:
            raise BadRequest(400, "The head makes no sense.")
        self._head = self._judge()
        return data[cut:]

    def _take(self, data: bytes) -> None:
        if self._size < LONGEST_FOREIGN:
            self._start += data[: LONGEST_FOREIGN - self._size]
            for start, message in FOREIGN.items():
                if self._start.startswith(start):
                    raise BadRequest(400, message)
        self._size += len(data)
        if self._size > self._max_head:
            raise BadRequest(431, f"The head of a request may have {self._max_head} bytes here.")
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # whether anything is made of the offer is the handler's choice, and it may have a body
        except httptools.HttpParserInvalidMethodError:
            raise BadRequest(400, "This is no HTTP request, or one with an unknown method.") from None
        except httptools.HttpParserError as error:
            raise BadRequest(400, f"This is no valid HTTP request: {error}.") from None
        if self._count > MAX_HEADERS:
            raise BadRequest(431, f"A request may have {MAX_HEADERS} headers here.")
        if self._repeated:
            raise BadRequest(400, f"There is more than one {self._repeated} header.")

    # -- what llhttp calls

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > MAX_HEADERS:
            return
        key = name.decode("latin-1").lower()
        said = value.strip(b" \t").decode("latin-1")
        headers = self._headers
        if key not in headers:
            headers[key] = said
        elif key in ONCE:
            self._repeated = key
        else:
            headers[key] = f"{headers[key]}, {said}"

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._keep_alive = self._parser.should_keep_alive()  # which it forgets together with the message
        self._complete = True

    # -- what it comes to

    def _judge(self) -> Head:
        parser, self._parser = self._parser, None
        assert parser is not None
        version = parser.get_http_version()
        if version not in VERSIONS:
            raise BadRequest(505, "HTTP/1.1 is spoken here.")
        headers = self._headers
        if version == "1.1" and "host" not in headers:
            raise BadRequest(400, "There is no Host header.")
        target, path, query = self._read_target()
        length = self._read_length(version)
        expects = headers.get("expect") if version == "1.1" else None
        if expects is not None and expects.lower() != CONTINUE:
            raise BadRequest(417, "Nothing can be expected here but 100-continue.")
        method = parser.get_method().decode()
        request = HttpRequest(method, path, query, headers, b"", self._peer)
        return Head(request, target, version, length, self._keep_alive, expects is not None and length != 0)

    def _read_target(self) -> tuple[str, str, str]:
        """Target in origin-form, decoded path and query, of a target as in RFC 9112 section 3.2."""
        target = self._target.decode("latin-1")
        if target.startswith("/"):
            path, _, query = target.partition("?")
        elif match := _ABSOLUTE.fullmatch(target):
            self._headers["host"] = match[1]  # which counts instead of the header, section 3.2.2
            path, query = match[2] or "/", match[3] or ""
            target = path if match[3] is None else f"{path}?{query}"
        else:
            raise BadRequest(400, "The target of a request is a path or an http URL here.")
        if "#" in target:
            raise BadRequest(400, "The target of a request has no fragment.")
        if "%" in path:
            path = _decode(path)
        return target, path, query

    def _read_length(self, version: str) -> int | None:
        """How long the body is, by RFC 9112 section 6.3; refuses whatever two readers could understand differently."""
        coding = self._headers.get("transfer-encoding")
        length = self._headers.get("content-length")
        if coding is None:
            if length is None:
                return 0
            if not _LENGTH.fullmatch(length):
                raise BadRequest(400, "The Content-Length is no number.")
            return int(length)
        if length is not None:
            raise BadRequest(400, "There is a Content-Length beside a Transfer-Encoding.")
        if coding.lower() != "chunked" or version == "1.0":
            raise BadRequest(400, "No transfer coding is understood here but chunked, of HTTP/1.1.")
        return None


def _decode(path: str) -> str:
    if _BAD_ESCAPE.search(path):
        raise BadRequest(400, "The path holds a percent sign that escapes nothing.")
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise BadRequest(400, "The path is not UTF-8.") from None
    if _CONTROL.search(decoded):
        raise BadRequest(400, "The path holds a control character.")
    return decoded


class SizedBody:
    """Reads a body whose length the head told."""

    def __init__(self, length: int) -> None:
        self.data = bytearray()
        self._length = length

    @property
    def received(self) -> int:
        return len(self.data)

    def feed(self, data: bytes) -> bytes | None:
        """Take more of the body; give what came behind it once it is complete, until then ``None``."""
        missing = self._length - len(self.data)
        self.data += data[:missing]
        return data[missing:] if len(data) >= missing else None


class ChunkedBody:
    """Reads a body in chunks, as RFC 9112 section 7.1 has them. Extensions and trailers are read over."""

    def __init__(self, max_body: int) -> None:
        self.data = bytearray()
        self._max_body = max_body
        self._left = bytearray()  # not looked at yet
        self._missing = 0  # of the chunk
        self._trailers = 0  # bytes
        self._step = self._take_size  # what comes next; it says whether there was enough of it
        self._complete = False

    @property
    def received(self) -> int:
        return len(self.data)

    def feed(self, data: bytes) -> bytes | None:
        """Take more of the body; give what came behind it once it is complete, until then ``None``.

        Raises ``BadRequest`` where it makes no sense or is too long.
        """
        self._left += data
        while self._step():
            if self._complete:
                return bytes(self._left)
        return None

    def _take_size(self) -> bool:
        line = self._line(MAX_CHUNK_LINE)
        if line is None:
            return False
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise BadRequest(400, "The size of a chunk makes no sense.")
        self._missing = int(match[1], 16)
        if len(self.data) + self._missing > self._max_body:
            raise too_large(self._max_body)
        self._step = self._take_data if self._missing else self._take_trailer
        return True

    def _take_data(self) -> bool:
        part = self._left[: self._missing]
        del self._left[: self._missing]
        self.data += part
        self._missing -= len(part)
        if self._missing:
            return False
        self._step = self._take_end
        return True

    def _take_end(self) -> bool:
        if len(self._left) < 2:
            return False
        if not self._left.startswith(b"\r\n"):
            raise BadRequest(400, "A chunk is longer than it said.")
        del self._left[:2]
        self._step = self._take_size
        return True

    def _take_trailer(self) -> bool:
        line = self._line(MAX_TRAILERS - self._trailers)
        if line is None:
            return False
        self._trailers += len(line) + 2
        self._complete = not line
        if line and not _TRAILER.fullmatch(line):
            raise BadRequest(400, "A trailer makes no sense.")
        return True

    def _line(self, limit: int) -> bytes | None:
        end = self._left.find(b"\r\n", 0, limit + 2)
        if end < 0:
            if len(self._left) > limit + 1:
                raise BadRequest(400, "A line in the chunked body is too long.")
            return None
        line = bytes(self._left[:end])
        del self._left[: end + 2]
        return line


def too_large(max_body: int) -> BadRequest:
    """The refusal of a body that is longer than allowed."""
    return BadRequest(413, f"The body of a request may have {max_body} bytes here.")
