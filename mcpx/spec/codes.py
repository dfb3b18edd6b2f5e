"""Error codes by revision, and what becomes of an upstream's error on its way to a host.

JSON-RPC's own codes are in ``mcpx.wire.frames``. (2026-07-28 basic/index, Error Codes.)
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpx.errors import RpcError
from mcpx.spec.revisions import LATEST_LEGACY, V2025_11_25, V2026_07_28, Era, era_of, is_modern
from mcpx.spec.span import ALWAYS, Span
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, to_raw
from mcpx.wire.raws import elements_of, members_of

if TYPE_CHECKING:
    from msgspec import Raw

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


# The HTTP status of a modern answer that is one of these errors; of any other, a matter of what befell the request.
# (2026-07-28 basic/transports/streamable-http, Protocol Version Header and Server Validation; basic/index, Per-request
# protocol fields.)
STATUS: dict[int | None, int] = {
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}


def unknown_item(kind: str, revision: str) -> int:
    """The code that says that a tool, prompt or resource (``kind``) does not exist."""
    return RESOURCE_NOT_FOUND if kind == "resource" and not is_modern(revision) else INVALID_PARAMS


Becomes = Callable[[RpcError], RpcError]


class Crossing(NamedTuple):
    """What becomes of some codes on their way; ``None`` stands for any method or era."""

    codes: Container[int]
    method: str | None
    source: Era | None
    target: Era | None
    becomes: Becomes


def _renumbered(code: int) -> Becomes:
    return lambda error: RpcError(code, error.message, error.data, revision=error.revision, server=error.server)


def _refused(error: RpcError) -> RpcError:
    """The error is about the request that mcpx made, so it is mcpx's to report."""
    server = error.server or "The server"
    reason = f"{server} refused the request as mcpx made it: {error.message} ({error.code})"
    return RpcError(INTERNAL_ERROR, reason, {"server": error.server, "reason": reason}, server=error.server)


def _unassigned(error: RpcError) -> RpcError:
    """A code that only the specification may define, and does not, moves into the data."""
    given = None if error.data is None else members_of(to_raw(error.data))
    data: dict[str, Any] = {"upstreamCode": error.code}
    if given is not None:
        data = {**given, **data}
    elif error.data is not None:
        data["data"] = error.data
    return RpcError(INTERNAL_ERROR, error.message, data, revision=error.revision, server=error.server)


# The first row that fits counts; an error that none fits passes as it is.
CROSSINGS: tuple[Crossing, ...] = (
    # A resource that does not exist (2026-07-28 changelog, minor change 6)
    Crossing({RESOURCE_NOT_FOUND}, "resources/read", None, "modern", _renumbered(INVALID_PARAMS)),
    Crossing({INVALID_PARAMS}, "resources/read", "modern", "legacy", _renumbered(RESOURCE_NOT_FOUND)),
    # Elsewhere it means something of the server's own, and no modern peer may send it (2026-07-28 basic/index).
    Crossing({RESOURCE_NOT_FOUND}, None, None, "modern", _unassigned),
    Crossing({HEADER_MISMATCH, UNSUPPORTED_VERSION}, None, None, None, _refused),
    Crossing({MISSING_CLIENT_CAPABILITY}, None, None, "legacy", _renumbered(INTERNAL_ERROR)),
    Crossing(set(RESERVED) - MODERN_CODES, None, None, "modern", _unassigned),
)


class Form(NamedTuple):
    """What the data of an error must hold, in the revisions that say so."""

    span: Span
    member: str
    read: Callable[[Raw | None], object | None]  # gives ``None`` for what the member may not be

    def fits(self, error: RpcError) -> bool:
        data = None if error.data is None else members_of(to_raw(error.data))
        return data is not None and self.read(data.get(self.member)) is not None


_FORMS: dict[int, Form] = {
    MISSING_CLIENT_CAPABILITY: Form(Span(V2026_07_28), "requiredCapabilities", members_of),
    URL_ELICITATION_REQUIRED: Form(Span(V2025_11_25, V2025_11_25), "elicitations", elements_of),
}


def carry_error(method: str, error: RpcError, target: str) -> RpcError:
    """Say an upstream's ``error``, the answer to ``method``, to a host of revision ``target``.

    The very same object where nothing changes. mcpx's own errors (their ``revision`` is ``None``) always pass.
    """
    if error.revision is None:
        return error
    form = _FORMS.get(error.code)
    if form is not None and form.span.covers(target) and not form.fits(error):
        return _unassigned(error)
    source, era = era_of(error.revision), era_of(target)
    for row in CROSSINGS:
        if (
            error.code in row.codes
            and row.method in (None, method)
            and row.source in (None, source)
            and row.target in (None, era)
        ):
            return row.becomes(error)
    return error
