"""Error codes by revision, and what becomes of an upstream's error on its way to a host.

JSON-RPC's own codes are in ``mcpx.wire.frames``. (2026-07-28 basic/index, Error Codes.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mcpx.errors import RpcError
from mcpx.spec.revisions import LATEST_LEGACY, V2025_11_25, V2026_07_28, is_modern
from mcpx.spec.span import ALWAYS, Span
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

RESOURCE_NOT_FOUND = -32002
URL_ELICITATION_REQUIRED = -32042
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

MODERN_CODES = frozenset(
    {HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION}
)  # only a modern server sends one

RESERVED = range(-32099, -32019)  # -32099 to -32020: codes that only the specification may define, since 2026-07-28


class Code(NamedTuple):
    """One error code: its name in the specification, and when it is defined."""

    code: int
    name: str
    span: Span


CODES: tuple[Code, ...] = (
    Code(PARSE_ERROR, "Parse error", ALWAYS),
    Code(INVALID_REQUEST, "Invalid request", ALWAYS),
    Code(METHOD_NOT_FOUND, "Method not found", ALWAYS),
    Code(INVALID_PARAMS, "Invalid params", ALWAYS),
    Code(INTERNAL_ERROR, "Internal error", ALWAYS),
    Code(RESOURCE_NOT_FOUND, "Resource not found", Span(until=LATEST_LEGACY)),
    Code(URL_ELICITATION_REQUIRED, "URL elicitation required", Span(V2025_11_25, V2025_11_25)),
    Code(HEADER_MISMATCH, "Header mismatch", Span(V2026_07_28)),
    Code(MISSING_CLIENT_CAPABILITY, "Missing required client capability", Span(V2026_07_28)),
    Code(UNSUPPORTED_VERSION, "Unsupported protocol version", Span(V2026_07_28)),
)


def unknown_item(kind: str, revision: str) -> int:
    """The code that says that a tool, prompt or resource (``kind``) does not exist."""
    return RESOURCE_NOT_FOUND if kind == "resource" and not is_modern(revision) else INVALID_PARAMS


def carry_error(method: str, error: RpcError, target: str) -> RpcError:
    """Say an upstream's ``error``, the answer to ``method``, to a host of revision ``target``.

    The very same object where nothing needs changing; mcpx's own errors (``revision`` is ``None``) always are.
    """
    if error.revision is None:
        return error
    if method == "resources/read" and error.code == RESOURCE_NOT_FOUND and is_modern(target):
        return _replaced(error, INVALID_PARAMS, error.data)
    return error


def _replaced(error: RpcError, code: int, data: Any) -> RpcError:
    return RpcError(code, error.message, data, revision=error.revision, server=error.server)
