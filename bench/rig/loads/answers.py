"""HTTP answers as they come off a socket: where one ends, while the clock runs; what is in it, afterwards.

The bodies are JSON with a length, or chunked, or a stream of events. (RFC 9112 sections 6 and 7; HTML, section 9.2.)
"""

from __future__ import annotations

import re

from rig.loads.words import WrongAnswerError

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)")
_CHUNKED = re.compile(rb"(?i)\r\ntransfer-encoding:[ \t]*chunked")
_EVENTS = re.compile(rb"(?i)\r\ncontent-type:[ \t]*text/event-stream")
_SESSION = re.compile(rb"(?i)\r\nmcp-session-id:[ \t]*(\S+)")
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Incoming:
    """One connection's answers, one after the other."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._whole: int | None = None  # bytes of the answer, once its head is there; -1 where chunks will tell

    def feed(self, data: bytes) -> bytes | None:
        """What was read; gives an answer when all of it is there."""
        if self._held:
            self._held.append(data)
            self._size += len(data)
        else:
            self._held = [data]
            self._size = len(data)
        if self._whole is None:
            self._look(b"".join(self._held))
        if self._whole is None or not self._ended():
            return None
        answer = data if len(self._held) == 1 else b"".join(self._held)
        self._held = []
        self._whole = None
        return answer

    def _look(self, so_far: bytes) -> None:
        end = so_far.find(b"\r\n\r\n")
        if end < 0:
            return
        if length := _LENGTH.search(so_far, 0, end):
            self._whole = end + 4 + int(length[1])
        elif _CHUNKED.search(so_far, 0, end):
            self._whole = -1
        elif status_of(so_far) in (202, 204):
            self._whole = end + 4
        else:
            raise WrongAnswerError(f"an answer does not say how long it is: {so_far[:end]!r}")

    def _ended(self) -> bool:
        """Whether all is there. No frame holds what ends the last chunk: JSON has no line ends inside."""
        if self._whole == -1:
            last = self._held[-1]
            return (last if len(last) >= len(_LAST_CHUNK) else b"".join(self._held[-len(_LAST_CHUNK) :])).endswith(
                _LAST_CHUNK
            )
        if self._whole is not None and self._size > self._whole:
            raise WrongAnswerError("there is more behind an answer than was asked for")
        return self._size == self._whole


def status_of(answer: bytes) -> int:
    return int(answer[9:12])


def session_of(answer: bytes) -> str:
    """The session that it opens; empty where it names none."""
    found = _SESSION.search(answer, 0, answer.find(b"\r\n\r\n"))
    return found[1].decode() if found else ""


def body_of(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not _CHUNKED.search(head):
        return body
    chunks: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\r\n", at)
        size = int(body[at:end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def frame_of(answer: bytes) -> bytes:
    """The frame in it: of a stream, in the last event that has data."""
    body = body_of(answer)
    if not _EVENTS.search(answer, 0, answer.find(b"\r\n\r\n")):
        return body
    frames = [data for event in _EVENT_END.split(body) if (data := _data_of(event))]
    if not frames:
        raise WrongAnswerError(f"a stream ended without an answer: {body[:300]!r}")
    return frames[-1]


def _data_of(event: bytes) -> bytes:
    fields = (line for line in event.splitlines() if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in fields)
