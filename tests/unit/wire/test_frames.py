"""JSON-RPC frames: what is decoded, what is refused and how, and what survives untouched."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcpx.errors import RemoteProtocolError
from mcpx.wire import frames
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, decode_frame, id_key
from tests.unit.wire.cuts import STEADY


def raw(value: Any) -> bytes | None:
    return None if value is UNSET else bytes(value)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "request"),
        (b'{"jsonrpc":"2.0","id":"","method":"ping","params":{}}', "request"),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', "notification"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', "result"),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', "result"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}', "error"),
        (b'{"jsonrpc":"2.0","error":{"code":1,"message":""}}', "error"),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', "error"),
        (b' {"unknown":[1],"result":{},"id":1,"jsonrpc":"2.0"} \r', "result"),
        # as JSON-RPC 1.0 had it
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', "result"),
        (b'{"jsonrpc":"2.0","id":1,"result": null ,"error":{"code":1,"message":""}}', "error"),
    ],
)
def test_the_kind_follows_from_the_members(line: bytes, kind: str) -> None:
    assert frames.kind(decode_frame(line)) == kind


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}', b"1"),
        (b'{"jsonrpc":"2.0","id":"a","result":{},"error":{"code":1,"message":""}}', b'"a"'),
        (b'{"jsonrpc":"2.0","id":1,"result":null,"error":null}', b"1"),
        (b'{"jsonrpc":"2.0","id":1}', b"1"),
        (b'{"jsonrpc":"2.0","id":null}', None),
        (b'{"jsonrpc":"2.0","result":{}}', None),
        (b'{"jsonrpc":"2.0"}', None),
    ],
)
def test_members_that_make_no_kind(line: bytes, id: bytes | None) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        frames.kind(decode_frame(line))
    assert (caught.value.code, caught.value.id and bytes(caught.value.id)) == (INVALID_REQUEST, id)


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"hello", PARSE_ERROR, None),
        (b"", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m"', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m"} x', PARSE_ERROR, None),
        (b'Loading... {"jsonrpc":"2.0","id":1,"result":{}}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":01}}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":NaN}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":"a\tb"}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":"\xff"}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":"\xed\xa0\x80"}', PARSE_ERROR, None),  # a surrogate in UTF-8
        (b'{"jsonrpc":"2.0","id":1,"result":"\xe2\x82', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000, PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}", PARSE_ERROR, None),
        (b"[1]", INVALID_REQUEST, None),
        (b'"x"', INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"id":7,"method":"m"}', INVALID_REQUEST, b"7"),
        (b'{"jsonrpc":"1.0","id":"7","method":"m"}', INVALID_REQUEST, b'"7"'),
        (b'{"jsonrpc":2.0,"id":7,"method":"m"}', INVALID_REQUEST, b"7"),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', INVALID_REQUEST, b"7"),
        (b'{"jsonrpc":"2.0","id":7.5,"method":5}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":null,"method":5}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","method":null}', INVALID_REQUEST, None),
    ],
)
def test_what_is_no_frame(line: bytes, code: int, id: bytes | None) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_frame(line)
    assert (caught.value.code, caught.value.id and bytes(caught.value.id)) == (code, id)


def test_the_error_says_where_the_bytes_are_no_utf8() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":"' + "é".encode() * 100_000
    with pytest.raises(RemoteProtocolError, match=f"byte {len(line)}$"):
        decode_frame(line + b'\xff"}')


class TestWhatSurvives:
    """Payloads and ids stay the bytes that the peer wrote."""

    PAYLOADS = (
        b'{"b":1.0,"a":12345678901234567890,"c":1E+2,"d":-0.0}',
        b'{"_meta":{"x.y/z":null},"unknown":[{}, { "k" :true}]}',
        b'{"t":"\\u00e9\\/\\ud83d\\ude00 \\\\ud800"}',
        "{\"t\":\"é\u2028\u0085😀\"}".encode(),
        b'{"same":1,"same":2}',
        b"0.1000000000000000055511151231257827",
    )  # fmt: skip

    @pytest.mark.parametrize("payload", PAYLOADS)
    @pytest.mark.parametrize("member", ["params", "result", "error"])
    def test_payloads(self, payload: bytes, member: str) -> None:
        rest = b'"method":"m"' if member == "params" else b'"x":0'
        line = b'{"jsonrpc":"2.0","id":1,' + rest + b',"' + member.encode() + b'":' + payload + b"}"
        frame = decode_frame(line)
        assert raw(getattr(frame, member)) == payload
        assert payload in frames.encode(frame)

    @pytest.mark.parametrize("payload", PAYLOADS[:-1])
    def test_members(self, payload: bytes) -> None:
        fields = frames.members(payload)
        assert [*fields] == [*json.loads(payload)]
        assert all(bytes(value) in payload for value in fields.values())

    IDS = (b"0", b'"0"', b"-1", b"9007199254740993", b'""', '"é"'.encode(), b'"\\u00e9"', b"1.0", b"1e2", b'"a\\"b"')

    @pytest.mark.parametrize("id", IDS)
    def test_ids_are_echoed_as_they_were_written(self, id: bytes) -> None:
        frame = decode_frame(b'{"jsonrpc":"2.0","id":' + id + b',"method":"m"}')
        assert isinstance(frame.id, Raw)
        assert frames.encode(frames.result(frame.id, {})) == b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}'
        expected = b'{"jsonrpc":"2.0","id":' + id + b',"error":{"code":5,"message":"no"}}'
        assert frames.encode(frames.error(frame.id, 5, "no")) == expected


@pytest.mark.parametrize(
    ("written", "key"),
    [
        (b"0", 0),
        (b"-1", -1),
        (b"-0", 0),
        (b"7", 7),
        (b"7.0", 7),
        (b"7e0", 7),
        (b"1e2", 100),
        (b"9007199254740993", 2**53 + 1),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"7"', "7"),
        (b'""', ""),
        (b'"\\u00e9"', "é"),
        ('"é"'.encode(), "é"),
        (b'"7.5"', "7.5"),
        (b"7.5", None),
        (b"1e-1", None),
        (b"9007199254740993.0", None),  # which integer is meant cannot be known
        (b"1e400", None),
        (b"9" * 5000, None),
        (b"null", None),
        (b"true", None),
        (b"[7]", None),
        (b'{"id":7}', None),
        (b'"\\ud800"', None),
        (b'"\xff"', None),
        (b"", None),
        (b"x", None),
        (b"[" * 100_000, None),
    ],
)
def test_what_an_id_is(written: bytes, key: str | int | None) -> None:
    for value in (written, Raw(written)):
        found = id_key(value)
        assert (type(found), found) == (type(key), key)


class TestLoneSurrogates:
    """An escape that stands for no character costs neither the message nor the connection."""

    @pytest.mark.parametrize(
        ("text", "mended"),
        [
            (rb"\ud800", rb"\ufffd"),
            (rb"\uDFFF", rb"\ufffd"),
            (rb"a\ud83d", rb"a\ufffd"),
            (rb"\ude00\ud83d", rb"\ufffd\ufffd"),
            (rb"\ud83d\ud83d\ude00", rb"\ufffd\ud83d\ude00"),
            (rb"\ud83d\ude00\ude00", rb"\ud83d\ude00\ufffd"),
            (rb"\ud83d\u0041", rb"\ufffd\u0041"),
            (rb"\\ud800\ud800", rb"\\ud800\ufffd"),
            (rb"\\\ud800", rb"\\\ufffd"),
            (rb"\ud800\\ud800\n\"\ud7ff", rb"\ufffd\\ud800\n\"\ud7ff"),
        ],
    )
    def test_they_are_replaced(self, text: bytes, mended: bytes) -> None:
        frame = decode_frame(b'{"jsonrpc":"2.0","id":1,"result":{"a":"' + text + b'"}}')
        assert raw(frame.result) == b'{"a":"' + mended + b'"}'
        (batched,) = frames.split_batch(b'[{"a":"' + text + b'"}]')
        assert batched == b'{"a":"' + mended + b'"}'

    @pytest.mark.parametrize("text", [rb"\ud83d\ude00", rb"\\ud800", rb"\\\\uDC00 \u0041", rb"\ufffd"])
    def test_nothing_else_is_touched(self, text: bytes) -> None:
        line = b'{"jsonrpc":"2.0","id":"' + text + b'","result":{"a":"' + text + b'"}}'
        assert frames.encode(decode_frame(line)) == line

    def test_in_an_id_they_are_an_error_without_an_id(self) -> None:
        with pytest.raises(RemoteProtocolError) as caught:
            decode_frame(rb'{"jsonrpc":"2.0","id":"\ud800","method":"m"}')
        assert (caught.value.code, caught.value.id) == (INVALID_REQUEST, None)

    @pytest.mark.parametrize("text", [rb"\ud800\x", b"\\ud800\t", b"\\ud80", b"\\"])
    def test_what_else_is_wrong_stays_an_error(self, text: bytes) -> None:
        line = b'{"jsonrpc":"2.0","id":1,"result":{"a":"' + text + b'"}}'
        with pytest.raises(RemoteProtocolError) as caught:
            decode_frame(line)
        assert caught.value.code == PARSE_ERROR

    @STEADY
    @given(st.lists(st.sampled_from([r"\ud83d", r"\ude00", r"\\", r"\n", "u", "d83d", r"\ufffd", r"\"", "é"])))
    def test_as_python_reads_them(self, scraps: list[str]) -> None:
        text = '"' + "".join(scraps) + '"'
        frame = decode_frame(f'{{"jsonrpc":"2.0","id":1,"result":{text}}}'.encode())
        expected = json.loads(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert isinstance(frame.result, Raw)
        assert json.loads(bytes(frame.result)) == expected


class TestBatch:
    @pytest.mark.parametrize(
        ("line", "batch"),
        [(b"[]", True), (b" \t\r\n[1]", True), (b'{"a":[]}', False), (b"", False), (b"\x0b[]", False)],
    )
    def test_is_batch(self, line: bytes, batch: bool) -> None:
        assert frames.is_batch(line) is batch

    def test_each_message_is_its_own_bytes(self) -> None:
        assert frames.split_batch(b' [ {"a":1.0} , 2, "x\xc3\xa9" ]') == [b'{"a":1.0}', b"2", b'"x\xc3\xa9"']

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            (b"[", PARSE_ERROR),
            (b"[1,]", PARSE_ERROR),
            (b'["\xff"]', PARSE_ERROR),
            (b"[" * 100_000, PARSE_ERROR),
            (b"[]", INVALID_REQUEST),
        ],
    )
    def test_what_is_none(self, line: bytes, code: int) -> None:
        with pytest.raises(RemoteProtocolError) as caught:
            frames.split_batch(line)
        assert caught.value.code == code


def test_members_of_nothing_are_none() -> None:
    assert frames.members(UNSET) == {}


@pytest.mark.parametrize("value", [b"[]", b"null", b"1", b'"x"', b"{", b""])
def test_params_that_are_no_object(value: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        frames.members(Raw(value))
    assert caught.value.code == INVALID_PARAMS


MALFORMED = "The peer sent a malformed error object"


@pytest.mark.parametrize(
    ("written", "code", "message", "data"),
    [
        (b'{"code":-32601,"message":"m"}', -32601, "m", None),
        (b'{"data":{"x": 1.0},"message":"m","code":5,"more":1}', 5, "m", b'{"x": 1.0}'),
        (b'{"code":5,"message":"m","data":null}', 5, "m", b"null"),
        (b'{"code":-32601.0,"message":"m","data":[]}', -32601, "m", b"[]"),
        (b'{"code":5}', 5, "The peer gave no reason", None),
        (b'{"code":"5","message":"m"}', INTERNAL_ERROR, MALFORMED, b'{"code":"5","message":"m"}'),
        (b'{"code":5.5,"message":"m"}', INTERNAL_ERROR, MALFORMED, b'{"code":5.5,"message":"m"}'),
        (b'{"code":5,"message":7}', INTERNAL_ERROR, MALFORMED, b'{"code":5,"message":7}'),
        (b'{"message":"m"}', INTERNAL_ERROR, MALFORMED, b'{"message":"m"}'),
        (b'"boom"', INTERNAL_ERROR, MALFORMED, b'"boom"'),
        (b"null", INTERNAL_ERROR, MALFORMED, b"null"),
    ],
)  # fmt: skip
def test_error_objects(written: bytes, code: int, message: str, data: bytes | None) -> None:
    error = frames.error_object(Raw(written))
    assert (error.code, error.message, raw(error.data)) == (code, message, data)


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (frames.request(Raw(b"1"), "m"), b'{"jsonrpc":"2.0","id":1,"method":"m"}'),
        (frames.request(Raw(b"1"), "", {"x": Raw(b"1.0")}), b'{"jsonrpc":"2.0","id":1,"method":"","params":{"x":1.0}}'),
        (frames.notification("m", Raw(b"{ }")), b'{"jsonrpc":"2.0","method":"m","params":{ }}'),
        (frames.result(Raw(b"1"), {}), b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        (frames.result(Raw(b"1"), frames.NULL), b'{"jsonrpc":"2.0","id":1,"result":null}'),
        (frames.error(Raw(b"1"), 5, "m"), b'{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m"}}'),
        (frames.error(UNSET, 5, "m", {"a": 1}), b'{"jsonrpc":"2.0","error":{"code":5,"message":"m","data":{"a":1}}}'),
        (
            frames.error(frames.NULL, 5, "m", Raw(b"1.0")),
            b'{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"m","data":1.0}}',
        ),
    ],
)  # fmt: skip
def test_frames_that_we_make(frame: frames.Frame, line: bytes) -> None:
    assert frames.encode(frame) == line
    assert frames.encode(decode_frame(line)) == line


def test_the_utf8_check_takes_no_memory_to_speak_of() -> None:
    """Text with one wide character takes four bytes for each of its own, if it is decoded as a whole."""
    line = b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * (8 << 20) + "😀".encode() + b'"}'
    tracemalloc.start()
    try:
        frame = decode_frame(line)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert raw(frame.id) == b"1"


@pytest.mark.parametrize("character", ["é", "€", "😀"])
@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize("step", [1, 2])
def test_characters_across_the_steps_of_the_utf8_check(step: int, before: int, character: str) -> None:
    start = b'{"jsonrpc":"2.0","id":1,"result":"'
    padding = b"x" * (step * frames._UTF8_STEP - before - len(start))
    assert raw(decode_frame(start + padding + character.encode() + b'"}').id) == b"1"
    with pytest.raises(RemoteProtocolError, match=f"not UTF-8 at byte {len(start + padding)}$"):
        decode_frame(start + padding + character.encode()[:-1] + b'"}')
