"""Say a payload in another revision.

Carrying is the identity, the very same object, where nothing in the payload is unknown to the target: also between
two peers of one revision, where it takes out what a careless server wrote ahead of the revision that it agreed on. A
property that no revision defines is its sender's own and passes untouched, a ``_meta`` is always kept, and what is
malformed stays as it is.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from msgspec import Raw

from mcpx.errors import LocalProtocolError
from mcpx.spec.edits import CannotSay, Marks
from mcpx.spec.meta import NOT_IN_RESULTS, SERVER_INFO
from mcpx.spec.methods import METHODS
from mcpx.spec.plans import plan_of
from mcpx.spec.revisions import LATEST_MODERN, is_modern
from mcpx.spec.tables import RECORDS, UNIONS
from mcpx.wire.frames import NULL, to_raw
from mcpx.wire.raws import members_of, string_of, without

__all__ = ["CannotSay", "carry", "carry_params", "carry_question", "carry_result", "stamp_modern"]

_COMPLETE = to_raw("complete")
_UNSERVED = frozenset({"task"})
_TYPE = ("resultType",)
_MODERN_ALONE = (*_TYPE, "ttlMs", "cacheScope")  # in the results of methods that may be cached
_CACHED = frozenset(
    name for name, row in METHODS.items() if row.cached is not None and row.cached.covers(LATEST_MODERN)
)
_STRUCTURED = "structuredContent"
_may_mislead = Marks(keys=frozenset(_MODERN_ALONE), patterns=frozenset({rf'{_STRUCTURED}"\s*:\s*null'})).finder()
_DIGITS = re.compile(rb"[0-9]{1,15}")  # a ttlMs is no fraction and not negative; so long, all can compute with it


def carry(type_name: str, payload: Raw, source: str, target: str) -> Raw:
    """``payload``, a value of the type ``type_name`` written in ``source``, as ``target`` says it.

    What is said otherwise depends on the target alone, as the tables are today; the source is for what would not.
    ``type_name`` is a name of ``mcpx.spec.tables`` (``"Tool"``, ``"CallToolResult"``, ``"ContentBlock"``). Raises
    ``CannotSay`` where the payload means something that ``target`` has no way to say.
    """
    return plan_of(type_name, target).raw(payload)


def carry_result(method: str, payload: Raw, source: str, target: str) -> Raw:
    """The result of ``method``, written in ``source``, as ``target`` says it; of an unknown method, as it is.

    What a modern result needs besides is ``stamp_modern``'s. Raises ``CannotSay`` as ``carry`` does.
    """
    row = METHODS.get(method)
    if row is None or row.result is None:
        return payload
    carried = carry(row.result, payload, source, target)
    if is_modern(source):
        return carried
    if is_modern(target):
        names = _MODERN_ALONE if row.cached is not None else _TYPE
        return _meant(row.result, carried, names) if _may_mislead(carried) else carried
    if carried is payload:
        return payload
    meant = _meant(row.result, payload, ())
    return carried if meant is payload else carry(row.result, meant, source, target)


def carry_params(method: str, params: dict[str, Raw], source: str, target: str) -> dict[str, Raw]:
    """The params of ``method``, a request or a notification, written in ``source``, as ``target`` says them.

    The very same object where nothing changes; those of an unknown method are left as they are. ``task`` goes nowhere:
    mcpx declares no tasks to either side, and a receiver that declares none ignores it (2025-11-25
    basic/utilities/tasks, Task Support and Handling). Nor does ``null``, which some write for what they leave out and
    no revision has. Raises ``CannotSay`` as ``carry`` does.
    """
    row = METHODS.get(method)
    if row is None:
        return params
    if not _UNSERVED.isdisjoint(params):
        params = without(params, *_UNSERVED)
    if NULL in params.values():
        known = _properties(row.params)
        params = {key: value for key, value in params.items() if value != NULL or key not in known}
    return plan_of(row.params, target).members(params)


@cache
def _properties(name: str) -> frozenset[str]:
    """The names of the properties that a type has in any revision, or any type of a union."""
    union = UNIONS.get(name)
    types = (name,) if union is None else union.members
    return frozenset(field for one in types for field in RECORDS[one].fields)


def carry_question(
    method: str, params: dict[str, Raw], source: str, target: str, *, elicitation_id: str | None = None
) -> dict[str, Raw]:
    """What a server asks (elicitation, sampling, roots), written in ``source``, as ``target`` says it.

    ``elicitation_id`` becomes the ``elicitationId`` where a question has none and ``target`` requires one: that of a
    visit to a URL. Raises ``CannotSay`` where ``target`` cannot be asked this. The answer goes back by
    ``carry_result``.
    """
    row = METHODS[method]
    if not any(span is not None and span.covers(target) for span in (row.upstream, row.question)):
        raise CannotSay(f"{target} has no {method}")
    carried = carry_params(method, params, source, target)
    if string_of(carried.get("mode")) != "url" or "elicitationId" in carried:
        return carried
    if target not in RECORDS["ElicitRequestURLParams"].fields["elicitationId"].needed:
        return carried
    if elicitation_id is None:
        raise LocalProtocolError(f"A visit to a URL needs an elicitationId in {target}")
    return {**carried, "elicitationId": to_raw(elicitation_id)}


def stamp_modern(method: str, payload: Raw, server_info: Raw | None, ttl_ms: int, cache_scope: str) -> Raw:
    """A result with what a modern one has and a legacy one lacks, where it is absent or makes no sense.

    That is ``resultType``, and for the methods whose results may be cached ``ttlMs`` and ``cacheScope`` (not on one
    that asks for input: 2026-07-28 server/utilities/caching). ``server_info`` replaces who the upstream says it is, in
    ``_meta``; ``None`` keeps that. Key order is kept, and additions come last.
    """
    members = members_of(payload)
    if members is None:
        return payload
    stamped = dict(members)
    if server_info is not None:
        meta = bytes(members.get("_meta", b""))
        stamped["_meta"] = (_signed if len(meta) <= _MAX_SIGNED else _sign)(meta, bytes(server_info))
    stamped.setdefault("resultType", _COMPLETE)
    if method in _CACHED and string_of(stamped["resultType"]) == "complete":
        if not _DIGITS.fullmatch(stamped.get("ttlMs", NULL)):
            stamped["ttlMs"] = to_raw(ttl_ms)
        if string_of(stamped.get("cacheScope")) not in ("public", "private"):
            stamped["cacheScope"] = to_raw(cache_scope)
    return payload if stamped == members else to_raw(stamped)


def _sign(meta: bytes, server_info: bytes) -> Raw:
    """A result's metadata, if it has any, with who it is from."""
    kept = without(members_of(Raw(meta)) or {}, *NOT_IN_RESULTS)
    return to_raw({**kept, SERVER_INFO: Raw(server_info)})


_signed = lru_cache(maxsize=64)(_sign)  # a server mostly writes the same, or nothing
_MAX_SIGNED = 1024  # bytes of what is kept so


def _meant(type_name: str, payload: Raw, names: tuple[str, ...]) -> Raw:
    """A result without what a legacy server means nothing by: these, which a modern host would believe, and structured
    content that is null, where it may only be an object.
    """
    members = members_of(payload)
    if members is None:
        return payload
    rest = without(members, *names)
    if type_name == "CallToolResult" and rest.get(_STRUCTURED) == NULL:
        rest = without(rest, _STRUCTURED)
    return payload if rest is members else to_raw(rest)
