"""Frames of a WebSocket as they come in, counted before the library has to do with them. (RFC 6455 section 5.2.)

A frame can be two bytes long and say nothing: thirty thousand of them fit into one read, take the library a second, and
nobody has a turn meanwhile. So what has come is handed on in portions. And a message can be made of any number of them,
which no bound on its size would ever end.
"""

from __future__ import annotations

import trio

PORTION = 128  # frames that are handed on at once; some milliseconds of work
MAX_PIECES = 100_000  # frames of one message; of a long one in pieces of usual size there are some thousands

_END = b"\r\n\r\n"  # of the head of the handshake
_FINAL, _CONTROL = 0x80, 0x08
_MASKED, _LENGTH, _MASK_SIZE = 0x80, 0x7F, 4
_LENGTH_SIZE = {126: 2, 127: 8}  # bytes of a length that does not fit into the first seven bits


class FrameFlood(trio.BrokenResourceError):
    """A message is in more pieces than anybody would make of it."""

    def __init__(self) -> None:
        super().__init__(f"a message came in more than {MAX_PIECES} pieces")


class Frames:
    """What has come on a WebSocket and is to be handed on: the head of a handshake first, and then frames."""

    def __init__(self) -> None:
        self.in_head = True
        self._seen = b""  # of the head, where its end may have begun
        self._data = b""
        self._at = 0  # what is before it has been handed on
        self._head = bytearray()  # of the frame under way, as long as it is not complete
        self._missing = 0  # bytes of its payload
        self._pieces = 0  # of the message under way

    def take_head(self, data: bytes) -> bytes:
        """What of this belongs to the head. Frames that came behind it wait."""
        seen = self._seen + data
        end = seen.find(_END)
        self._seen = seen[1 - len(_END) :]
        if end < 0:
            return data
        self.in_head = False
        cut = end + len(_END) - (len(seen) - len(data))
        self.put(data[cut:])
        return data[:cut]

    @property
    def waiting(self) -> bool:
        """Whether there is more."""
        return self._at < len(self._data)

    def put(self, data: bytes) -> None:
        """More has come, after all of what had come before was taken."""
        assert not self.waiting
        self._data, self._at = data, 0

    def take(self) -> bytes:
        """The next portion. Raises ``FrameFlood``, after which there is nothing more to take."""
        start = self._at
        self._at = self._portion_end()
        return self._data if self._at - start == len(self._data) else self._data[start : self._at]

    def _portion_end(self) -> int:
        data, at, frames = self._data, self._at, 0
        while at < len(data) and frames < PORTION:
            if self._missing:
                step = min(self._missing, len(data) - at)
                self._missing -= step
                at += step
                continue
            head = self._head
            step = min(_head_size(head) - len(head), len(data) - at)
            head += data[at : at + step]
            at += step
            if len(head) == _head_size(head):
                frames += 1
                self._begin(head)
                head.clear()
        return at

    def _begin(self, head: bytearray) -> None:
        """A frame begins."""
        size = _LENGTH_SIZE.get(head[1] & _LENGTH, 0)
        self._missing = int.from_bytes(head[2 : 2 + size], "big") if size else head[1] & _LENGTH
        if head[0] & _CONTROL:
            return
        self._pieces += 1
        if head[0] & _FINAL:
            self._pieces = 0
        elif self._pieces >= MAX_PIECES:
            raise FrameFlood


def _head_size(head: bytearray) -> int:
    """How long the head of a frame is, as far as that is known."""
    if len(head) < 2:
        return 2
    return 2 + _LENGTH_SIZE.get(head[1] & _LENGTH, 0) + (_MASK_SIZE if head[1] & _MASKED else 0)
