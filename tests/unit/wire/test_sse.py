"""Server-sent events: what an event is, however the stream is cut, and what it costs. (HTML Living Standard, 9.2.)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.errors import RemoteProtocolError
from mcpx.wire import sse
from mcpx.wire.sse import COMMENT, Event, SseDecoder, encode_event
from tests.unit.wire.cuts import STEADY, at_positions, byte_by_byte, in_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LIMIT = 64
BOM = b"\xef\xbb\xbf"
SEPARATOR = "\u2028".encode()  # ends a line for str.splitlines, and for nobody here
NEXT_LINE = "\u0085".encode()

# name -> (stream, its events)
STREAMS: dict[str, tuple[bytes, list[Event]]] = {
    "one": (b"data: x\n\n", [Event(b"x")]),
    "two": (b"data: x\n\ndata: y\n\n", [Event(b"x"), Event(b"y")]),
    "CR": (b"data: x\r\rdata: y\r\r", [Event(b"x"), Event(b"y")]),
    "CRLF": (b"data: x\r\n\r\ndata: y\r\n\r\n", [Event(b"x"), Event(b"y")]),
    "CR, LF and CRLF mixed": (b"data: x\r\ndata: y\rdata: z\n\r\nid: 1\r\rdata\n\n", [
        Event(b"x\ny\nz"), Event(b"", id="1"), Event(b"", id="1"),
    ]),
    "LF CR are two endings": (b"data: x\n\rdata: y\n\n", [Event(b"x"), Event(b"y")]),
    "a BOM at the start": (BOM + b"data: x\n\n", [Event(b"x")]),
    "one BOM only": (BOM + BOM + b"data: x\n\ndata: y\n\n", [Event(b"y")]),
    "a BOM later belongs to the name": (b"data: x\n\n" + BOM + b"data: y\n\n", [Event(b"x")]),
    "half a BOM is none": (BOM[:2] + b"data: x\n\ndata: y\n\n", [Event(b"y")]),
    "several lines of data": (b"data: a\ndata: b\ndata:\ndata:  c\n\n", [Event(b"a\nb\n\n c")]),
    "one space is the separator's": (b"data:x\ndata: x\ndata:  x\ndata:\tx\n\n", [Event(b"x\nx\n x\n\tx")]),
    "a colon in the data": (b"data: a: b\n\n", [Event(b"a: b")]),
    "data that is empty": (b"data:\n\ndata\n\n", [Event(b""), Event(b"")]),
    "a type": (b"event: endpoint\ndata: /m\n\ndata: x\n\n", [Event(b"/m", "endpoint"), Event(b"x")]),
    "a type without data is of no event": (b"event: a\n\ndata: x\n\n", [Event(b"x")]),
    "the last of two types": (b"event: a\nevent: b\ndata: x\n\n", [Event(b"x", "b")]),
    "a type that is empty": (b"event: a\nevent:\ndata: x\n\n", [Event(b"x")]),
    "an id stays": (b"id: 1\ndata: x\n\ndata: y\n\n", [Event(b"x", id="1"), Event(b"y", id="1")]),
    "an id without data": (b"id: 7\n\ndata: x\n\n", [Event(b"", id="7"), Event(b"x", id="7")]),
    "the priming event of 2025-11-25": (b"id: 7\nretry: 500\ndata: \n\n", [Event(b"", id="7", retry=500)]),
    "an empty id takes it back": (b"id: 1\ndata: x\n\nid\ndata: y\n\n", [Event(b"x", id="1"), Event(b"y")]),
    "an id with NUL is none": (b"id: 1\nid: a\0b\ndata: x\n\n", [Event(b"x", id="1")]),
    "a delay stays": (b"retry: 10\n\ndata: x\n\n", [Event(b"", retry=10), Event(b"x", retry=10)]),
    "delays that are none": (b"retry: -1\nretry: 1.5\nretry:\nretry: 1e3\nretry: \xc2\xb2\nretry:  5\ndata: x\n\n", [
        Event(b"x"),
    ]),
    "a delay beyond all measure": (b"retry: 1234567890\ndata: x\n\n", [Event(b"x")]),
    "comments": (b": hello\n:\n\n:data: no\n\ndata: x\n:between\ndata: y\n\n" + COMMENT, [Event(b"x\ny")]),
    "unknown fields": (b"foo: 1\nDATA: no\n data: no\ndata : no\ndata: x\n\n", [Event(b"x")]),
    "U+2028 and U+0085 end nothing": (b"data: a" + SEPARATOR + b"b" + NEXT_LINE + b"c\n\n", [
        Event(b"a" + SEPARATOR + b"b" + NEXT_LINE + b"c"),
    ]),
    "form feed and vertical tab end nothing": (b"data: a\x0bb\x0cc\n\n", [Event(b"a\x0bb\x0cc")]),
    "data passes as bytes": (b"data: \xff\0\xfe\n\n", [Event(b"\xff\0\xfe")]),
    "an id that is no UTF-8": (b"id: \xff\ndata: x\n\n", [Event(b"x", id="\ufffd")]),
    "empty lines": (b"\n\n\r\n\r\rdata: x\n\n\n\n", [Event(b"x")]),
    "an event whose end never came": (b"data: x\n\ndata: y\n", [Event(b"x")]),
    "as long as the limit": (b"data: " + b"x" * LIMIT + b"\n\n", [Event(b"x" * LIMIT)]),
    "many events, each within the limit": (b"data: 0123456789\n\n" * 20, [Event(b"0123456789")] * 20),
    "comments without end": (b": 0123456789\n" * 20 + b"data: x\n\n", [Event(b"x")]),
    "nothing": (b"", []),
}  # fmt: skip


def events(chunks: Iterable[bytes], limit: int = LIMIT + 8) -> list[Event]:
    """All that a stream holds; ``limit`` leaves room for the name of a field before the line is complete."""
    decoder = SseDecoder(limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def whole(stream: bytes) -> list[bytes]:
    return [stream]


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS.keys())
class TestStream:
    def test_whole(self, stream: bytes, expected: list[Event]) -> None:
        assert events([stream]) == expected

    def test_byte_by_byte(self, stream: bytes, expected: list[Event]) -> None:
        assert events(byte_by_byte(stream)) == expected

    def test_with_empty_chunks_between(self, stream: bytes, expected: list[Event]) -> None:
        assert events(piece for chunk in byte_by_byte(stream) for piece in (chunk, b"")) == expected

    @pytest.mark.parametrize("size", [2, 3, 5])
    def test_in_chunks(self, stream: bytes, expected: list[Event], size: int) -> None:
        assert events(in_chunks(stream, size)) == expected

    def test_in_two(self, stream: bytes, expected: list[Event]) -> None:
        for at in range(len(stream)):
            assert events([stream[:at], stream[at:]]) == expected


LINES = st.lists(
    st.sampled_from([b"data", b"data:", b"data: a", b"id: 1", b"id", b"event: e", b"retry: 5", b":", b"", b"\xc2\x85"])
)


@STEADY
@given(
    lines=LINES, endings=st.lists(st.sampled_from([b"\r", b"\n", b"\r\n"]), min_size=1), cuts=st.sets(st.integers(0))
)
def test_neither_cuts_nor_line_endings_make_a_difference(
    lines: list[bytes], endings: list[bytes], cuts: set[int]
) -> None:
    """CR before an empty line that ends with LF would be one ending, so a stream keeps to one kind where lines are
    empty; ``STREAMS`` has the mixed ones."""
    plain = b"".join(line + b"\n" for line in lines)
    ending = endings[0]
    mixed = b"".join(
        line + (ending if b"" in lines else endings[at % len(endings)]) for at, line in enumerate(lines)
    )  # fmt: skip
    assert events(at_positions(mixed, cuts)) == events([plain])


class TestWhereToResume:
    def test_behind_the_last_complete_event(self) -> None:
        """What came of the one after it is lost with the connection, so it is to be sent again."""
        decoder = SseDecoder(LIMIT)
        decoder.feed(b"id: 1\ndata: x\n\nid: 2\ndata: y\n")
        assert decoder.last_id == "1"
        decoder.feed(b"\n")
        assert decoder.last_id == "2"

    def test_nowhere_at_first_and_once_it_is_taken_back(self) -> None:
        decoder = SseDecoder(LIMIT)
        assert decoder.last_id is None
        decoder.feed(b"id: 1\n\nid:\n\n")
        assert decoder.last_id is None

    def test_a_delay_counts_at_once(self) -> None:
        decoder = SseDecoder(LIMIT)
        decoder.feed(b"retry: 50\n")
        assert decoder.retry == 50


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * (LIMIT + 1) + b"\n",  # in one chunk, and complete
        b"data: " + b"x" * (LIMIT + 1),  # a line that does not end
        b": " + b"x" * (LIMIT + 1),  # a comment neither
        b"data: 0123456789\n" * 20,  # many lines of one event
        b"data\n" * (LIMIT + 2),  # empty ones count as the newlines that they are
    ],
)
@pytest.mark.parametrize("cut", [byte_by_byte, whole])
def test_an_event_that_is_too_long(stream: bytes, cut: Callable[[bytes], list[bytes]]) -> None:
    with pytest.raises(RemoteProtocolError, match=f"more than {LIMIT} bytes"):
        events(cut(stream), LIMIT)


class Counting(bytearray):
    """Counts the bytes that are searched and the bytes that deleting moves."""

    work = 0

    def find(self, *args: Any) -> int:
        found = super().find(*args)
        Counting.work += (len(self) if found < 0 else found + 1) - args[1]
        return found

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        Counting.work += len(self)


@pytest.mark.parametrize(
    "stream",
    [b"data: " + b"x" * 5000 + b"\n\n", b"\r" * 5000, b"\n" * 5000, b"\r\n" * 2500, b"data\r" * 1000 + b"\n\n"],
    ids=["one line", "CR", "LF", "CRLF", "short lines"],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_work_is_linear(monkeypatch: pytest.MonkeyPatch, stream: bytes, size: int) -> None:
    """However the stream is cut, no byte is searched more than twice for each kind of line ending."""
    monkeypatch.setattr(sse, "bytearray", Counting, raising=False)
    monkeypatch.setattr(Counting, "work", 0)
    events(in_chunks(stream, size), 10_000)
    assert 0 < Counting.work <= 4 * len(stream)


class TestEncode:
    @pytest.mark.parametrize(
        ("event", "expected"),
        [
            (encode_event(b"{}"), b"data: {}\n\n"),
            (encode_event(b""), b"data: \n\n"),
            (encode_event(b"/m?s=1", event="endpoint"), b"event: endpoint\ndata: /m?s=1\n\n"),
            (encode_event(b"", id="a-1", retry=0), b"id: a-1\nretry: 0\ndata: \n\n"),
            (encode_event(b"a\nb\r\nc\rd\n"), b"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
            (encode_event(b"a" + SEPARATOR), b"data: a" + SEPARATOR + b"\n\n"),
        ],
    )
    def test_an_event(self, event: bytes, expected: bytes) -> None:
        assert event == expected

    @pytest.mark.parametrize("bad", ["a\nb", "a\rdata: x", "\0"])
    @pytest.mark.parametrize("field", ["event", "id"])
    def test_what_would_be_other_fields(self, field: str, bad: str) -> None:
        with pytest.raises(ValueError, match="neither line breaks nor NUL"):
            encode_event(b"x", **{field: bad})  # pyright: ignore[reportArgumentType]

    def test_a_comment_says_nothing(self) -> None:
        assert events([COMMENT * 3]) == []


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))


@STEADY
@given(
    data=st.binary(),
    event=st.none() | LINE.filter(bool),
    id=st.none() | LINE.filter(bool),
    retry=st.none() | st.integers(0, 10**9 - 1),
    cuts=st.sets(st.integers(0)),
)
def test_round_trip(data: bytes, event: str | None, id: str | None, retry: int | None, cuts: set[int]) -> None:
    stream = COMMENT + encode_event(data, event=event, id=id, retry=retry) + COMMENT
    arrived = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert events(at_positions(stream, cuts), 10_000) == [Event(arrived, event or "message", id, retry)]
