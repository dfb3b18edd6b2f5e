"""The correlation of request ids on one connection, in both directions. No I/O: who waits, and how, is the caller's.

Ids are scoped to one byte stream (or one legacy session), and each side numbers its own requests. (2026-07-28
basic/index, Requests: a string or an integer, never null, and that of no other request in flight. Up to 2025-11-25 an
id is moreover never used again.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from mcpx.errors import LocalProtocolError, RemoteProtocolError
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_REQUEST, id_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msgspec import Raw

T = TypeVar("T")

_MAX_DIGITS = 19  # of an id that came back as a string; ours are counted up from 1 and will never be longer


class Outgoing(Generic[T]):
    """Requests that we sent and that are not yet answered. A slot is whatever the caller wants back with the answer."""

    __slots__ = ("_issued", "_slots")

    def __init__(self) -> None:
        self._issued = 0
        self._slots: dict[int | None, T] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[T]:
        return iter(self._slots.values())

    def issue(self, slot: T) -> int:
        """A new id: integers from 1, never used again on this connection."""
        self._issued = issued = self._issued + 1
        self._slots[issued] = slot
        return issued

    def settle(self, id: Raw) -> T | None:
        """The slot that an answer with this id belongs to, which no longer awaits one.

        ``None`` for an id that was never issued, is answered already, or was abandoned: such an answer is dropped. The
        peer may have made a string (``"7"``) or a float (``7.0``) of our integer.
        """
        return self._slots.pop(_issued(id), None)

    def find(self, id: Raw) -> T | None:
        """The slot that awaits an answer with this id, as ``settle`` reads it; it goes on awaiting it."""
        return self._slots.get(_issued(id))

    def abandon(self, id: int) -> bool:
        """Await no answer any more; say whether one was awaited. What still comes for the id is dropped."""
        if id not in self._slots:
            return False
        del self._slots[id]
        return True

    def drain(self) -> list[T]:
        """For the connection's end: every slot that awaits an answer, in the order of issue. None does afterwards."""
        slots = list(self._slots.values())
        self._slots.clear()
        return slots


class Incoming(Generic[T]):
    """Requests that the peer sent and that we have not yet done with, at most ``limit`` of them.

    They are told apart by the exact type and value of their ids: ``1`` and ``"1"`` are two. A slot is whatever the
    caller wants back when the peer names the request again.
    """

    __slots__ = ("_cancelled", "_limit", "_slots")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots: dict[int | str | None, T] = {}
        self._cancelled: set[int | str] = set()

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[T]:
        return iter(self._slots.values())

    @property
    def makes_room(self) -> bool:
        """Whether there is no room for one more request now, but will be as soon as a cancelled one has ended."""
        return len(self._slots) >= self._limit and bool(self._cancelled)

    def begin(self, id: Raw, slot: T) -> int | str:
        """A request has come; the key to ``end`` it by.

        Raises ``RemoteProtocolError``: ``-32600`` for an id that is null, fractional or otherwise none (then without
        an id to answer to), or that is in flight; ``-32603`` for one request more than the limit. Nothing has begun
        then, and the caller reads on, so that a cancellation still gets through.
        """
        key = id_key(id)
        if key is None:
            raise RemoteProtocolError(INVALID_REQUEST, "Invalid request: the id must be a string or an integer")
        if key in self._slots:
            raise RemoteProtocolError(INVALID_REQUEST, "Invalid request: a request with this id is in flight", id)
        if len(self._slots) >= self._limit:
            raise RemoteProtocolError(INTERNAL_ERROR, f"Too many requests in flight (the limit is {self._limit})", id)
        self._slots[key] = slot
        return key

    def find(self, id: Raw) -> T | None:
        """The slot of the request in flight that has this id."""
        return self._slots.get(id_key(id))

    def cancel(self, id: Raw) -> T | None:
        """The peer has cancelled a request: its slot, once. From now on it may not be answered, though still in flight.

        ``None`` where there is nothing to do: the id is unknown, done with, or cancelled before.
        """
        key = id_key(id)
        if key is None or key not in self._slots or key in self._cancelled:
            return None
        self._cancelled.add(key)
        return self._slots[key]

    def end(self, key: int | str) -> bool:
        """We are done with a request, once for each ``begin``; say whether it may be answered: a cancelled one may not.

        Raises ``LocalProtocolError`` where no such request is in flight.
        """
        if self._slots.pop(key, None) is None:
            raise LocalProtocolError(f"No request {key!r} is in flight")
        if key in self._cancelled:
            self._cancelled.remove(key)
            return False
        return True


def _issued(id: Raw) -> int | None:
    """The integer of ours that a peer's spelling of it means, if it can be one."""
    key = id_key(id)
    if not isinstance(key, str):
        return key
    if key.isascii() and key.isdigit() and key[0] != "0" and len(key) <= _MAX_DIGITS:
        return int(key)
    return None
