"""What a server may ask of a host, by its revision and by what it was told that the host can do; and what the answer
is where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.errors import RpcError
from mcpx.spec.carry import carry_result
from mcpx.spec.edits import CannotSay
from mcpx.spec.meta import PER_HOP_KEYS
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import V2025_11_25, is_modern
from mcpx.spec.span import Span
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NULL, to_raw
from mcpx.wire.raws import FALSE, is_object, members_of, string_of, without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

# What a host must have declared to be asked something.
ASKS: dict[str, str] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}

_CONTEXT = Span(V2025_11_25)  # a host declares whether context may be included
_CANCELLED = to_raw({"action": "cancel"})


def permit_question(method: str, params: dict[str, Raw], told: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """The params with which a host may be asked what a server of ``revision`` asks, which was ``told`` what that host
    can do.

    Raises ``RpcError``, the answer to a question that may not be put: ``-32601`` for one that the revision has not or
    the host did not declare, ``-32602`` for a mode or for tools that it did not (2025-11-25 client/elicitation, Error
    Handling; schema, CreateMessageRequestParams; client/roots, Error Handling).
    """
    row = METHODS.get(method)
    span = None if row is None else row.question if is_modern(revision) else row.upstream
    if method not in ASKS or span is None or not span.covers(revision):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
    capability = ASKS[method]
    members = members_of(told.get(capability))
    if members is None:
        raise RpcError(METHOD_NOT_FOUND, f"The host did not declare {capability}")
    declared = {name for name, value in members.items() if value not in (NULL, FALSE)}
    if capability == "elicitation":
        mode = "form" if "mode" not in params else string_of(params["mode"])
        # Without any mode it is forms that are meant (2025-11-25 client/elicitation, Capabilities).
        if mode not in ("form", "url") or not (mode in declared or (mode == "form" and "url" not in declared)):
            raise RpcError(INVALID_PARAMS, f"Invalid params: the host did not declare elicitation of the mode {mode}")
    elif capability == "sampling":
        if "tools" not in declared and any(params.get(name, NULL) != NULL for name in ("tools", "toolChoice")):
            raise RpcError(INVALID_PARAMS, "Invalid params: the host did not declare sampling.tools")
        if "context" not in declared and _CONTEXT.covers(revision):
            params = without(params, "includeContext")  # which a client may ignore
    return params


def without_hop_keys(params: dict[str, Raw]) -> dict[str, Raw]:
    """Params without what of their ``_meta`` is between mcpx and the server alone, such as a progress token."""
    meta = members_of(params.get("_meta"))
    if meta is None or PER_HOP_KEYS.isdisjoint(meta):
        return params
    kept = without(meta, *PER_HOP_KEYS)
    return {**params, "_meta": to_raw(kept)} if kept else without(params, "_meta")


def carry_answer(method: str, outcome: Raw | RpcError, source: str, target: str) -> Raw | RpcError:
    """A host's answer to a question, written in ``source``, as a server of ``target`` is told it.

    An error stays one where the server can be told of it, which a modern one cannot but for elicitation: then it is
    returned all the same, and the caller has no answer. An answer that ``target`` has no way to say is a refusal.
    """
    if isinstance(outcome, RpcError):
        return refusal(method, outcome.message) if is_modern(target) else outcome
    if not is_object(outcome):
        return refusal(method, "The host's answer is no object")
    try:
        carried = carry_result(method, outcome, source, target)
        # Within a request no answer has a type, and a legacy server is told of none in any result.
        members = {} if is_modern(target) else members_of(carried) or {}
        return to_raw(without(members, "resultType")) if "resultType" in members else carried
    except CannotSay as error:
        return refusal(method, str(error))


def refusal(method: str, reason: str) -> Raw | RpcError:
    """The answer to a question that nobody answers: for elicitation that no choice was made, otherwise an error."""
    return _CANCELLED if method == "elicitation/create" else RpcError(INTERNAL_ERROR, reason)
