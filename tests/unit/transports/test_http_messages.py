"""Answers of HTTP servers, however they are cut: where they begin and end, and what of the connection is left."""

from __future__ import annotations

from itertools import combinations

import pytest

from mcpx.transports.http_messages import MAX_HEAD, AnswerReader, CutShort, NoHttp

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"Content-Type: application/json\r\n"

# name: the method, what comes, the status, the body, whether the connection can be used again
WHOLE: dict[str, tuple[str, bytes, int, bytes, bool]] = {
    "length": ("POST", JSON + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True),
    "no body": ("POST", OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
    "chunks": (
        "POST",
        JSON + b'Transfer-Encoding: chunked\r\n\r\n2;a=b;c="d"\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n',
        200,
        b"hello",
        True,
    ),
    "close": ("POST", OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "version 1.0": ("POST", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False),
    "1.0, kept": (
        "POST",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        200,
        b"ok",
        True,
    ),
    "nothing": ("POST", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "accepted": ("POST", b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, b"", True),
    "head alone": ("HEAD", OK + b"Content-Length: 500\r\n\r\n", 200, b"", True),
    "announced": (
        "POST",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + OK
        + b"Content-Length: 2\r\n\r\nok",
        200,
        b"ok",
        True,
    ),
    "error": ("POST", b"HTTP/1.1 503 \r\nContent-Length: 4\r\n\r\nbusy", 503, b"busy", True),
    "lines without CR in the body": ("POST", OK + b"Content-Length: 3\r\n\r\n\n\r\n", 200, b"\n\r\n", True),
}

REFUSED: dict[str, bytes] = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no number": OK + b"Content-Length: five\r\n\r\nhello",
    "a negative one": OK + b"Content-Length: -5\r\n\r\n",
    "two numbers": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "one number twice": OK + b"Content-Length: 5, 5\r\n\r\nhello",
    "a length and chunks": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "another coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a size that is none": OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a head without end": OK + b"X: " + b"y" * MAX_HEAD,
    "headers without end": OK + b"X: y\r\n" * 2000 + b"\r\n",
    "a null in a header": OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
}


def read(method: str, pieces: list[bytes]) -> tuple[AnswerReader, bytes]:
    reader = AnswerReader(method)
    return reader, b"".join(reader.feed(piece) for piece in pieces)


def cut(data: bytes, *places: int) -> list[bytes]:
    return [data[start:stop] for start, stop in zip((0, *places), (*places, len(data)), strict=True)]


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_is_the_same_however_it_is_cut(name: str) -> None:
    method, data, status, body, reusable = WHOLE[name]
    cuts = [cut(data), [data[at : at + 1] for at in range(len(data))]]
    cuts += [cut(data, at) for at in range(1, len(data))]
    cuts += [cut(data, *places) for places in combinations(range(1, len(data)), 2)]
    for pieces in cuts:
        reader, found = read(method, pieces)
        assert reader.head is not None
        assert (reader.head.status, found, reader.ended, reader.reusable) == (status, body, True, reusable)


@pytest.mark.parametrize("name", WHOLE)
def test_a_connection_that_ends_early_cuts_the_answer_short(name: str) -> None:
    method, data, *_ = WHOLE[name]
    for at in range(len(data)):
        reader, _ = read(method, [data[:at]])
        assert not reader.ended
        with pytest.raises(CutShort) as caught:
            reader.feed_end()
        assert caught.value.begun is (reader.head is not None)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_answer_is_refused_however_it_is_cut(name: str) -> None:
    data = REFUSED[name]
    with pytest.raises(NoHttp):
        read("POST", [data])
    with pytest.raises(NoHttp):
        read("POST", [data[at : at + 1] for at in range(len(data))])


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader, found = read("POST", [OK + b"\r\nhel", b"lo"])
    assert (found, reader.ended, reader.missing) == (b"hello", False, None)
    reader.feed_end()
    assert (reader.ended, reader.reusable) == (True, False)


@pytest.mark.parametrize("name", [name for name, case in WHOLE.items() if case[4]])
def test_what_comes_behind_an_answer_is_nobodys_and_ends_the_connections_use(name: str) -> None:
    method, data, _, body, _ = WHOLE[name]
    reader, found = read(method, [data + b"HTTP/1.1 200 OK\r\n\r\n"])
    assert (found, reader.ended, reader.reusable) == (body, True, False)
    reader, found = read(method, [data, b"x"])
    assert (found, reader.ended, reader.reusable) == (body, True, False)


def test_a_header_that_comes_twice_says_both() -> None:
    reader, _ = read("GET", [OK + b"X-A: one \r\nx-a:\ttwo\r\nContent-Length: 0\r\n\r\n"])
    assert reader.head is not None
    assert reader.head.headers["x-a"] == "one, two"


def test_how_much_is_missing_is_known_where_the_head_says_it() -> None:
    reader, _ = read("GET", [OK + b"Content-Length: 10\r\n\r\nabc"])
    assert reader.missing == 7
