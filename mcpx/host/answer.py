"""What goes back to a host: results as they are, and the one place where an exception becomes an error on the wire."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple, cast

from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import (
    LocalProtocolError,
    McpxError,
    RemoteProtocolError,
    RpcError,
    UnknownItem,
    UpstreamError,
    leaves,
)
from mcpx.spec.codes import carry_error, unknown_item
from mcpx.spec.revisions import IDLESS_ERRORS, LATEST_LEGACY
from mcpx.wire.frames import INTERNAL_ERROR, NULL, encode, encode_result
from mcpx.wire.frames import error as error_frame

log = logging.getLogger("mcpx.host")


class Refused(McpxError):
    """mcpx itself does not take, or does not finish, a request: it is stopping, or has too many."""


class Answer(NamedTuple):
    """What goes back for one request, as a whole frame. ``code`` is the error's, ``None`` for a result.

    ``epilogue`` is a notification that follows where other requests share the way, as on a pipe.
    """

    data: bytes
    code: int | None = None
    epilogue: bytes | None = None


def result(id: Raw, payload: Raw, epilogue: bytes | None = None) -> Answer:
    """A result, with its payload copied once and never looked at."""
    return Answer(encode_result(id, payload), None, epilogue)


def error(id: Raw | None, failure: BaseException, method: str, revision: str | None) -> Answer:
    """The error that answers a request of ``method`` which ended in ``failure``.

    ``revision`` is the host's, ``None`` before it has spoken; ``id`` is ``None`` where it could not be known.
    """
    code, message, data = _wire_error(failure, method, revision)
    return Answer(encode(error_frame(_unknown_id(revision) if id is None else id, code, message, data)), code)


def _wire_error(failure: BaseException, method: str, revision: str | None) -> tuple[int, str, Any]:
    """The code, message and data for an exception, which for anything but what mcpx raises on purpose is a bug."""
    cause = _cause(failure)
    match cause:
        case RpcError():
            told = cause if revision is None else carry_error(method, cause, revision)
            return told.code, told.message, told.data
        case UnknownItem():
            code = unknown_item(cause.kind, revision or LATEST_LEGACY)
            return code, str(cause), {"uri": cause.name} if cause.kind == "resource" else None
        case RemoteProtocolError():
            return cause.code, cause.message, None
        case UpstreamError():
            return INTERNAL_ERROR, str(cause), {"server": cause.server, "reason": cause.reason}
        case McpxError() if not isinstance(cause, LocalProtocolError):
            return INTERNAL_ERROR, str(cause), {"reason": str(cause)}
        case _:
            log.error("A bug in mcpx ended a request of %s", method, exc_info=failure)
            return INTERNAL_ERROR, "Internal error", None


def _cause(failure: BaseException) -> BaseException:
    """What befell the request: of a group its first exception, but one that is a bug before any that is not."""
    if not isinstance(failure, BaseExceptionGroup):
        return failure
    causes = list(leaves(cast("BaseExceptionGroup[BaseException]", failure)))
    return next((cause for cause in causes if not isinstance(cause, McpxError)), causes[0])


def _unknown_id(revision: str | None) -> Raw | UnsetType:
    """How an error says that it does not know its request's id: as null, until the schemas let it be left out."""
    return UNSET if revision in IDLESS_ERRORS else NULL
