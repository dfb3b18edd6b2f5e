"""The least that a gateway does to a frame: read its envelope, give it another id, write it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

Id: TypeAlias = int | str


class Frame(msgspec.Struct, omit_defaults=True):
    """A JSON-RPC message whose payload stays as it is."""

    jsonrpc: str
    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


decode = msgspec.json.Decoder(Frame).decode
encode = msgspec.json.Encoder().encode


class Numbers:
    """The ids of requests under way: ours, and the host's for each."""

    def __init__(self) -> None:
        self._given: dict[Id, Id] = {}
        self._next = 0

    def there(self, line: bytes) -> bytes:
        """A frame of the host's for the upstream."""
        frame = decode(line)
        if frame.id is not UNSET and frame.method is not UNSET:
            self._next += 1
            self._given[self._next] = frame.id
            frame.id = self._next
        return encode(frame)

    def back(self, line: bytes) -> bytes:
        """A frame of the upstream's for the host."""
        frame = decode(line)
        if frame.id is not UNSET and frame.method is UNSET:
            frame.id = self._given.pop(frame.id)
        return encode(frame)


class Lines:
    """Chunks in, whole lines out."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        *lines, rest = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest = [rest] if rest else []
        return lines
