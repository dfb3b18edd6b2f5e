"""Whose message was it, that was too long to be kept?

Of an oversize message only its two ends are left. The members at the top level of a JSON object can be read from
either end: forwards from its first brace, and backwards from its last, because in valid JSON a quote that no backslash
precedes always bounds a string. What lies between the ends is unknown, so only what was seen whole counts, and nothing
for being likely: an ``"id"`` further in is none, and of two that differ neither is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Raw

from mcpx.wire.frames import id_key
from mcpx.wire.lines import KEPT, Oversize
from mcpx.wire.raws import string_of


class OversizeFrame(NamedTuple):
    """What is certain of an oversize message; ``None`` for what is not."""

    id: Raw | None  # its request id as it was written, if that is a valid one
    is_response: bool | None  # True: a result or an error. False: a request (or a notification, where `id` is None)
    method: str | None


class _Direction(NamedTuple):
    """A way to read JSON, which is symmetric but for the escapes in strings."""

    token: re.Pattern[bytes]  # one token, if it is whole: a string has both quotes, a number something beside it
    inward: bytes
    outward: bytes
    step: int


_FORWARDS = _Direction(
    re.compile(rb'[ \t\r\n]*+("(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^ \t\r\n"{}\[\]:,]++(?=.))', re.DOTALL), b"{[", b"}]", 1
)
# The text comes reversed, so that a quote within a string is followed by a backslash, and one that bounds it is not.
_BACKWARDS = _Direction(
    re.compile(rb'[ \t\r\n]*+("(?:[^"]|"(?=\\))*+"(?=[^\\])|[{}\[\]:,]|[^ \t\r\n"{}\[\]:,]++(?=.))', re.DOTALL),
    b"}]",
    b"{[",
    -1,
)

_UNKNOWN = OversizeFrame(None, None, None)
_NESTED = b"{}"  # an object, an array, or whatever was not seen whole


def oversize_frame(message: Oversize) -> OversizeFrame:
    """What can be said for certain of a message over the size limit, taking it to be a valid one.

    Nothing at all where it does not look like one JSON-RPC 2.0 object: noise, a batch, two messages on one line.
    """
    found: dict[str, bytes] = {}
    for text, direction in ((message.head, _FORWARDS), (message.tail[::-1], _BACKWARDS)):
        members = _members(text, direction, whole=len(text) == message.size)
        if members is None:
            return _UNKNOWN
        for name, value in members:
            if found.setdefault(name, value) != value:
                return _UNKNOWN
    if found.get("jsonrpc") != b'"2.0"':
        return _UNKNOWN
    request_id = found.get("id", _NESTED)
    answers, asks = "result" in found or "error" in found, "method" in found
    return OversizeFrame(
        id=None if id_key(request_id) is None else Raw(request_id),
        is_response=answers if answers != asks else None,
        method=string_of(Raw(found.get("method", _NESTED))),
    )


def unreadable_frame(line: bytes) -> OversizeFrame:
    """The same for a line that is no valid JSON: its ends tell whose it was, whatever is wrong between them."""
    return oversize_frame(Oversize(len(line), line[:KEPT], line[-KEPT:]))


def _members(text: bytes, direction: _Direction, *, whole: bool) -> list[tuple[str, bytes]] | None:
    """The members of the outermost object, as far as ``text`` shows them; ``None`` where it begins with no object."""
    written = _written(text, direction, whole=whole)
    if written is None:
        return None
    members: list[tuple[str, bytes]] = []
    for member in written:
        cut = member is written[-1]
        match member[:: direction.step]:
            case [key, b":", value] if (name := string_of(Raw(key))) is not None:
                members.append((name, value))
            case [key, b":"] if cut and (name := string_of(Raw(key))) is not None:
                members.append((name, _NESTED))
            case _ if not cut:
                return None
            case _:
                pass
    return members


def _written(text: bytes, direction: _Direction, *, whole: bool) -> list[list[bytes]] | None:
    """The tokens at the object's own level, a list for each member, in the order they are read. The last may be cut.

    ``whole`` says that ``text`` is all of the message, so that the object may end in it.
    """
    written: list[list[bytes]] = [[]]
    depth = position = 0
    while match := direction.token.match(text, position):
        position = match.end()
        token = match[1][:: direction.step]
        if token in direction.inward:
            if depth == 0 and token != direction.inward[:1]:
                return None
            if depth == 1:
                written[-1].append(_NESTED)
            depth += 1
        elif token in direction.outward:
            depth -= 1
            if depth <= 0:
                return written if whole and depth == 0 and not text[position:].strip() else None
        elif depth == 0:
            return None
        elif depth == 1 and token == b",":
            written.append([])
        elif depth == 1:
            written[-1].append(token)
    return written if position else None
