"""What is kept of a child's stderr, and what of it is shown."""

from __future__ import annotations

import pytest

from mcpx.transports.last_words import BURST, RATE, SHOWN_LINE, LastWords

TEXT = "first\r\nsecond, ünïcode\n\n\tthird \x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07\nno newline"
LINES = ["first", "second, ünïcode", "\tthird red bell", "no newline"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_shown_clean_however_they_are_cut(size: int) -> None:
    words = LastWords(1000)
    data = TEXT.encode()
    shown = [line for at in range(0, len(data), size) for line in words.feed(data[at : at + size], 0.0)]
    assert shown == LINES[:3]
    assert words.finish(0.0) == LINES[3:]
    assert words.text() == "first\nsecond, ünïcode\n\n\tthird red bell\nno newline"


def test_bytes_that_are_no_utf8_are_shown_as_such() -> None:
    assert LastWords(100).feed(b"a\xffb\n", 0.0) == ["a\N{REPLACEMENT CHARACTER}b"]


def test_the_tail_is_bounded_and_keeps_the_end() -> None:
    words = LastWords(10)
    words.feed(b"0123456789abcdef", 0.0)
    words.feed(b"gh", 0.0)
    assert words.text() == "89abcdefgh"


def test_last_words_start_at_a_line_where_one_starts_within_the_limit() -> None:
    words = LastWords(1000)
    words.feed(b"one two three\nfour\nfive", 0.0)
    assert words.text(limit=12) == "four\nfive"
    assert words.text(limit=3) == "ive"
    assert words.text(limit=23) == "one two three\nfour\nfive"


def test_a_line_without_end_is_shown_shortened_with_its_size_and_does_not_grow() -> None:
    words = LastWords(100)
    for _ in range(1000):
        assert words.feed(b"x" * 1000, 0.0) == []
    assert words.feed(b"\nnext\n", 0.0) == ["x" * SHOWN_LINE + " … (1000000 bytes)", "next"]


def test_a_flood_is_shown_at_a_rate_and_what_was_not_is_counted() -> None:
    words = LastWords(100)
    flood = b"".join(b"%d\n" % number for number in range(BURST + 500))
    assert words.feed(flood, 10.0) == [str(number) for number in range(BURST)]
    later = words.feed(b"a\nb\n" * 100, 11.0)
    assert later[0] == "… (500 lines not shown)"
    assert later[1:] == ["a", "b"] * int(RATE / 2)
    assert words.feed(b"c\n", 1000.0) == [f"… ({200 - int(RATE)} lines not shown)", "c"]
    words.feed(flood, 1000.0)
    assert words.finish(1000.0) == [f"… ({500 + 1} lines not shown)"]
