"""Newline framing: a stream of bytes, cut anywhere, into messages.

A message ends at byte 0x0A and nowhere else: not at a bare CR, not at U+2028 or U+0085, which JSON strings may hold.
(The stdio transport of every revision: messages are delimited by newlines and hold none.)
"""

from __future__ import annotations

from io import SEEK_END, BytesIO
from typing import NamedTuple

KEPT = 4096  # bytes of either end of an oversize message; a request id stands well within one of them

BOM = b"\xef\xbb\xbf"  # some peers write one at the start of their output, or before every line
_SLACK = len(BOM) + 1  # what a line may be over the limit until its byte order mark and its CR are taken off
_LF, _CR = 0x0A, 0x0D  # as numbers: looked for in a short message, they are found several times as fast
_LOW, _HIGH = b"!", BOM[:1]  # a line between the two is not empty and starts with neither white space nor a BOM


def one_line(message: bytes) -> bytes:
    """A JSON message without line breaks, to be framed by one. In valid JSON they are only ever white space between
    tokens, as where a peer's raw value is pretty-printed; only then is anything copied.
    """
    if _LF in message or _CR in message:
        return message.translate(None, b"\r\n")
    return message


class Oversize(NamedTuple):
    """What is left of a message over the size limit: enough to find out whose it was (``oversize_frame``).

    ``head`` and ``tail`` overlap where the message is shorter than both together.
    """

    size: int  # bytes, without the newline
    head: bytes
    tail: bytes


class LineSplitter:
    """Splits a stream into lines, in linear time however it is cut, and in bounded memory whatever the peer sends.

    A line comes out without its newline, without one CR before that, and without a byte order mark at its start. One
    that is empty or all white space is dropped. One of more than ``limit`` bytes comes out as ``Oversize`` when its end
    has come; of it, no more than the limit is ever held, and the lines behind it are not affected.
    """

    __slots__ = ("_ends", "_held", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0  # bytes of the unfinished line so far
        self._held = (
            BytesIO()
        )  # that line: it grows in place and is handed out uncopied, so it costs its size about once
        self._ends: _Ends | None = None  # what is kept instead, once the line is too long

    @property
    def held(self) -> int:
        """How many bytes of the unfinished line have come."""
        return self._size

    def feed(self, data: bytes | bytearray) -> list[bytes | Oversize]:
        """Take the next bytes of the stream; return the messages that they complete."""
        if type(data) is not bytes:
            data = bytes(data)
        pieces = data.split(b"\n")  # the only search: what is held was searched when it came
        rest = pieces.pop()
        if len(pieces) == 1 and not rest and not self._size and len(data) <= self._limit:
            # As where messages come one by one.
            (line,) = pieces
            if _LOW < line < _HIGH and line[-1] != _CR:
                return [line]
        lines: list[bytes | Oversize] = []
        if pieces and self._size:
            self._hold(pieces.pop(0))
            lines = self._release()
        if rest:
            self._hold(rest)
        if pieces:
            # Nearly always no line needs a change, and a few looks in C say so for all of them at once.
            plain = _CR not in data and len(data) <= self._limit and min(pieces) > _LOW and max(pieces) < _HIGH
            lines += pieces if plain else self._clean(pieces)
        return lines

    def finish(self) -> list[bytes | Oversize]:
        """The stream has ended: return its last line, where that had no newline and is not empty."""
        return self._release()

    def _clean(self, pieces: list[bytes]) -> list[bytes | Oversize]:
        lines = [self._message(piece.removesuffix(b"\r")) for piece in pieces]
        return [line for line in lines if line is not None]

    def _message(self, line: bytes) -> bytes | Oversize | None:
        """A line without its CR as it is handed out; ``None`` for one that is dropped."""
        line = line.removeprefix(BOM)
        if len(line) > self._limit:
            return Oversize(len(line), line[:KEPT], line[-KEPT:])
        return None if not line or line.isspace() else line

    def _hold(self, piece: bytes) -> None:
        """Add to the unfinished line."""
        self._size += len(piece)
        if self._ends is not None:
            self._ends.add(piece)
        elif self._size <= self._limit + _SLACK:
            self._held.write(piece)
        else:
            self._ends = _Ends()
            self._ends.add(self._held.getvalue())
            self._ends.add(piece)
            self._held = BytesIO()

    def _release(self) -> list[bytes | Oversize]:
        """End the unfinished line, if there is one."""
        size, held, ends = self._size, self._held, self._ends
        if not size:
            return []
        self._size, self._held, self._ends = 0, BytesIO(), None
        if ends is not None:
            return [ends.oversize(size)]
        held.seek(-1, SEEK_END)
        if held.read() == b"\r":
            held.truncate(size - 1)  # in place, where taking it off afterwards would copy the line
        line = self._message(held.getvalue())
        return [] if line is None else [line]


class _Ends:
    """The two ends of a line that is dropped as it comes."""

    __slots__ = ("_head", "_tail")

    _ROOM = KEPT + _SLACK

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, piece: bytes) -> None:
        if len(self._head) < self._ROOM:
            self._head += piece[: self._ROOM - len(self._head)]
        self._tail += piece[-self._ROOM :]
        if len(self._tail) > 2 * self._ROOM:  # not each time: a byte at a time must not cost a move of the whole tail
            del self._tail[: -self._ROOM]

    def oversize(self, size: int) -> Oversize:
        head, tail = bytes(self._head), bytes(self._tail)
        if head.startswith(BOM):
            head = head[len(BOM) :]
            size -= len(BOM)
        if tail.endswith(b"\r"):
            tail = tail[:-1]
            size -= 1
        kept = min(KEPT, size)
        return Oversize(size, head[:kept], tail[-kept:])
