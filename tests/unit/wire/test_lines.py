"""Newline framing: what a line is, however the stream is cut, and what it costs."""

from __future__ import annotations

import tracemalloc
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpx.wire import lines
from mcpx.wire.lines import KEPT, LineSplitter, Oversize, one_line
from tests.unit.wire.cuts import STEADY, at_positions, byte_by_byte, in_chunks, split

LIMIT = 64
BOM = b"\xef\xbb\xbf"
SEPARATOR = "\u2028".encode()  # ends a line for str.splitlines, and for some readers
NEXT_LINE = "\u0085".encode()
MESSAGE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

# name -> (stream, its messages)
STREAMS: dict[str, tuple[bytes, list[bytes]]] = {
    "one": (MESSAGE + b"\n", [MESSAGE]),
    "two": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "CRLF": (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
    "only one CR is the line ending's": (b'{"a":1}\r\r\n', [b'{"a":1}\r']),
    "a bare CR ends nothing": (b'{"a":\r1}\n', [b'{"a":\r1}']),
    "U+2028 ends nothing": (b'{"a":"' + SEPARATOR + b'"}\n', [b'{"a":"' + SEPARATOR + b'"}']),
    "U+0085 ends nothing": (b'{"a":"' + NEXT_LINE + b'"}\n', [b'{"a":"' + NEXT_LINE + b'"}']),
    "form feed and vertical tab end nothing": (b'"\x0b\x0c"\n', [b'"\x0b\x0c"']),
    "a BOM at the start": (BOM + b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "a BOM at every line": (BOM + b'{"a":1}\r\n' + BOM + b'{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
    "one BOM only": (BOM + BOM + b"{}\n", [BOM + b"{}"]),
    "a BOM inside belongs to the text": (b'{"a":"' + BOM + b'"}\n', [b'{"a":"' + BOM + b'"}']),
    "the start of a BOM is none": (BOM[:2] + b"\n", [BOM[:2]]),
    "empty lines": (b"\n\n\r\n{}\n\n", [b"{}"]),
    "white space only": (b" \t \n{}\n \r\n" + BOM + b"\n" + BOM + b" \r\n", [b"{}"]),
    "white space around is kept": (b"  {} \n", [b"  {} "]),
    "noise": (b'hello\n[1]\n"x"\n\x1b[31mred\x1b[0m\n\xff\xfe\n{}\n', [
        b"hello", b"[1]", b'"x"', b"\x1b[31mred\x1b[0m", b"\xff\xfe", b"{}",
    ]),
    "noise without a newline shares the line": (b'Loading... {"a":1}\n', [b'Loading... {"a":1}']),
    "invalid UTF-8 costs its own line only": (b'{"a":"\xff"}\n{"b":2}\n', [b'{"a":"\xff"}', b'{"b":2}']),
    "no newline at the end": (b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
    "no newline but a CR at the end": (b'{"a":1}\r', [b'{"a":1}']),
    "white space at the end": (b"{}\n  ", [b"{}"]),
    "as long as the limit": (b"x" * LIMIT + b"\n", [b"x" * LIMIT]),
    "as long as the limit, with CR and BOM": (BOM + b"x" * LIMIT + b"\r\n", [b"x" * LIMIT]),
    "nothing": (b"", []),
}  # fmt: skip


@pytest.mark.parametrize(("stream", "messages"), STREAMS.values(), ids=STREAMS.keys())
class TestStream:
    def test_whole(self, stream: bytes, messages: list[bytes]) -> None:
        assert split(LineSplitter(LIMIT), [stream]) == messages

    def test_byte_by_byte(self, stream: bytes, messages: list[bytes]) -> None:
        assert split(LineSplitter(LIMIT), byte_by_byte(stream)) == messages

    def test_with_a_rest_behind_it(self, stream: bytes, messages: list[bytes]) -> None:
        terminated = stream if stream.endswith(b"\n") else stream + b"\n"
        splitter = LineSplitter(LIMIT)
        assert splitter.feed(terminated + b'{"rest"') == messages
        assert splitter.feed(b":1}\n") == [b'{"rest":1}']
        assert splitter.finish() == []

    def test_with_another_before_it(self, stream: bytes, messages: list[bytes]) -> None:
        splitter = LineSplitter(LIMIT)
        assert splitter.feed(b'{"be') == []
        assert split(splitter, [b'fore":1}\n' + stream]) == [b'{"before":1}', *messages]

    def test_in_a_bytearray(self, stream: bytes, messages: list[bytes]) -> None:
        found = split(LineSplitter(LIMIT), [bytearray(stream)])
        assert found == messages
        assert all(type(line) is bytes for line in found)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (b'{"a":1}', b'{"a":1}'),
        (b'{\r\n  "a": 1.0,\n  "b": "\\n\\r"\n}\n', b'{  "a": 1.0,  "b": "\\n\\r"}'),
        (b'{"a":1}\r', b'{"a":1}'),
        (b'{"a":1}\n', b'{"a":1}'),
    ],
)
def test_a_message_as_one_line_holds_no_line_break(written: bytes, line: bytes) -> None:
    assert one_line(written) == line


def test_a_line_comes_out_as_soon_as_its_newline_has_come() -> None:
    splitter = LineSplitter(LIMIT)
    assert splitter.feed(b'{"a":1}') == []
    assert splitter.feed(b"\r") == []
    assert splitter.feed(b"\n") == [b'{"a":1}']


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("chunk", [1 << 16, 4099])
def test_sizes_around_the_capacity_of_a_pipe(size: int, ending: bytes, chunk: int) -> None:
    line = b"x" * size
    splitter = LineSplitter(1 << 20)
    assert split(splitter, in_chunks(b"{}\n" + line + ending, chunk)) == [b"{}", line]


class TestOversize:
    @pytest.mark.parametrize("cut", [lambda stream: [stream], byte_by_byte, lambda stream: in_chunks(stream, 7)])
    @pytest.mark.parametrize("before", [b"", BOM])
    @pytest.mark.parametrize("after", [b"\n", b"\r\n", b""])
    @pytest.mark.parametrize("over", [1, 2, 3, 4, 5, 6, 1000])
    def test_over_the_limit(self, cut: Any, before: bytes, after: bytes, over: int) -> None:
        line = b"x" * (LIMIT + over)
        assert split(LineSplitter(LIMIT), cut(before + line + after)) == [Oversize(len(line), line, line)]

    @pytest.mark.parametrize("cut", [lambda stream: [stream], lambda stream: in_chunks(stream, 777)])
    def test_the_lines_around_it_are_not_affected(self, cut: Any) -> None:
        line = bytes(range(33, 127)) * 1000
        stream = b"{}\n" + line + b"\r\n" + b'{"a":1}\n' + line + b"\n" + b'{"b":2}\n'
        oversize = Oversize(len(line), line[:KEPT], line[-KEPT:])
        expected = [b"{}", oversize, b'{"a":1}', oversize, b'{"b":2}']
        assert split(LineSplitter(LIMIT), cut(stream)) == expected

    def test_it_comes_out_only_at_its_end(self) -> None:
        splitter = LineSplitter(LIMIT)
        for _ in range(100):
            assert splitter.feed(b"x" * LIMIT) == []
        assert splitter.feed(b"\n") == [Oversize(100 * LIMIT, b"x" * KEPT, b"x" * KEPT)]


def oracle(stream: bytes, limit: int) -> list[bytes | Oversize]:
    """What a splitter does, said in the plainest way, for a stream that is there as a whole."""
    found: list[bytes | Oversize] = []
    for piece in stream.split(b"\n"):
        line = piece.removesuffix(b"\r").removeprefix(BOM)
        if len(line) > limit:
            found.append(Oversize(len(line), line[:KEPT], line[-KEPT:]))
        elif line.strip():
            found.append(line)
    return found


SCRAPS = st.sampled_from(
    [b"\n", b"\r", b"\r\n", BOM, BOM[:1], BOM[1:], b" ", b"{}", b"x", SEPARATOR, b"y" * KEPT, b"abcd" * 1500]
)


@STEADY
@given(st.lists(SCRAPS, max_size=20), st.sampled_from([0, 1, 2, 7, KEPT, 6000, 1 << 20]), st.data())
def test_every_cut_gives_the_same_lines(scraps: list[bytes], limit: int, data: st.DataObject) -> None:
    stream = b"".join(scraps)
    positions = data.draw(st.lists(st.integers(0, len(stream)), max_size=30))
    assert split(LineSplitter(limit), at_positions(stream, positions)) == oracle(stream, limit)


@STEADY
@given(st.binary(max_size=200), st.integers(0, 20))
@example(b"\r\n" * 3 + BOM, 0)
def test_any_bytes_one_at_a_time(stream: bytes, limit: int) -> None:
    assert split(LineSplitter(limit), byte_by_byte(stream)) == oracle(stream, limit)


class Meter:
    """Counts the bytes that are searched or copied, whatever the clock says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = 0
        meter = self

        class Counted(bytes):
            """Bytes that report each pass over them; what is cut out of them reports as well."""

            def __getitem__(self, key: Any) -> Any:
                found = bytes.__getitem__(self, key)
                return meter.passed(Counted(found)) if isinstance(found, bytes) else found

            def split(self, *args: Any) -> Any:
                meter.passed(self)
                return [Counted(piece) for piece in bytes.split(self, *args)]

            def find(self, *args: Any) -> int:
                meter.passed(self)
                return bytes.find(self, *args)

            def __contains__(self, key: Any) -> bool:
                meter.passed(self)
                return bytes.__contains__(self, key)

            def __add__(self, other: Any) -> Any:
                return meter.passed(Counted(bytes.__add__(self, other)))

            def __radd__(self, other: bytes | bytearray) -> Any:
                if isinstance(other, bytearray):  # grows in place
                    other.extend(meter.passed(self))
                    return other
                return meter.passed(Counted(bytes.__add__(other, self)))

        class CountedIO(BytesIO):
            def write(self, data: Any) -> int:
                meter.passed(data)
                return super().write(data)

            def getvalue(self) -> bytes:
                return meter.passed(super().getvalue())

            def read(self, *args: Any) -> bytes:
                return meter.passed(super().read(*args))

        self.counted = Counted
        monkeypatch.setattr(lines, "BytesIO", CountedIO)

    def passed(self, data: bytes) -> bytes:
        self.work += len(data)
        return data

    def measure(self, splitter: Any, stream: bytes, chunk: int) -> float:
        """Bytes passed over for each byte of the stream."""
        self.work = 0
        for piece in in_chunks(stream, chunk):
            splitter.feed(self.counted(piece))
        return self.work / len(stream)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    return Meter(monkeypatch)


class Quadratic:
    """The fault that the meter must see: what is unfinished is copied and searched again with every chunk."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, data: bytes) -> list[bytes]:
        self.held += data
        *lines, self.held = self.held.split(b"\n")
        return lines


PASSES = 5  # over each byte, at most: split, look for a CR, hold, hand out, and the ends of what is dropped


class TestCost:
    @pytest.mark.parametrize("chunk", [1, 2, 1000])
    @pytest.mark.parametrize("size", [2_000, 20_000])
    def test_one_long_line(self, meter: Meter, chunk: int, size: int) -> None:
        assert meter.measure(LineSplitter(1 << 20), b"x" * size + b"\n", chunk) <= PASSES

    @pytest.mark.parametrize("chunk", [1, 2, 1000])
    @pytest.mark.parametrize("size", [2_000, 20_000])
    def test_one_line_over_the_limit(self, meter: Meter, chunk: int, size: int) -> None:
        assert meter.measure(LineSplitter(100), b"x" * size + b"\n", chunk) <= PASSES

    @pytest.mark.parametrize("chunk", [1, 7, 65_536])
    def test_many_short_lines(self, meter: Meter, chunk: int) -> None:
        assert meter.measure(LineSplitter(1 << 20), (MESSAGE + b"\r\n") * 1000, chunk) <= PASSES

    def test_the_meter_sees_a_quadratic_splitter(self, meter: Meter) -> None:
        assert meter.measure(Quadratic(), b"x" * 2_000 + b"\n", 1) > 100 * PASSES


class TestMemory:
    """Peaks of the allocator while a line passes, for a line of 8 MiB that comes in chunks of 64 KiB."""

    SIZE = 8 << 20
    CHUNK = b"x" * (64 << 10)

    def peak(self, splitter: LineSplitter, ending: bytes) -> int:
        tracemalloc.start()
        try:
            for _ in range(self.SIZE // len(self.CHUNK)):
                splitter.feed(self.CHUNK)
            (line,) = splitter.feed(ending)
            assert (line.size if isinstance(line, Oversize) else len(line)) == self.SIZE
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
    def test_a_long_line_takes_about_its_own_size(self, ending: bytes) -> None:
        assert self.peak(LineSplitter(self.SIZE), ending) < 1.25 * self.SIZE

    def test_an_oversize_line_takes_no_more_than_the_limit_and_its_ends(self) -> None:
        limit = 256 << 10
        assert self.peak(LineSplitter(limit), b"\n") < 2 * limit
