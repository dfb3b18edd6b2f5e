"""Cursors of merged lists, which stay good while upstreams change.

A cursor is opaque to hosts (2026-07-28 server/utilities/pagination). It names the list, the last few items given out,
and the place: how many of the last server's items were given. The list goes on

- after the last given item, if it is still there, otherwise after the one given before it, and so on;
- where none of them is left, at the place in that server's part, whatever became of the other servers;
- where that server has no items any more, after the servers that come before it in the configuration.

So long as one of the remembered items is still in the list, no item that stayed is given twice or left out, whatever
was added or removed around it. Nothing is kept between two pages, so any replica of mcpx can take the next one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from mcpx.errors import RpcError
from mcpx.names import server_part
from mcpx.wire.frames import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.spec.lists import ListKind

REMEMBERED = 8  # items named in a cursor: how many must vanish at once before the place has to do
MAX_CURSOR = 4096  # characters; mcpx's own are a few hundred at most
_MARK_BYTES = 9  # of an item's hash: 12 characters, and no collision in any list that fits into memory

Key = tuple[str, str]  # server, and the name, URI or template by which the server itself calls the item
_Mark = Annotated[str, msgspec.Meta(min_length=12, max_length=12)]  # stands for a key; see `_mark`


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a cursor says, before and after its encoding."""

    kind: str
    server: str  # the server part of the last item given
    given: Annotated[int, msgspec.Meta(ge=1)]  # how many of that server's items were given
    # The last items given, newest first.
    marks: Annotated[tuple[_Mark, ...], msgspec.Meta(min_length=1, max_length=REMEMBERED)]
    # Whether the page before was for one caller alone, as the next one is then, whatever became of the list
    # (2026-07-28 server/utilities/caching, Interaction with Pagination).
    private: bool = False


class Slice(NamedTuple):
    """A page, as a slice of the whole list, and the cursor to the next one, if there is one."""

    start: int
    stop: int
    next_cursor: str | None


_decoder = msgspec.json.Decoder(Cursor)


def encode(cursor: Cursor) -> str:
    """The cursor as hosts see it."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).rstrip(b"=").decode()


def decode(text: str, kind: ListKind) -> Cursor:
    """Read a cursor of a list of ``kind``.

    Raises ``RpcError`` (``-32602``) for anything that ``encode`` would not have written for that kind, the empty
    string too.
    """
    if len(text) <= MAX_CURSOR:
        try:
            cursor = _decoder.decode(base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True))
        except (binascii.Error, UnicodeEncodeError, msgspec.MsgspecError, RecursionError):
            cursor = None
        # One spelling only: what reads the same but is spelled differently is not from here.
        if cursor is not None and cursor.kind == kind and encode(cursor) == text:
            return cursor
    raise _bad_cursor()


def page(
    kind: ListKind,
    keys: Sequence[Key],
    servers: Sequence[str],
    cursor: str | None,
    size: int,
    *,
    private: bool = False,
) -> Slice:
    """The page of a merged list that a cursor asks for, the first one for ``None``.

    ``keys`` are the list's items, each once, grouped by server in the order of ``servers``, which is the
    configuration's. ``private`` goes into the next cursor. Raises ``RpcError`` (``-32602``) for a cursor that is not
    mcpx's, is for another kind of list, or whose place went with a server that is no longer configured.
    """
    if size < 1:
        raise ValueError(f"a page holds at least one item, not {size}")
    start = 0 if cursor is None else _resume(decode(cursor, kind), keys, servers)
    stop = min(start + size, len(keys))
    if stop >= len(keys):
        return Slice(start, stop, None)
    return Slice(start, stop, encode(_after(kind, keys, servers, stop, private=private)))


def _after(kind: ListKind, keys: Sequence[Key], servers: Sequence[str], stop: int, *, private: bool) -> Cursor:
    """The cursor that names the place before ``keys[stop]``; there is an item before it."""
    server = keys[stop - 1][0]
    return Cursor(
        kind,
        server_part(server),
        stop - _span(keys, servers, servers.index(server)).start,
        tuple(_mark(key) for key in reversed(keys[max(0, stop - REMEMBERED) : stop])),
        private,
    )


def _resume(cursor: Cursor, keys: Sequence[Key], servers: Sequence[str]) -> int:
    """Where a list goes on."""
    before = _place(cursor, keys, servers)
    if before is not None and before > 0 and _mark(keys[before - 1]) == cursor.marks[0]:
        return before  # nothing has changed here
    where = {_mark(key): index for index, key in enumerate(keys)}
    for mark in cursor.marks:
        if mark in where:
            return where[mark] + 1
    if before is None:
        raise _bad_cursor()
    return before


def _place(cursor: Cursor, keys: Sequence[Key], servers: Sequence[str]) -> int | None:
    """The index that a cursor's place has now; ``None`` where its server is not configured any more."""
    parts = [server_part(server) for server in servers]
    if cursor.server not in parts:
        return None
    at = parts.index(cursor.server)
    own = _span(keys, servers, at)
    return own.start + min(cursor.given, len(own))


def _span(keys: Sequence[Key], servers: Sequence[str], at: int) -> range:
    """Where the items of one server stand in a list, which may be long."""
    rank = {server: index for index, server in enumerate(servers)}

    def rank_of(key: Key) -> int:
        return rank[key[0]]

    return range(bisect_left(keys, at, key=rank_of), bisect_right(keys, at, key=rank_of))


def _mark(key: Key) -> str:
    """A short stand-in for an item's key, which may be long."""
    digest = hashlib.sha256(msgspec.json.encode(key)).digest()
    return base64.urlsafe_b64encode(digest[:_MARK_BYTES]).decode()


def _bad_cursor() -> RpcError:
    return RpcError(INVALID_PARAMS, "Invalid cursor. Ask for the list from its beginning, without a cursor.")
