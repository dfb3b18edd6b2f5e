"""From a file's bytes to JSON values that remember which keys were written twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILE = 4 * 1024 * 1024  # a configuration of thousands of servers is smaller; a wrong path can be a disk image

JsonValue = object
"""A string, number, boolean, ``None``, list or ``Object``."""


class Object(dict[str, JsonValue]):
    """A JSON object. ``repeated`` are the keys that it has more than once; the last value is kept."""

    repeated: tuple[str, ...] = ()


def parse(data: bytes) -> JsonValue:
    """Parse a configuration file.

    A leading byte-order mark is taken off. ``NaN`` and ``Infinity``, which are not JSON either, are let through: the
    check of a value can say where they stand. Raises ``ValueError`` with one sentence, without the file's name, for
    bytes that are not UTF-8 or not JSON (comments and trailing commas are not JSON).
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"not UTF-8 (line {line}); save the file as UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        at, what = _diagnose(error)
        line, column = error.doc.count("\n", 0, at) + 1, at - error.doc.rfind("\n", 0, at)
        raise ValueError(f"not JSON (line {line}, column {column}): {what}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def repeated_keys(value: JsonValue, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each key that stands more than once in its object, at any depth."""
    if isinstance(value, Object):
        for key in value.repeated:
            yield (*path, key)
        for key, member in value.items():
            yield from repeated_keys(member, (*path, key))
    elif isinstance(value, list):
        for member in cast("list[JsonValue]", value):
            yield from repeated_keys(member, path)


def kind_of(value: JsonValue) -> str:
    """What a JSON value is, in words for a message: ``"a string"``, ``"null"``."""
    return _KINDS[type(value)]


_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
    list: "a list",
    Object: "an object",
}


def show(value: JsonValue) -> str:
    """A JSON value for a message: a single one as it stands, shortened. Never for one that may be a secret."""
    if kind_of(value) in ("a list", "an object"):
        return kind_of(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _object(pairs: list[tuple[str, JsonValue]]) -> Object:
    found = Object(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice: dict[str, None] = {}
        for key, _ in pairs:
            if key in seen:
                twice[key] = None
            seen.add(key)
        found.repeated = tuple(twice)
    return found


def _diagnose(error: json.JSONDecodeError) -> tuple[int, str]:
    """Where and what the mistake is; in plain words where a file ends too early or is of another program's format."""
    if not error.doc.strip():
        return 0, "the file is empty"
    rest = error.doc[error.pos :].lstrip()
    if not rest:
        return error.pos, "the file ends too early; a bracket may be missing"
    if rest.startswith(("//", "/*", "#")):
        return error.pos, "comments are not allowed"
    # A comma after the last member: Python up to 3.12 points behind it, 3.13 at it.
    before = error.doc[: error.pos].rstrip()
    comma = len(before) - 1 if before.endswith(",") else error.pos
    if error.doc[comma : comma + 1] == "," and error.doc[comma + 1 :].lstrip()[:1] in ("}", "]"):
        return comma, "a comma after the last member is not allowed"
    return error.pos, error.msg
