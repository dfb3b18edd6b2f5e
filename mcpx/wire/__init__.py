"""Bytes to JSON-RPC frames and back: the envelope, newline framing, and the correlation of request ids; server-sent
events (``sse``) and the values of HTTP headers (``headers``), each had from its module.

No I/O, no clock and no randomness in here, and nothing of MCP but the rules that hold for every frame. Bytes and values
go in, values and bytes come out; the rooms above move them.
"""

from mcpx.wire.frames import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NULL,
    PARSE_ERROR,
    ErrorObject,
    Frame,
    Kind,
    decode_frame,
    encode,
    encode_request,
    encode_result,
    error,
    error_object,
    id_key,
    is_batch,
    kind,
    members,
    notification,
    request,
    result,
    split_batch,
    to_raw,
)
from mcpx.wire.lines import LineSplitter, Oversize, one_line
from mcpx.wire.oversize import OversizeFrame, oversize_frame
from mcpx.wire.peer import Incoming, Outgoing

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "NULL",
    "PARSE_ERROR",
    "ErrorObject",
    "Frame",
    "Incoming",
    "Kind",
    "LineSplitter",
    "Outgoing",
    "Oversize",
    "OversizeFrame",
    "decode_frame",
    "encode",
    "encode_request",
    "encode_result",
    "error",
    "error_object",
    "id_key",
    "is_batch",
    "kind",
    "members",
    "notification",
    "one_line",
    "oversize_frame",
    "request",
    "result",
    "split_batch",
    "to_raw",
]
