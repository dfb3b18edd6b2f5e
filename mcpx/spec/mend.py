"""What servers say, put right where every revision would refuse it.

A strict host takes a list whole or not at all, so one careless item would cost it the tools of every server. Only what
is plain is mended: a property that is null is as if unsaid, since none may be null; and what is required and missing is
filled in where there is one thing that it can mean.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpx.spec.tables import RECORDS
from mcpx.wire.frames import NULL, to_raw
from mcpx.wire.raws import elements_of, is_object, members_of, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

_OBJECT = to_raw("object")
_NULL = re.compile(rb":\s*null").search

# What stands in for the name of what has none: hosts show it to people.
_NAMED_AFTER = {"Resource": "uri", "ResourceTemplate": "uriTemplate"}


def mend(type_name: str, value: Raw) -> Raw:
    """A value of the type ``type_name``, put right; the very same object where nothing was wrong."""
    value = _without_nulls(type_name, value)
    fill = _FILLED.get(type_name)
    members = members_of(value)
    if fill is None or members is None:
        return value
    filled = fill(type_name, members)
    return value if filled is members else to_raw(filled)


def _without_nulls(type_name: str, value: Raw) -> Raw:
    """A value without the properties of its type, and of the types inside it, that are null."""
    members = members_of(value) if _NULL(value) else None
    if members is None:
        return value
    fields = RECORDS[type_name].fields
    kept: dict[str, Raw] = {}
    for key, one in members.items():
        field = fields.get(key)
        if field is not None and one == NULL:
            continue
        inner = field.of if field is not None and field.of in RECORDS else None
        kept[key] = one if inner is None else _each_without_nulls(inner, one)
    same = len(kept) == len(members) and all(kept[key] is one for key, one in members.items())
    return value if same else to_raw(kept)


def _each_without_nulls(type_name: str, value: Raw) -> Raw:
    """The same for one value or a list of them."""
    elements = None if is_object(value) else elements_of(value)
    if elements is None:
        return _without_nulls(type_name, value)
    kept = [_without_nulls(type_name, element) for element in elements]
    return value if all(a is b for a, b in zip(kept, elements, strict=True)) else to_raw(kept)


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
