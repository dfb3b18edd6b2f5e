"""What a child says on stderr: a bounded tail of it for error messages, and lines fit to be shown in a log.

Pure: bytes and the clock's reading go in, text comes out.
"""

from __future__ import annotations

import re

SHOWN_LINE = 1000  # bytes of one line that are shown; the tail keeps more
BURST = 200  # lines shown at once before the rate counts; a traceback or a start-up banner passes whole
RATE = 20.0  # lines a second after that

# Terminal sequences (colours, titles, cursor movements) and all other control characters but the tab.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LastWords:
    """Takes a child's stderr as it comes, in constant memory whatever comes."""

    def __init__(self, max_tail: int) -> None:
        self._max_tail = max_tail
        self._tail = bytearray()
        self._line = bytearray()  # the head of the line that has not ended yet
        self._line_size = 0
        self._allowance = float(BURST)
        self._counted_at: float | None = None
        self._hidden = 0

    def feed(self, data: bytes | bytearray, now: float) -> list[str]:
        """Take the next bytes; return the lines that they complete and that the rate allows to be shown."""
        self._tail += data[-self._max_tail :]
        if len(self._tail) > self._max_tail:
            del self._tail[: -self._max_tail]
        pieces = data.split(b"\n")
        rest = pieces.pop()
        shown: list[str] = []
        for piece in pieces:
            self._extend(piece)
            shown += self._end_line(now)
        self._extend(rest)
        return shown

    def finish(self, now: float) -> list[str]:
        """The stream has ended: a last line without a newline, and the count of those that were not shown."""
        shown = self._end_line(now)
        if self._hidden:
            shown.append(self._take_hidden())
        return shown

    def text(self, limit: int = 2000) -> str:
        """The last ``limit`` characters or fewer, from the start of a line where there is one."""
        whole = _clean(self._tail.decode(errors="replace")).strip()
        if len(whole) <= limit:
            return whole
        cut = whole[-limit:]
        _, newline, lines = cut.partition("\n")
        return lines if newline and lines else cut

    def _extend(self, piece: bytes | bytearray) -> None:
        self._line_size += len(piece)
        if (room := SHOWN_LINE - len(self._line)) > 0:
            self._line += piece[:room]

    def _end_line(self, now: float) -> list[str]:
        text = _clean(self._line.decode(errors="replace")).rstrip()
        if self._line_size > len(self._line):
            text += f" … ({self._line_size} bytes)"
        self._line.clear()
        self._line_size = 0
        if not text:
            return []
        if not self._may_show(now):
            self._hidden += 1
            return []
        return [self._take_hidden(), text] if self._hidden else [text]

    def _may_show(self, now: float) -> bool:
        if self._counted_at is not None:
            self._allowance = min(BURST, self._allowance + RATE * (now - self._counted_at))
        self._counted_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _take_hidden(self) -> str:
        hidden, self._hidden = self._hidden, 0
        return f"… ({hidden} lines not shown)"


def _clean(text: str) -> str:
    return _CONTROL.sub("", text)
