"""The properties of every type of the protocol: since and until which revision each exists, and what its value is.

The rows are in ``mcpx/spec/tables``; this module says what a row is. A type that one revision inlines and another
names has one name here, the newest; an object that has none is called after its place (``CompleteResult.completion``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mcpx.spec.revisions import REVISIONS, V2024_11_05
from mcpx.spec.span import Span

Shape = Literal["one", "list", "map", "one or list"]


class Field(msgspec.Struct, frozen=True):
    """One property of a type.

    ``of`` names the type or union of its value, where that is a type of the protocol; ``shape`` says whether the value
    is one of them, a list of them, or an object whose values they are. ``needed`` are the revisions that require the
    property.
    """

    name: str
    span: Span
    needed: frozenset[str]
    of: str | None = None
    shape: Shape = "one"


class Record(msgspec.Struct, frozen=True):
    """One type: its name and its properties by name."""

    name: str
    fields: dict[str, Field]

    def lacks(self, revision: str) -> frozenset[str]:
        """The properties that some revision defines for this type and ``revision`` does not."""
        return frozenset(name for name, field in self.fields.items() if not field.span.covers(revision))


class Union(msgspec.Struct, frozen=True):
    """Several types, told apart by a property that only one of them has, else by the string in one that all have."""

    name: str
    by_key: dict[str, str] = {}  # the property -> the type's name
    tag: str = "type"
    by_tag: dict[str, str] = {}  # the tag's value -> the type's name
    untagged: str | None = None  # the type of a value without a tag

    @property
    def members(self) -> frozenset[str]:
        """The types that it is made of."""
        return frozenset({*self.by_key.values(), *self.by_tag.values()})


def need(
    name: str,
    since: str = V2024_11_05,
    until: str | None = None,
    *,
    of: str | None = None,
    shape: Shape = "one",
    optional_in: tuple[str, ...] = (),
) -> Field:
    """A row for a property that is required in every revision that has it, but for ``optional_in``."""
    span = Span(since, until)
    return Field(name, span, frozenset(span.revisions) - set(optional_in), of, shape)


def may(
    name: str,
    since: str = V2024_11_05,
    until: str | None = None,
    *,
    of: str | None = None,
    shape: Shape = "one",
    needed_in: tuple[str, ...] = (),
) -> Field:
    """A row for a property that is optional in every revision that has it, but for ``needed_in``."""
    return Field(name, Span(since, until), frozenset(needed_in), of, shape)


def record(name: str, *fields: Field) -> Record:
    """A type and its rows."""
    return Record(name, {field.name: field for field in fields})


def revisions_of(row: Record) -> tuple[str, ...]:
    """The revisions that have a type: those that have any of its properties."""
    return tuple(
        revision for revision in REVISIONS if any(field.span.covers(revision) for field in row.fields.values())
    )
