"""Server-sent events: bytes to events and back. (HTML Living Standard, 9.2 Server-sent events.)

What MCP says on such a stream is one JSON message an event; this knows nothing of that.
"""

from __future__ import annotations

from typing import NamedTuple

from mcpx.errors import RemoteProtocolError
from mcpx.wire.frames import INVALID_REQUEST

COMMENT = b":\n\n"  # says nothing, and keeps a quiet connection alive
MESSAGE = "message"  # the type of an event that names none

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 9  # milliseconds; a longer number is no delay that anybody means


class Event(NamedTuple):
    """One event. ``id`` is the last one that the stream has said, in this event or an earlier one."""

    data: bytes
    event: str = MESSAGE
    id: str | None = None
    retry: int | None = None  # milliseconds to wait before reconnecting; the last that the stream has said


class SseDecoder:
    """Takes a stream of events apart, however it is cut into chunks.

    ``max_event`` bounds the bytes kept of an event that is not complete.
    """

    def __init__(self, max_event: int) -> None:
        self._max_event = max_event
        self._rest = bytearray()  # the line under way
        self._searched = 0  # of it, so that feeding byte by byte stays linear
        self._started = False
        self._skip_newline = False  # a CR has ended the last line: an LF that comes first belongs to it
        self._data: list[bytes] = []
        self._size = 0  # of the data
        self._event = ""
        self._news = False  # an id or a delay has come since the last event
        self.last_id: str | None = None
        self.retry: int | None = None

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
            if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
                return []
            self._started = True
            if self._rest.startswith(_BOM):
                del self._rest[: len(_BOM)]
        events: list[Event] = []
        position = 0
        while (line := self._next_line(position)) is not None:
            text, position = line
            event = self._take(text)
            if event is not None:
                events.append(event)
        if position:
            del self._rest[:position]
        self._searched = len(self._rest)
        if self._size + len(self._rest) > self._max_event:
            raise RemoteProtocolError(INVALID_REQUEST, f"an event of more than {self._max_event} bytes")
        return events

    def _next_line(self, position: int) -> tuple[bytes, int] | None:
        """The line at ``position`` and where the next one begins; ``None`` where it is not complete."""
        rest = self._rest
        start = max(position, self._searched)
        feed = rest.find(b"\n", start)
        carriage = rest.find(b"\r", start, feed if feed >= 0 else len(rest))
        if carriage < 0:
            if feed < 0:
                return None
            return bytes(memoryview(rest)[position:feed]), feed + 1
        line = bytes(memoryview(rest)[position:carriage])
        if carriage + 1 == len(rest):
            self._skip_newline = True
            return line, carriage + 1
        return line, carriage + (2 if rest[carriage + 1] == 0x0A else 1)

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._max_event:
                raise RemoteProtocolError(INVALID_REQUEST, f"an event of more than {self._max_event} bytes")
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value:
                self.last_id = value.decode(errors="replace")
                self._news = True
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry = int(value)
            self._news = True
        return None

    def _dispatch(self) -> Event | None:
        told = bool(self._data) or self._news
        event = Event(b"\n".join(self._data), self._event or MESSAGE, self.last_id or None, self.retry)
        self._data, self._size, self._event, self._news = [], 0, "", False
        return event if told else None


def encode_event(data: bytes, *, event: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """One event. ``data`` may hold newlines of any kind; ``event`` and ``id`` may not."""
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
