"""JSON-RPC 2.0 frames: one struct, decoded no deeper than mcpx routes on.

``params``, ``result``, ``error`` and ``id`` stay the raw JSON that the peer wrote (``msgspec.Raw``), so number
spelling, key order and unknown fields survive, and an id is echoed with its exact type and spelling. A field that is
absent is ``UNSET``, which is not ``null``.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class Frame(msgspec.Struct, gc=False):
    """One JSON-RPC message. Which kind it is follows from the fields that are set; see ``kind``."""

    jsonrpc: Literal["2.0"]
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


Kind = Literal["request", "notification", "result", "error"]


class ErrorObject(msgspec.Struct, gc=False):
    """The ``error`` member of an error response."""

    code: int
    message: str
    data: Raw | UnsetType = UNSET


class _Request(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int
    method: str
    params: Any


# The methods themselves: to look them up costs a tenth of what they do with a small frame.
_read_frame = msgspec.json.Decoder(Frame).decode
_read_frames = msgspec.json.Decoder(list[Raw]).decode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_error = msgspec.json.Decoder(ErrorObject).decode
_read_string = msgspec.json.Decoder(str).decode
_read_id = msgspec.json.Decoder(int | float | str).decode  # typed: a huge array in the place of an id costs nothing
_write = msgspec.json.Encoder().encode

_WHITESPACE = b" \t\r\n"
_UTF8_STEP = 64 * 1024  # bytes checked at a time: one emoji would otherwise blow up the text of a huge frame fourfold
_MAX_SAFE = 2**53  # from there on a number with a fraction or an exponent does not say which integer it is


def kind(frame: Frame) -> Kind:
    """The kind of a frame; raises ``RemoteProtocolError`` where its fields make none.

    An answer with both a result and an error is what the one of them says that is not null, as JSON-RPC 1.0 had it.
    """
    # Branches, where a table of the four would cost more than decoding a small frame does.
    if frame.method is not UNSET:
        if frame.result is UNSET and frame.error is UNSET:
            return "notification" if frame.id is UNSET else "request"
    elif frame.error is UNSET:
        if frame.result is not UNSET and frame.id is not UNSET:
            return "result"
    elif frame.result is UNSET:
        return "error"  # with or without an id: that of the request may not have been known
    elif frame.id is not UNSET and (frame.error == NULL) is not (frame.result == NULL):
        return "result" if frame.error == NULL else "error"
    known = frame.id if frame.id is not UNSET and id_key(frame.id) is not None else None
    raise RemoteProtocolError(INVALID_REQUEST, "Not a JSON-RPC request, notification or response", known)


def decode_frame(line: bytes) -> Frame:
    """Decode one message.

    Raises ``RemoteProtocolError`` with ``-32700`` for bytes that are not UTF-8 or not JSON, and ``-32600`` for JSON
    that is no JSON-RPC object (its id is in the error where one could be read). A batch is no frame: see ``is_batch``.

    An escaped lone surrogate (``\\ud800``; JavaScript writes one where it has cut a string within a character) stands
    for no character, and strict readers refuse a message that holds one. It is replaced by U+FFFD; in an id, where that
    would make it another one, it is an error.
    """
    if not line.isascii():
        _check_utf8(line)
    try:
        return _read_frame(line)
    except msgspec.ValidationError:
        raise _diagnose(line) from None
    except (msgspec.DecodeError, RecursionError) as error:
        mended = _without_lone_surrogates(line)
        if mended is None:
            raise RemoteProtocolError(PARSE_ERROR, f"Parse error: {_plain(error)}") from None
    frame = decode_frame(mended)
    if frame.id is not UNSET and _REPLACEMENT in bytes(frame.id):
        raise RemoteProtocolError(INVALID_REQUEST, "Invalid request: the id is no Unicode text")
    return frame


def is_batch(line: bytes) -> bool:
    """Whether a line holds a JSON array, the batch of JSON-RPC 2.0 (which of the revisions only 2025-03-26 has)."""
    return not line.startswith(b"{") and line.lstrip(_WHITESPACE).startswith(b"[")


def split_batch(line: bytes) -> list[bytes]:
    """The messages of a batch, each as its own bytes, to be decoded one by one.

    Raises ``RemoteProtocolError`` with ``-32700`` for what is not UTF-8 or not JSON, and ``-32600`` for an empty batch
    (JSON-RPC 2.0, section 6).
    """
    if not line.isascii():
        _check_utf8(line)
    try:
        messages = _read_frames(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        mended = _without_lone_surrogates(line)
        if mended is None:
            raise RemoteProtocolError(PARSE_ERROR, f"Parse error: {_plain(error)}") from None
        return split_batch(mended)
    if not messages:
        raise RemoteProtocolError(INVALID_REQUEST, "Invalid request: an empty batch")
    return [bytes(message) for message in messages]


def members(raw: Raw | bytes | UnsetType) -> dict[str, Raw]:
    """The members of a raw JSON object, each still raw, in the order they were written.

    ``UNSET`` gives an empty mapping. Raises ``RemoteProtocolError`` (``-32602``) where the value is no object.
    """
    if raw is UNSET:
        return {}
    try:
        return _read_members(raw)
    except (msgspec.MsgspecError, RecursionError):
        raise RemoteProtocolError(INVALID_PARAMS, "Invalid params: not a JSON object") from None


def optional_members(raw: Raw | UnsetType) -> dict[str, Raw]:
    """The members of an object that may be left out; some peers write ``null`` for that. Raises as ``members`` does."""
    return {} if raw is UNSET or raw == NULL else members(raw)


def error_object(raw: Raw) -> ErrorObject:
    """Decode an ``error`` member; it never raises.

    A code spelled as a float (``-32601.0``) and a missing message are put up with. Any other malformed error comes back
    as ``-32603`` with the raw value as its data.
    """
    try:
        return _read_error(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        fields = _read_members(raw)
        code = id_key(fields["code"])
        message = _read_string(fields["message"]) if "message" in fields else "The peer gave no reason"
        if isinstance(code, int):
            return ErrorObject(code, message, fields.get("data", UNSET))
    except (msgspec.MsgspecError, RecursionError, KeyError):
        pass
    return ErrorObject(INTERNAL_ERROR, "The peer sent a malformed error object", raw)


def encode(value: Any) -> bytes:
    """Encode any value of structs, builtins and ``Raw`` as compact JSON."""
    return _write(value)


def to_raw(value: Any) -> Raw:
    """Encode a value into ``Raw``, to be put into a frame."""
    return Raw(_write(value))


def canonical(value: Any) -> bytes:
    """One spelling for one meaning: key order and spacing make no difference.

    What has no meaning here, such as a number out of any range, is its own spelling.
    """
    written = _write(value)
    try:
        plain: Any = msgspec.json.decode(written)
        return msgspec.json.encode(plain, order="deterministic")
    except (msgspec.MsgspecError, RecursionError):
        return written


def encode_request(id: int, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of our own as a message; the values of ``params`` may be ``Raw``."""
    return _write(_Request("2.0", id, method, params))


def encode_result(id: Raw, payload: Raw) -> bytes:
    """A result as a message, with its payload copied once and never looked at."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', payload, b"}"))


def request(id: Raw, method: str, params: Any = UNSET) -> Frame:
    """A request. ``params`` is any value msgspec can encode, ``Raw`` for one passed through, ``UNSET`` for none."""
    return Frame("2.0", id=id, method=method, params=_optional(params))


def notification(method: str, params: Any = UNSET) -> Frame:
    """A notification; ``params`` as for ``request``."""
    return Frame("2.0", method=method, params=_optional(params))


def result(id: Raw, value: Any) -> Frame:
    """A result response; ``value`` is any value msgspec can encode, ``Raw`` for one passed through."""
    return Frame("2.0", id=id, result=value if isinstance(value, Raw) else to_raw(value))


def error(id: Raw | UnsetType, code: int, message: str, data: Any = None) -> Frame:
    """An error response. ``data=None`` leaves the member out; ``id=UNSET`` the id."""
    body = ErrorObject(code, message, UNSET if data is None else (data if isinstance(data, Raw) else to_raw(data)))
    return Frame("2.0", id=id, error=to_raw(body))


NULL = Raw(b"null")


def id_key(raw: Raw | bytes) -> str | int | None:
    """The value of a request id, by which it is matched: a ``str`` or an ``int``; ``None`` where it is no valid id.

    ``1`` and ``"1"`` are two ids. A number with a fraction, ``null``, a boolean and anything structured are none; a
    number that is whole however it is spelled (``7.0``) counts as that whole number, because some peers spell it so.
    (2026-07-28 basic/index, Requests: a string or an integer, never null.)
    """
    try:
        value = _read_id(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _MAX_SAFE else None
    return value


def _optional(value: Any) -> Raw | UnsetType:
    return value if isinstance(value, (Raw, UnsetType)) else to_raw(value)


def _check_utf8(line: bytes) -> None:
    view = memoryview(line)
    position = 0
    try:
        while position < len(line):
            step = view[position : position + _UTF8_STEP]
            position += utf_8_decode(step, "strict", position + len(step) == len(line))[1]
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(PARSE_ERROR, f"Parse error: not UTF-8 at byte {position + error.start}") from None


_REPLACEMENT = b"\\ufffd"  # as long as what it replaces

# All up to the next lone surrogate in one match, so that the work is linear and a call is paid only for each of them.
_LONE_SURROGATE = re.compile(
    rb"""(?: [^\\]++ | \\ [^u] | \\ u (?![dD][89a-fA-F])
           | \\u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} )*+
         ( \\u[dD][89a-fA-F][0-9a-fA-F]{2} )?""",
    re.DOTALL | re.VERBOSE,
)


def _without_lone_surrogates(line: bytes) -> bytes | None:
    """The line with each escaped lone surrogate replaced; ``None`` if it has none."""
    mended: bytearray | None = None
    for match in _LONE_SURROGATE.finditer(line):
        if match[1] is not None:
            mended = mended or bytearray(line)
            mended[match.start(1) : match.end(1)] = _REPLACEMENT
    return None if mended is None else bytes(mended)


def _diagnose(line: bytes) -> RemoteProtocolError:
    """Say what is wrong with JSON that did not fit ``Frame``, with the id if it has a usable one."""
    try:
        fields = _read_members(line)
    except msgspec.ValidationError:
        # JSON of another kind, unless it is none at all: the wrong type may come before the mistake.
        try:
            msgspec.json.decode(line, type=Raw)
        except (msgspec.DecodeError, RecursionError) as error:
            return RemoteProtocolError(PARSE_ERROR, f"Parse error: {_plain(error)}")
        return RemoteProtocolError(INVALID_REQUEST, "Invalid request: not a JSON-RPC object")
    except (msgspec.DecodeError, RecursionError) as error:
        return RemoteProtocolError(PARSE_ERROR, f"Parse error: {_plain(error)}")
    raw = fields.get("id")
    known = raw if raw is not None and id_key(raw) is not None else None
    if bytes(fields.get("jsonrpc", b"")) != b'"2.0"':
        return RemoteProtocolError(INVALID_REQUEST, 'Invalid request: "jsonrpc" must be "2.0"', known)
    return RemoteProtocolError(INVALID_REQUEST, 'Invalid request: "method" must be a string', known)


def _plain(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
