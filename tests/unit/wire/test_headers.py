"""Header values: the base64 sentinel of 2026-07-28 basic/transports/streamable-http, and media types."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpx.wire.headers import accepts, decode_value, encode_value, media_type
from tests.unit.wire.cuts import STEADY

# Text -> the header's value. The first five are the page's (Value Encoding), the next those of SEP-2243's edge cases.
ENCODED = {
    "us-west1": "us-west1",
    "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=",
    " padded ": "=?base64?IHBhZGRlZCA=?=",
    "line1\nline2": "=?base64?bGluZTEKbGluZTI=?=",
    "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
    " us-west1": "=?base64?IHVzLXdlc3Qx?=",
    "us-west1 ": "=?base64?dXMtd2VzdDEg?=",
    "us west 1": "us west 1",
    "日本語": "=?base64?5pel5pys6Kqe?=",
    "line1\r\nline2": "=?base64?bGluZTENCmxpbmUy?=",
    "\tindented": "=?base64?CWluZGVudGVk?=",
    "": "",
    "file:///path/to/file%20name.txt": "file:///path/to/file%20name.txt",
    "https://example.com/resource?id=123": "https://example.com/resource?id=123",
    # A tab inside is a control character to the suite, and allowed by the page: wrapped, it is right for both.
    "a\tb": "=?base64?YQli?=",
    "\x7f": "=?base64?fw==?=",
    "\xa0": "=?base64?wqA=?=",
    " ": "=?base64?IA==?=",
    "~!": "~!",
    # Either marker alone is a text like any other; both in one, which nobody says how to read, are wrapped.
    "=?base64?literal": "=?base64?literal",
    "literal?=": "literal?=",
    "=?BASE64?literal?=": "=?BASE64?literal?=",
    "=?base64?=": "=?base64?PT9iYXNlNjQ/PQ==?=",
    "=?base64??=": "=?base64?PT9iYXNlNjQ/Pz0=?=",
}


@pytest.mark.parametrize(("text", "value"), ENCODED.items())
def test_encoding(text: str, value: str) -> None:
    assert encode_value(text) == value
    assert decode_value(value) == text


@STEADY
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("=?base64 \t\n"))
@example("=?base64?")
def test_whatever_the_text_the_value_is_safe_and_says_it(text: str) -> None:
    value = encode_value(text)
    assert re.fullmatch(r"([!-~]([ -~]*[!-~])?)?", value)
    assert decode_value(value) == text


def test_a_text_that_is_none() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode_value("\ud800")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("  foo  ", "foo"),  # RFC 9110 section 5.5
        ("\t=?base64?SGVsbG8=?= ", "Hello"),
        ("a\tb", "a\tb"),
        ("=?base64??=", ""),
    ],
)
def test_decoding(value: str, text: str) -> None:
    assert decode_value(value) == text


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("=?base64?SGVsbG8?=", "is none"),  # SEP-2243: no padding
        ("=?base64?SGVs!!!bG8=?=", "is none"),  # SEP-2243: not of the alphabet
        ("=?base64?SGVs bG8=?=", "is none"),
        ("=?base64?SGVsbG8==?=", "is none"),
        ("=?base64?SGVsbG8=SGVs?=", "is none"),
        ("=?base64?_-8=?=", "is none"),  # the alphabet for URLs is another one
        ("=?base64?/w==?=", "UTF-8"),
        ("=?base64?7aCA?=", "UTF-8"),  # a surrogate
        ("é", "characters"),
        ("a\rb", "characters"),
        ("a\nb", "characters"),
        ("a\0b", "characters"),
        ("\x7f", "characters"),
        ("ä¸", "characters"),  # UTF-8, as a server that reads latin-1 sees it
        ("\xa0x", "characters"),  # white space, and none that may stand around a value
    ],
)
def test_what_no_header_may_hold(value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_value(value)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, ""),
        ("", ""),
        ("application/json", "application/json"),
        ("Application/JSON ; charset=utf-8", "application/json"),
        (" text/event-stream;x", "text/event-stream"),
    ],
)
def test_media_type(header: str | None, expected: str) -> None:
    assert media_type(header) == expected


@pytest.mark.parametrize(
    ("accept", "json", "events"),
    [
        (None, True, True),
        ("", True, True),
        (" , ,", True, True),
        ("application/json, text/event-stream", True, True),
        ("application/json,text/event-stream", True, True),
        ("APPLICATION/JSON", True, False),
        ("text/event-stream", False, True),
        ("*/*", True, True),
        ("text/*", False, True),
        ("application/*;q=0.1", True, False),
        ("application/json;q=0, */*", False, True),
        ("*/*;q=0, text/event-stream", False, True),
        ("application/json; q=0.000", False, False),
        ("application/json;Q=0", False, False),
        ("application/json;charset=utf-8;q=0.5", True, False),
        ("application/json;q=0, application/json", True, False),
        ("application/json;q=high", True, False),
        ('text/html;a="x, application/json", text/event-stream', False, True),
        ('text/html;a="x;q=0\\"", application/json;b=";q=0"', True, False),
        ('text/html;a="unclosed, application/json', False, False),
        ("application/jsonp", False, False),
        ("application", False, False),
        ("html, image/gif; q=.2, */*; q=.2", True, True),  # as an old library says it
    ],
)
def test_accepts(accept: str | None, json: bool, events: bool) -> None:
    assert (accepts(accept, "application/json"), accepts(accept, "text/event-stream")) == (json, events)
