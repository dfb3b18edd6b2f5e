"""Heads of requests that were read before: a client says the same one over and over, but for the length of the body."""

from __future__ import annotations

import re
from typing import NamedTuple

from mcpx.settings import KiB
from mcpx.transports.http_parse import Head, HeadReader, HttpRequest

MAX_KEPT = 128  # heads; the oldest goes for one more
MAX_SIZE = 4 * KiB  # bytes of one that is kept

_END = b"\r\n\r\n"
# A line begins behind each line break, since llhttp takes no folded ones. A head with two of these was refused when it
# was first read, and is not kept; so whatever has the same bytes around one length differs in that length alone.
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]{1,18})\r\n", re.IGNORECASE)

Key = tuple[bytes, bytes]  # what stands before the length, and behind it


class Begun(NamedTuple):
    """A request of which the whole head has come."""

    head: Head
    behind: bytes  # what came behind it


class Heads:
    """Reads heads that come in one piece."""

    def __init__(self, max_head: int) -> None:
        self._max_head = max_head
        self._kept: dict[Key, Head] = {}

    def read(self, data: bytes, peer: str) -> Begun | None:
        """The request that begins with ``data``; ``None`` where more of its head is to come.

        Raises ``BadRequest`` as ``HeadReader`` does, which says what a head means: nothing is kept but what it said.
        """
        end = data.find(_END) + len(_END)
        length = _LENGTH.search(data, 0, end) if len(_END) <= end <= self._max_head else None
        if length is None:
            return self._read(data, peer)
        start, stop = length.span(1)
        key = (data[:start], data[stop:end])
        kept = self._kept.get(key)
        if kept is None:
            begun = self._read(data, peer)
            if begun is not None and end <= MAX_SIZE and "expect" not in begun.head.request.headers:
                self._keep(key, begun.head)
            return begun
        said, size = kept.request, length[1].decode()
        headers = {**said.headers, "content-length": size}
        request = HttpRequest(said.method, said.path, said.query, headers, b"", peer)
        return Begun(Head(request, kept.target, kept.version, int(size), kept.keep_alive, False), data[end:])

    def _read(self, data: bytes, peer: str) -> Begun | None:
        reader = HeadReader(self._max_head, peer)
        behind = reader.feed(data)
        return None if behind is None else Begun(reader.head, behind)

    def _keep(self, key: Key, head: Head) -> None:
        if len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = head
