"""Text of any length, the same for whoever sends it and whoever looks at it."""

from __future__ import annotations

LINE = "abcdefghijklmnopqrstuvwxyz0123456789\n"  # with something that is escaped
_WRITTEN = len(LINE) + 1  # as JSON the line end is two bytes


def filling(size: int) -> str:
    """A text that takes so many bytes as JSON."""
    return LINE * (size // _WRITTEN) + "a" * (size % _WRITTEN)
