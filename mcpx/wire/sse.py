"""Server-sent events: bytes to events and back. (HTML Living Standard, 9.2 Server-sent events.)

What MCP says on such a stream is one JSON message an event; this knows nothing of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpx.errors import RemoteProtocolError
from mcpx.wire.frames import INVALID_REQUEST
from mcpx.wire.lines import BOM, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMENT = b":\n\n"  # says nothing, and keeps a quiet connection alive
MESSAGE = "message"  # the type of an event that names none

_MAX_RETRY_DIGITS = 9  # milliseconds; a longer number is no delay that anybody means


class Event(NamedTuple):
    """One event. ``id`` is the last one that the stream has said, in this event or an earlier one.

    Without data it is no message: it only says where to resume, or when.
    """

    data: bytes
    event: str = MESSAGE
    id: str | None = None
    retry: int | None = None  # milliseconds to wait before reconnecting; the last that the stream has said


class SseDecoder:
    """Takes a stream of events apart, however it is cut into chunks.

    ``max_event`` bounds the bytes kept of an event that is not complete. ``last_id`` is where to resume from: the id of
    the last complete event, so that one whose end never came is asked for again. ``retry`` is the last delay said.
    """

    def __init__(self, max_event: int) -> None:
        self.last_id: str | None = None
        self.retry: int | None = None
        self._max_event = max_event
        self._rest = bytearray()  # the line under way
        self._searched = 0  # of it, so that feeding byte by byte stays linear
        self._started = False
        self._skip_newline = False  # a CR has ended the last line: an LF that comes first belongs to it
        self._first: bytes | None = None  # line of the data; most events have only one
        self._more = bytearray()  # the lines behind it, each after its newline
        self._event = ""
        self._id: str | None = None
        self._news = False  # an id or a delay has come since the last event

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes. One without data is told too where it brings an id or a delay.

        Raises ``RemoteProtocolError`` for an event longer than the bound; the stream cannot be read on after that.
        """
        if self._skip_newline and chunk:
            self._skip_newline = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        self._rest += chunk
        if not self._started:
            if len(self._rest) < len(BOM) and BOM.startswith(self._rest):
                return []
            self._started = True
            if self._rest.startswith(BOM):
                del self._rest[: len(BOM)]
        events = [event for line in self._lines() if (event := self._take(line)) is not None]
        self._bound(len(self._rest))
        return events

    def _lines(self) -> Iterator[bytes]:
        """The complete lines, which are taken out of the rest. Each kind of ending is looked for once per byte."""
        rest, end = self._rest, len(self._rest)
        position, start = 0, self._searched
        newline, carriage = rest.find(b"\n", start), rest.find(b"\r", start)
        while newline >= 0 or carriage >= 0:
            if carriage < 0 or 0 <= newline < carriage:
                stop, start = newline, newline + 1
            elif newline == carriage + 1:
                stop, start = carriage, newline + 1
            else:
                stop, start = carriage, carriage + 1
                self._skip_newline = start == end
            with memoryview(rest) as view:  # let go of before the rest changes
                line = bytes(view[position:stop])
            position = start
            if 0 <= newline < start:
                newline = rest.find(b"\n", start)
            if 0 <= carriage < start:
                carriage = rest.find(b"\r", start)
            yield line
        if position:
            del rest[:position]
        self._searched = len(rest)

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        colon = line.find(b":")
        if colon < 0:
            name, value = line, b""
        else:  # one copy of the value, which may be nearly all of a huge line
            name, value = line[:colon], line[colon + (2 if line[colon + 1 : colon + 2] == b" " else 1) :]
        if name == b"data":
            if self._first is None:
                self._first = value
            else:
                self._more += b"\n"
                self._more += value
            self._bound()
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
                self._news = True
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry = int(value)
            self._news = True
        return None

    def _dispatch(self) -> Event | None:
        told = self._first is not None or self._news
        self.last_id = self._id or None  # an empty one takes it back
        event = Event((self._first or b"") + self._more, self._event or MESSAGE, self.last_id, self.retry)
        self._first, self._event, self._news = None, "", False
        self._more.clear()
        return event if told else None

    def _bound(self, under_way: int = 0) -> None:
        if len(self._first or b"") + len(self._more) + under_way > self._max_event:
            raise RemoteProtocolError(INVALID_REQUEST, f"an event of more than {self._max_event} bytes")


def message_event(message: bytes) -> bytes:
    """One JSON message as an event of its own."""
    return encode_event(one_line(message))


def encode_event(data: bytes, *, event: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """One event. ``data`` may hold newlines of any kind, which arrive as LF.

    Raises ``ValueError`` for an ``event`` or ``id`` that holds one, or a NUL: it would be taken for other fields, or
    for none.
    """
    if any(character in f"{event}{id}" for character in "\r\n\0"):
        raise ValueError("an event's type and its id hold neither line breaks nor NUL")
    fields: list[bytes] = []
    if event is not None:
        fields.append(b"event: " + event.encode())
    if id is not None:
        fields.append(b"id: " + id.encode())
    if retry is not None:
        fields.append(b"retry: %d" % retry)
    if b"\n" in data or b"\r" in data:
        fields.extend(b"data: " + line for line in _split(data))
    else:
        fields.append(b"data: " + data)
    fields.append(b"\n")
    return b"\n".join(fields)


def _split(data: bytes) -> list[bytes]:
    """Lines as the standard counts them: CR, LF and CRLF, and nothing else."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
