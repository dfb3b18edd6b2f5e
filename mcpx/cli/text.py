"""Text for a person's terminal, out of words that others chose: names, last words, messages of servers."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # all but tab and newline


def plain(text: str) -> str:
    """The text with everything spelled out that a terminal would act on, but tabs and newlines."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def indented(text: str, by: int) -> str:
    """The plain text, its lines after the first indented."""
    return plain(text).replace("\n", "\n" + " " * by)
