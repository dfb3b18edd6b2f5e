"""What is posted to a server over HTTP, one message a request, and what its answers say to whom."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw

from mcpx.errors import RemoteProtocolError
from mcpx.spec import meta
from mcpx.wire import frames
from mcpx.wire.raws import members_of, string_of

INITIALIZE = "initialize"
INITIALIZED = "notifications/initialized"
LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"


class Letter(msgspec.Struct, frozen=True, eq=False):
    """One message on its way to the server."""

    body: bytes
    method: str | None = None  # None: an answer
    id: int | None = None  # of a request of ours; None for what gets no answer
    params: dict[str, Raw] = {}
    version: str | None = None  # the one that a modern message names in its metadata

    @property
    def name(self) -> str | None:
        """The tool's name, where it is a call of one."""
        return string_of(self.params.get("name")) if self.method == "tools/call" else None


def read_letter(message: bytes) -> Letter:
    """A message of mcpx's own, with what its headers and its answer depend on."""
    frame = frames.decode_frame(message)
    if frame.method is UNSET:
        return Letter(message)
    params = frames.optional_members(frame.params)
    number = frames.id_key(frame.id) if isinstance(frame.id, Raw) else None
    assert number is None or isinstance(number, int)
    version: str | None = None
    if meta.MARK in message:
        version = string_of((members_of(params.get("_meta")) or {}).get(meta.PROTOCOL_VERSION))
    return Letter(message, frame.method, number, params, version)


class Answered(NamedTuple):
    """What a message of the server's is to one request."""

    body: bytes
    frame: frames.Frame | None = None  # the answer to that request; None for anything else
    alone: bool = True  # it is nothing beside that, so that whoever reads it finds the answer; a batch not all read


def read_answer(body: bytes, number: int, *, alone: bool) -> Answered:
    """Whether a message is the answer to the request ``number``.

    An error that names no request, or where it is ``alone`` in the HTTP answer another one, is for that request: there
    is nothing else that it could be for, and some servers cannot tell whose it is.
    """
    if frames.is_batch(body):
        return _among(body, number)
    try:
        frame = frames.decode_frame(body)
        kind = frames.kind(frame)
    except RemoteProtocolError:
        return Answered(body)
    if kind in ("request", "notification"):
        return Answered(body)
    if isinstance(frame.id, Raw) and _is(frame.id, number):
        return Answered(body, frame)
    if kind == "error" and (alone or frame.id in (UNSET, frames.NULL)):
        adopted = frames.Frame("2.0", id=Raw(b"%d" % number), error=frame.error)
        return Answered(frames.encode(adopted), adopted)
    return Answered(body)


def _among(body: bytes, number: int) -> Answered:
    """The answer in a batch, if it is in there; the batch stays whole."""
    try:
        for one in frames.split_batch(body):
            if (frame := read_answer(one, number, alone=False).frame) is not None:
                return Answered(body, frame, alone=False)
    except RemoteProtocolError:
        pass
    return Answered(body)


def _is(id: Raw, number: int) -> bool:
    """Whether an id is that of a request of ours, of which the server may have made a string."""
    key = frames.id_key(id)
    return key in (number, str(number))
