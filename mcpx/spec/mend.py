"""What servers say, put right where every revision would refuse it.

A strict host takes a list whole or not at all, so one careless item would cost it the tools of every server. Only what
is plain is mended: a property that is null is as if unsaid, since none may be null; and what is required and missing is
filled in where there is one thing that it can mean.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpx.spec.raws import members_of, without
from mcpx.spec.tables import RECORDS
from mcpx.wire.frames import NULL, to_raw

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

_OBJECT = to_raw("object")
_NULL = re.compile(rb":\s*null").search

# What stands in for the name of what has none: hosts show it to people.
_NAMED_AFTER = {"Resource": "uri", "ResourceTemplate": "uriTemplate"}


def mend(type_name: str, value: Raw) -> Raw:
    """A value of the type ``type_name``, put right by its own members; the very same object where nothing was wrong."""
    members = members_of(value)
    if members is None:
        return value
    mended = members
    if _NULL(value):
        known = RECORDS[type_name].fields
        mended = {key: one for key, one in members.items() if one != NULL or key not in known}
    mended = _FILLED.get(type_name, _as_is)(type_name, mended)
    return value if mended == members else to_raw(mended)


def _as_is(type_name: str, members: dict[str, Raw]) -> dict[str, Raw]:
    return members


def _named(type_name: str, members: dict[str, Raw]) -> dict[str, Raw]:
    instead = _NAMED_AFTER[type_name]
    if "name" in members or instead not in members:
        return members
    return {**members, "name": members[instead]}


def _with_input(type_name: str, members: dict[str, Raw]) -> dict[str, Raw]:
    """A tool takes an object: its ``inputSchema`` is required, and so is the type in that."""
    schema = members_of(members.get("inputSchema")) or {}
    if schema.get("type", NULL) != NULL:
        return members
    return {**members, "inputSchema": to_raw({"type": _OBJECT, **without(schema, "type")})}


_FILLED: dict[str, Callable[[str, dict[str, Raw]], dict[str, Raw]]] = {
    "Tool": _with_input,
    "Resource": _named,
    "ResourceTemplate": _named,
}
