"""Whose an oversize message was: told where its two ends show it, and never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcpx.wire.lines import KEPT, LineSplitter, Oversize
from mcpx.wire.oversize import OversizeFrame, oversize_frame
from tests.unit.wire.cuts import STEADY

BIG = '{"content":[{"type":"text","text":"' + "x" * 3 * KEPT + '"}]}'
# What must not be taken for a member of the message: the same names further in, and text that looks like them.
DECOY = '{"id":99,"method":"m","error":{},"text":"}],\\"id\\":98,\\"method\\":\\"m\\"}","path":"C:\\\\"}'
BIG_DECOY = f'[{DECOY},"{"x" * 3 * KEPT}",{DECOY}]'

UNKNOWN = (None, None, None)
RESPONSE = (b"7", True, None)
REQUEST = (b"7", False, "tools/call")

CASES: dict[str, tuple[str, tuple[bytes | None, bool | None, str | None]]] = {
    "response, id first": (f'{{"jsonrpc":"2.0","id":7,"result":{BIG}}}', RESPONSE),
    "response, id last": (f'{{"result":{BIG},"jsonrpc":"2.0","id":7}}', RESPONSE),
    "response, id on one side and version on the other": (f'{{"id":7,"result":{BIG},"jsonrpc":"2.0"}}', RESPONSE),
    "response, pretty": (f'{{\r "jsonrpc" : "2.0" ,\r\t"id" : 7 , "result" : {BIG} }}', RESPONSE),
    "response, pretty, id last": (f' {{ "result" : {BIG} , "jsonrpc" : "2.0" , "id" : 7 }} ', RESPONSE),
    "response with decoys": (f'{{"jsonrpc":"2.0","id":7,"result":{BIG_DECOY}}}', RESPONSE),
    "response with decoys, id last": (f'{{"result":{BIG_DECOY},"jsonrpc":"2.0","id":7}}', RESPONSE),
    "response that is one long string": (f'{{"jsonrpc":"2.0","id":7,"result":"{"x" * 3 * KEPT}"}}', RESPONSE),
    "error": (f'{{"jsonrpc":"2.0","id":7,"error":{{"code":1,"message":"m","data":{BIG_DECOY}}}}}', RESPONSE),
    "error, id last": (f'{{"error":{{"code":1,"message":"m","data":{BIG_DECOY}}},"id":7,"jsonrpc":"2.0"}}', RESPONSE),
    "error without an id": (f'{{"jsonrpc":"2.0","error":{{"data":{BIG}}}}}', (None, True, None)),
    "error with a null id": (f'{{"jsonrpc":"2.0","id":null,"error":{{"data":{BIG}}}}}', (None, True, None)),
    "request": (f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{BIG}}}', REQUEST),
    "request, id last": (f'{{"method":"tools/call","params":{BIG_DECOY},"jsonrpc":"2.0","id":7}}', REQUEST),
    "request, all last": (f'{{"params":{BIG_DECOY},"method":"tools/call","id":7,"jsonrpc":"2.0"}}', REQUEST),
    "request with a string id": (
        f'{{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{BIG}}}', (b'"7"', False, "tools/call")
    ),
    "request with quotes and backslashes in its id": (
        f'{{"params":{BIG},"method":"tools/call","jsonrpc":"2.0","id":"\\\\\\"a\\\\"}}',
        (b'"\\\\\\"a\\\\"', False, "tools/call"),
    ),
    "names that are escaped": (f'{{"\\u006asonrpc":"2.0","i\\u0064":7,"\\u0072esult":{BIG}}}', RESPONSE),
    "notification": (f'{{"jsonrpc":"2.0","method":"tools/call","params":{BIG}}}', (None, False, "tools/call")),
    "a fractional id is none": (f'{{"jsonrpc":"2.0","id":7.5,"result":{BIG}}}', (None, True, None)),
    "an id that is an object is none": (f'{{"jsonrpc":"2.0","id":{DECOY},"result":{BIG}}}', (None, True, None)),
    "an id between two long members is not seen": (
        f'{{"jsonrpc":"2.0","params":{BIG},"id":7,"x":{BIG},"method":"tools/call"}}', (None, False, "tools/call")
    ),
    "an id longer than what is kept": (f'{{"jsonrpc":"2.0","id":"{"7" * 3 * KEPT}","result":1}}', (None, True, None)),
    "a number that may go on": ('{"jsonrpc":"2.0","id":' + "7" * 3 * KEPT, UNKNOWN),
    "neither kind was seen": (f'{{"jsonrpc":"2.0","id":7,"x":{BIG},"result":{{}},"y":{BIG}}}', (b"7", None, None)),
    "both kinds": (f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","result":{BIG}}}', (b"7", None, "tools/call")),
    "two ids": (f'{{"jsonrpc":"2.0","id":7,"result":{BIG},"id":8}}', UNKNOWN),
    "two messages on a line": (f'{{"jsonrpc":"2.0","id":7,"result":{{}}}}{{"jsonrpc":"2.0","result":{BIG}}}', UNKNOWN),
    "two messages on a line, the second short": (
        f'{{"jsonrpc":"2.0","id":7,"result":{BIG}}}{{"jsonrpc":"2.0","result":{{}}}}', UNKNOWN
    ),
    "a batch": (f'[{{"jsonrpc":"2.0","id":7,"result":{BIG}}}]', UNKNOWN),
    "noise": ("x" * 3 * KEPT, UNKNOWN),
    "noise before a message": (f'Ready. {{"jsonrpc":"2.0","id":7,"result":{BIG}}}', UNKNOWN),
    "noise behind a message": (f'{{"jsonrpc":"2.0","id":7,"result":{BIG}}} Done.', UNKNOWN),
    "no version": (f'{{"id":7,"result":{BIG}}}', UNKNOWN),
    "another version": (f'{{"jsonrpc":"1.0","id":7,"result":{BIG}}}', UNKNOWN),
    "a log line in JSON": (f'{{"level":"info","id":7,"result":{BIG}}}', UNKNOWN),
    "a member without its colon": (f'{{"jsonrpc":"2.0","id" 7,"result":{BIG}}}', UNKNOWN),
    "spaces": (" " * 3 * KEPT, UNKNOWN),
    "a long string": ('"' + "x" * 3 * KEPT + '"', UNKNOWN),
    "deeply nested": ('{"jsonrpc":"2.0","id":7,"result":' + "[" * 3 * KEPT + "]" * 3 * KEPT + "}", RESPONSE),
}  # fmt: skip


def told(frame: OversizeFrame) -> tuple[bytes | None, bool | None, str | None]:
    return None if frame.id is None else bytes(frame.id), frame.is_response, frame.method


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_what_a_message_tells_through_the_splitter(text: str, expected: Any) -> None:
    (message,) = LineSplitter(KEPT).feed(text.encode() + b"\n")
    assert isinstance(message, Oversize)
    assert told(oversize_frame(message)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"jsonrpc":"2.0","id":7,"result":{}}', RESPONSE),
        (' {"result":{"a":[1]},"id":7,"jsonrpc":"2.0"} ', RESPONSE),
        ('{"jsonrpc":"2.0","id":7,"method":"tools/call"}', REQUEST),
        ('{"jsonrpc":"2.0","method":"tools/call"}', (None, False, "tools/call")),
        ("{}", UNKNOWN),
        ("[]", UNKNOWN),
        ("}{", UNKNOWN),
        ('{"jsonrpc":"2.0","id":7,"result":{}}}', UNKNOWN),
    ],
)
def test_a_message_whose_ends_are_all_of_it(text: str, expected: Any) -> None:
    assert told(oversize_frame(Oversize(len(text), text.encode(), text.encode()))) == expected


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ('{"jsonrpc":"2.0","id":7,"result":{}}', "}"),  # the object ends, the message does not
        ('{"jsonrpc":"2.0",', '{"id":7,"result":{}}'),
        ('{"jsonrpc":"2.0","x":"', '"id":7,"result":{}}'),  # that quote may be one within a string
        ('{"jsonrpc":"2.0","id":7', '7,"result":{}}'),  # and those digits may be a part of some
    ],
)
def test_ends_that_only_seem_to_tell(head: str, tail: str) -> None:
    assert oversize_frame(Oversize(1 << 20, head.encode(), tail.encode())).id is None


# Text that is full of what bounds tokens, so that cuts fall into and beside strings, escapes and brackets.
TEXT = st.text(st.sampled_from('"\\{}[]:, id7é\u2028\n\t\x00'), max_size=12) | st.just('","id":5,"result":{}}')
NAMES = st.sampled_from(["id", "method", "result", "error", "jsonrpc", "params", "x"]) | TEXT
IDS = st.integers() | TEXT
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """A valid frame of any kind, its members in any order, with members of no meaning among them."""
    version = {"jsonrpc": "2.0"}
    frame: dict[str, Any] = draw(
        st.one_of(
            st.fixed_dictionaries({"id": IDS, "result": VALUES}),
            st.fixed_dictionaries({"id": IDS, "error": VALUES}),
            st.fixed_dictionaries({"id": IDS, "method": TEXT}, optional={"params": VALUES}),
            st.fixed_dictionaries({"method": TEXT}, optional={"params": VALUES}),
        )
    )
    extra = draw(
        st.dictionaries(st.sampled_from(["x", "\\", "}", '"id', '"method', '"result', 'id"']), VALUES, max_size=3)
    )
    return dict(draw(st.permutations([*(version | frame | extra).items()])))


@STEADY
@given(messages(), st.booleans(), st.sampled_from([None, 0, 2]), st.data())
def test_whatever_is_told_is_true(
    message: dict[str, Any], ascii: bool, indent: int | None, data: st.DataObject
) -> None:
    encoded = json.dumps(message, ensure_ascii=ascii, indent=indent).encode()
    head = encoded[: data.draw(st.integers(0, len(encoded)), label="head")]
    tail = encoded[data.draw(st.integers(0, len(encoded)), label="tail") :]
    frame = oversize_frame(Oversize(len(encoded), head, tail))
    assert frame.id is None or json.loads(bytes(frame.id)) == message["id"]
    assert frame.is_response in (None, "method" not in message)
    assert frame.method in (None, message.get("method"))


@STEADY
@given(messages(), st.sampled_from([None, 2]), st.sampled_from(["head", "tail", "both"]))
def test_all_is_told_where_all_is_there(message: dict[str, Any], indent: int | None, where: str) -> None:
    encoded = json.dumps(message, indent=indent).encode()
    head = encoded if where != "tail" else encoded[:1]
    tail = encoded if where != "head" else encoded[-1:]
    frame = oversize_frame(Oversize(len(encoded), head, tail))
    assert frame.is_response is ("method" not in message)
    assert frame.method == message.get("method")
    assert (None if frame.id is None else json.loads(bytes(frame.id))) == message.get("id")


@STEADY
@given(
    st.lists(st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b",", b":", b"1", b" ", b"\xff", b'"id"']), max_size=30)
)
def test_it_never_fails_on_what_is_no_json(scraps: list[bytes]) -> None:
    text = b"".join(scraps)
    assert isinstance(oversize_frame(Oversize(len(text), text, text)), OversizeFrame)
    assert told(oversize_frame(Oversize(1 << 30, text, text))) == UNKNOWN  # no version was seen


def test_the_id_can_be_echoed() -> None:
    text = b'{"jsonrpc":"2.0","id":1e2,"method":"m"}'
    assert isinstance(oversize_frame(Oversize(len(text), text, text)).id, Raw)
