"""Requests out of bytes: what is understood, what is refused and with which status. No I/O."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.transports.http_parse import (
    MAX_CHUNK_LINE,
    MAX_HEADERS,
    MAX_TRAILERS,
    BadRequest,
    ChunkedBody,
    Head,
    HeadReader,
)

MAX_HEAD = 2000
HOST = b"Host: here\r\n"


def read(data: bytes, step: int = 0) -> tuple[Head, bytes]:
    """The head of a request, and what came behind it in the piece that completed it."""
    reader = HeadReader(MAX_HEAD, "1.2.3.4")
    pieces = [data[at : at + step] for at in range(0, len(data), step)] if step else [data]
    for piece in pieces:
        behind = reader.feed(piece)
        if behind is not None:
            return reader.head, behind
    raise AssertionError("the head is not complete")


def refused(data: bytes, step: int = 0) -> tuple[int, str]:
    with pytest.raises(BadRequest) as caught:
        read(data, step)
    return caught.value.status, caught.value.message


def request(*lines: bytes, target: bytes = b"/mcp", method: bytes = b"POST", version: bytes = b"1.1") -> bytes:
    return b"\r\n".join([b"%b %b HTTP/%b" % (method, target, version), *lines, b"", b""])


ORDINARY = request(
    b"Host: here:80", b"Accept: a", b"X-Y:  spaced \t", b"accept: b", b"Content-Length: 3", target=b"/a%20b?q=%20"
)


@pytest.mark.parametrize("step", [0, 1, 2, 7])
def test_a_head_however_it_comes(step: int) -> None:
    head, behind = read(ORDINARY, step)
    assert head.request.method == "POST"
    assert (head.request.path, head.request.query) == ("/a b", "q=%20")
    assert head.request.headers == {"host": "here:80", "accept": "a, b", "x-y": "spaced", "content-length": "3"}
    assert head.request.peer == "1.2.3.4"
    assert (head.version, head.length, head.keep_alive, head.expects_continue) == ("1.1", 3, True, False)
    assert head.request.body == b""
    assert behind == b""


@given(st.lists(st.integers(1, len(ORDINARY) - 1), max_size=8, unique=True))
def test_a_head_split_anywhere_is_the_same_head(cuts: list[int]) -> None:
    reader = HeadReader(MAX_HEAD, "1.2.3.4")
    edges = [0, *sorted(cuts), len(ORDINARY)]
    given_back = [reader.feed(ORDINARY[start:end]) for start, end in pairwise(edges)]
    assert given_back == [None] * len(cuts) + [b""]
    assert reader.head == read(ORDINARY)[0]


def test_what_comes_behind_the_head_is_left_alone() -> None:
    assert read(request(HOST.strip(), b"Content-Length: 1") + b"xGET")[1] == b"xGET"
    assert (
        read(request(HOST.strip(), b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 1") + b"x\0\1")[1]
        == b"x\0\1"
    )


def test_empty_lines_before_a_request_are_ignored() -> None:
    assert read(b"\r\n\r\n" + ORDINARY)[0] == read(ORDINARY)[0]
    assert read(b"\r\n\r\n" + ORDINARY, 1)[0] == read(ORDINARY)[0]


@pytest.mark.parametrize(
    ("lines", "version", "keeps"),
    [
        ([], b"1.1", True),
        ([b"Connection: close"], b"1.1", False),
        ([], b"1.0", False),
        ([b"Connection: keep-alive"], b"1.0", True),
    ],
)
def test_whether_the_connection_is_to_live_on(lines: list[bytes], version: bytes, keeps: bool) -> None:
    assert read(request(b"Host: here", *lines, version=version))[0].keep_alive is keeps


def test_a_request_of_http_1_0_needs_no_host() -> None:
    assert "host" not in read(request(version=b"1.0"))[0].request.headers


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", ""),
        (b"/mcp?", "/mcp", ""),
        (b"/mcp?a=b?c", "/mcp", "a=b?c"),
        (b"/donn%C3%A9es%2Fx", "/données/x", ""),
        (b"http://there:1/mcp?x", "/mcp", "x"),
        (b"HTTPS://there", "/", ""),
        (b"http://there?x", "/", "x"),
    ],
)
def test_targets(target: bytes, path: str, query: str) -> None:
    found = read(request(b"Host: here", target=target))[0].request
    assert (found.path, found.query) == (path, query)
    assert found.headers["host"] == (
        "here" if target.startswith(b"/") else target.split(b"/")[2].split(b"?")[0].decode()
    )


REFUSED = {
    "a length beside a coding": (request(b"Host: a", b"Content-Length: 1", b"Transfer-Encoding: chunked"), 400),
    "a coding beside a length": (request(b"Host: a", b"Transfer-Encoding: chunked", b"Content-Length: 1"), 400),
    "two lengths": (request(b"Host: a", b"Content-Length: 1", b"Content-Length: 1"), 400),
    "a list of lengths": (request(b"Host: a", b"Content-Length: 1, 1"), 400),
    "a signed length": (request(b"Host: a", b"Content-Length: +1"), 400),
    "a negative length": (request(b"Host: a", b"Content-Length: -1"), 400),
    "a hexadecimal length": (request(b"Host: a", b"Content-Length: 0x1"), 400),
    "an empty length": (request(b"Host: a", b"Content-Length:"), 400),
    "an endless length": (request(b"Host: a", b"Content-Length: " + b"9" * 30), 400),
    "another coding": (request(b"Host: a", b"Transfer-Encoding: gzip"), 400),
    "two codings": (request(b"Host: a", b"Transfer-Encoding: gzip, chunked"), 400),
    "chunked twice": (request(b"Host: a", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
    "chunked, and something": (request(b"Host: a", b"Transfer-Encoding: chunked, identity"), 400),
    "chunked, odd": (request(b"Host: a", b"Transfer-Encoding: xchunked"), 400),
    "chunked in HTTP/1.0": (request(b"Host: a", b"Transfer-Encoding: chunked", version=b"1.0"), 400),
    "a space before a colon": (request(b"Host: a", b"Content-Length : 1"), 400),
    "no host": (request(), 400),
    "two hosts": (request(b"Host: a", b"Host: a"), 400),
    "two origins": (request(b"Host: a", b"Origin: a", b"origin: b"), 400),
    "two tokens": (request(b"Host: a", b"Authorization: a", b"Authorization: b"), 400),
    "two sessions": (request(b"Host: a", b"Mcp-Session-Id: a", b"MCP-Session-Id: a"), 400),
    "a folded line": (request(b"Host: a", b"X: a", b" b"), 400),
    "a folded first line": (request(b" Host: a"), 400),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "a bare line feed in a header": (request(b"Host: a\nX: b"), 400),
    "a bare carriage return": (request(b"Host: a", b"X: a\rb"), 400),
    "a NUL in a header": (request(b"Host: a", b"X: a\0b"), 400),
    "no name": (request(b"Host: a", b": b"), 400),
    "no colon": (request(b"Host: a", b"foo"), 400),
    "a NUL in the path": (request(b"Host: a", target=b"/a%00"), 400),
    "a line break in the path": (request(b"Host: a", target=b"/a%0d%0ab"), 400),
    "no UTF-8 in the path": (request(b"Host: a", target=b"/%ff"), 400),
    "an escape that is none": (request(b"Host: a", target=b"/%zz"), 400),
    "an escape that is cut off": (request(b"Host: a", target=b"/%4"), 400),
    "raw bytes in the path": (request(b"Host: a", target=b"/\xc3\xa9"), 400),
    "a fragment": (request(b"Host: a", target=b"/a#b"), 400),
    "asterisk-form": (request(b"Host: a", target=b"*", method=b"OPTIONS"), 400),
    "authority-form": (request(b"Host: a", target=b"a:1", method=b"CONNECT"), 400),
    "a user in the target": (request(b"Host: a", target=b"http://u@a/"), 400),
    "another scheme": (request(b"Host: a", target=b"file:///etc"), 400),
    "garbage": (b"hello\r\n\r\n", 400),
    "a line alone": (b"\x00\x01\x02\x03", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/3": (request(b"Host: a", version=b"3.0"), 400),
    "HTTP/2 without its preface": (request(b"Host: a", version=b"2.0"), 505),
    "a strange expectation": (request(b"Host: a", b"Expect: wonders"), 417),
    "a long head": (request(b"Host: a", b"X: " + b"x" * MAX_HEAD), 431),
    "many headers": (request(b"Host: a", *[b"a:"] * MAX_HEADERS), 431),
    "a long target": (request(b"Host: a", target=b"/" + b"x" * MAX_HEAD), 431),
}


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, step: int) -> None:
    data, status = REFUSED[case]
    assert refused(data, step)[0] == status


def test_what_is_no_http_is_named() -> None:
    assert "without TLS" in refused(REFUSED["TLS"][0], 1)[1]
    assert "HTTP/2" in refused(REFUSED["HTTP/2"][0], 1)[1]


def test_as_many_headers_as_may_be() -> None:
    head, _ = read(request(b"Host: a", *[b"a:"] * (MAX_HEADERS - 1)))
    assert head.request.headers["a"] == ", " * (MAX_HEADERS - 2)


def test_an_endless_head_is_refused_before_it_ends() -> None:
    reader = HeadReader(MAX_HEAD)
    reader.feed(b"GET / HTTP/1.1\r\nX: ")
    with pytest.raises(BadRequest) as caught:
        reader.feed(b"x" * MAX_HEAD)
    assert caught.value.status == 431


def test_a_head_may_be_as_long_as_the_limit() -> None:
    data = request(b"Host: a", b"X: ")
    data = request(b"Host: a", b"X: " + b"x" * (MAX_HEAD - len(data)))
    assert len(data) == MAX_HEAD
    assert read(data + b"more")[1] == b"more"


def test_a_head_written_again_reads_the_same_without_its_body() -> None:
    head, _ = read(
        request(
            b"Host: a", b"Upgrade: websocket", b"Expect: 100-continue", b"Content-Length: 3", target=b"http://b/x%20?y"
        )
    )
    again, _ = read(head.rewritten())
    assert (again.request.path, again.request.query, again.length) == ("/x ", "y", 0)
    assert again.request.headers == {"host": "b", "upgrade": "websocket"}


# -- chunked bodies


def chunks(data: bytes, step: int = 0, max_body: int = 100) -> tuple[bytes, bytes]:
    """The body, and what came behind it."""
    body = ChunkedBody(max_body)
    pieces = [data[at : at + step] for at in range(0, len(data), step)] if step else [data]
    for number, piece in enumerate(pieces, 1):
        behind = body.feed(piece)
        if behind is not None:
            return bytes(body.data), behind + b"".join(pieces[number:])
    raise AssertionError("the body is not complete")


@pytest.mark.parametrize("step", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"0\r\n\r\n", b""),
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (b"00A\r\n0123456789\r\n1;x=y\r\n\r\r\n0 ;z\r\nTrailer: x\r\n\r\n", b"0123456789\r"),
    ],
)
def test_a_body_in_chunks(data: bytes, body: bytes, step: int) -> None:
    assert chunks(data + b"GET", step) == (body, b"GET")


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n", 400),
        (b"x\r\n", 400),
        (b"-1\r\n", 400),
        (b"0x1\r\na\r\n", 400),
        (b"+1\r\na\r\n", 400),
        (b" 1\r\na\r\n", 400),
        (b"1\na\n0\n\n\r\n", 400),
        (b"1;a\nb\r\na\r\n", 400),
        (b"1\r\nab\r\n", 400),
        (b"1\r\na0\r\n\r\n", 400),
        (b"1;" + b"x" * MAX_CHUNK_LINE + b"\r\n", 400),
        (b"1" * (MAX_CHUNK_LINE + 2), 400),
        (b"f" * 15 + b"\r\n", 413),
        (b"f" * 16 + b"\r\n", 400),
        (b"65\r\n", 413),
        (b"64\r\n" + b"x" * 100 + b"\r\n1\r\n", 413),
        (b"0\r\nno trailer\r\n\r\n", 400),
        (b"0\r\nX: a\nY: b\r\n\r\n", 400),
        (b"0\r\n" + b"X: " + b"x" * MAX_TRAILERS + b"\r\n\r\n", 400),
        (b"0\r\n" + b"X: x\r\n" * MAX_TRAILERS + b"\r\n", 400),
    ],
)
def test_a_body_in_chunks_that_is_refused(data: bytes, status: int, step: int) -> None:
    with pytest.raises(BadRequest) as caught:
        chunks(data, step)
    assert caught.value.status == status
