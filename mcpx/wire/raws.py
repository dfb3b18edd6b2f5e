"""Looking into raw JSON one level at a time.

What is malformed is ``None``, never an exception: what it means that it is, whoever looks knows. Where it is an error,
see ``frames.members``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, UnsetType

if TYPE_CHECKING:
    from collections.abc import Iterable

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_string = msgspec.json.Decoder(str).decode

_OPEN = ord("{")

TRUE = Raw(b"true")
FALSE = Raw(b"false")


def members_of(raw: Raw | UnsetType | None) -> dict[str, Raw] | None:
    """The members of an object, each still raw, in the order they were written; ``None`` for anything else."""
    if not isinstance(raw, Raw):
        return None
    try:
        return _members(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def elements_of(raw: Raw | UnsetType | None) -> list[Raw] | None:
    """The elements of an array, each still raw; ``None`` for anything else."""
    if not isinstance(raw, Raw):
        return None
    try:
        return _elements(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def string_of(raw: Raw | UnsetType | None) -> str | None:
    """The value of a string; ``None`` for anything else."""
    if not isinstance(raw, Raw):
        return None
    try:
        return _string(raw)
    except msgspec.MsgspecError:
        return None


def is_object(raw: Raw) -> bool:
    """Whether a value inside decoded JSON is an object."""
    return memoryview(raw)[0] == _OPEN


def text_of(raw: Raw) -> str:
    """The JSON itself, as text."""
    return bytes(raw).decode("utf-8", "replace")


def without(members: dict[str, Raw], *names: str) -> dict[str, Raw]:
    """The members but for some; the very same object where it has none of them."""
    if members.keys().isdisjoint(names):
        return members
    return {key: value for key, value in members.items() if key not in names}


def replaced(members: dict[str, Raw], name: str, values: Iterable[tuple[str, Raw]]) -> dict[str, Raw]:
    """The members with others in the place of the one called ``name``."""
    out: dict[str, Raw] = {}
    for key, value in members.items():
        if key == name:
            out.update(values)
        else:
            out[key] = value
    return out
