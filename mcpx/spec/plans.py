"""How a type is carried to a revision, worked out once from the tables.

A plan knows what to leave out, where to look deeper, and which edits apply; and it knows the marks without one of
which in the bytes nothing can change. Only then is anything decoded, one level at a time, and only what the rows name:
what is inside a schema, arguments, structured content, text or foreign metadata is nobody's type, and never looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Raw

from mcpx.spec import questions, restate
from mcpx.spec.edits import Marks
from mcpx.spec.fields import Record, Union, revisions_of
from mcpx.spec.tables import RECORDS, UNIONS
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import elements_of, members_of, string_of

if TYPE_CHECKING:
    from mcpx.spec.edits import Change, Edit
    from mcpx.spec.fields import Field

_EDITS: dict[str, tuple[Edit, ...]] = {**restate.EDITS, **questions.EDITS}
_RESTATEMENTS: dict[str, Change] = {**restate.RESTATEMENTS, **questions.RESTATEMENTS}

_META = "_meta"  # always kept, whatever the rows say; only reserved keys inside are taken out
_EMPTY = Raw(b"{}")

Visit = Callable[[Raw], Raw]


class _Carrier(ABC):
    """What both kinds of plan share: nothing is decoded before the bytes hold a mark."""

    marks: Marks
    _may_change: Callable[[Raw], bool]

    def raw(self, raw: Raw) -> Raw:
        """Carry a value; the very same object where nothing in it changes."""
        if not self._may_change(raw):
            return raw
        members = members_of(raw)
        if members is None:
            return raw
        carried = self.members(members)
        return raw if carried is members else to_raw(carried)

    @abstractmethod
    def members(self, members: dict[str, Raw]) -> dict[str, Raw]:
        """Carry a value by its members; the very same object where nothing in them changes."""


class Plan(_Carrier):
    """How values of one type are carried to one revision. Use ``plan_of``."""

    def __init__(self, row: Record, target: str) -> None:
        self._target = target
        self._edits = [edit for edit in _EDITS.get(row.name, ()) if edit.span.covers(target)]
        self._lacks = row.lacks(target) - {_META}
        self._visits: dict[str, Visit] = {}
        self.marks = Marks(keys=self._lacks)
        for edit in self._edits:
            self.marks |= edit.marks
        for field in row.fields.values():
            inner = plan_of(field.of, target) if field.of is not None and field.name not in self._lacks else None
            if inner is not None and inner.marks:
                self._visits[field.name] = _visit(field, inner)
                self.marks |= inner.marks
        self._named = self._lacks | self._visits.keys()
        self._may_change = self.marks.finder()

    def members(self, members: dict[str, Raw]) -> dict[str, Raw]:
        """Carry a value by its members; the very same object where nothing in them changes."""
        if not self._edits and self._named.isdisjoint(members):
            return members
        edited = members
        for edit in self._edits:
            edited = edit.change(edited, self._target)
        carried: dict[str, Raw] = {}
        same = edited is members
        for key, value in edited.items():
            if key in self._lacks:
                same = False
                continue
            visit = self._visits.get(key)
            if visit is not None:
                inner = visit(value)
                if inner is not value:
                    same = False
                    if key == _META and inner == _EMPTY:  # nothing but reserved keys was in it
                        continue
                    value = inner
            carried[key] = value
        return members if same else carried


class UnionPlan(_Carrier):
    """How values of one of several types are carried to one revision. Use ``plan_of``."""

    def __init__(self, union: Union, target: str) -> None:
        self._union = union
        self._target = target
        self._plans: dict[str, Plan | None] = {}  # None: the target does not have the type
        self.marks = Marks()
        for marks, name in _told_by(union):
            row = RECORDS[name]
            if target in revisions_of(row):
                plan = plan_of(name, target)
                assert isinstance(plan, Plan)
                self._plans[name] = plan
                self.marks |= plan.marks
            else:
                self._plans[name] = None
                self.marks |= marks
        self._may_change = self.marks.finder()

    def members(self, members: dict[str, Raw]) -> dict[str, Raw]:
        """Carry a value by its members; the very same object where nothing in them changes."""
        name = self._type_of(members)
        if name is None:
            return members
        plan = self._plans[name]
        if plan is not None:
            return plan.members(members)
        restate = _RESTATEMENTS.get(name)
        if restate is None:
            return members
        restated = restate(members, self._target)
        return restated if self._type_of(restated) == name else self.members(restated)

    def _type_of(self, members: dict[str, Raw]) -> str | None:
        """The type of a value; ``None`` for one that no revision has."""
        for key, name in self._union.by_key.items():
            if key in members:
                return name
        tag = members.get(self._union.tag)
        if tag is None:
            return self._union.untagged
        return self._union.by_tag.get(string_of(tag) or "")


def _told_by(union: Union) -> list[tuple[Marks, str]]:
    """The types of a union, each with the mark that a value of it has."""
    return [
        *((Marks(keys=frozenset({key})), name) for key, name in union.by_key.items()),
        *((Marks(values=frozenset({tag})), name) for tag, name in union.by_tag.items()),
    ]


def _visit(field: Field, plan: Plan | UnionPlan) -> Visit:
    """How the value of a property is carried, given how one thing in it is."""

    def each(raw: Raw) -> Raw:
        elements = elements_of(raw)
        if elements is None:
            return plan.raw(raw) if field.shape == "one or list" else raw
        carried = [plan.raw(element) for element in elements]
        return raw if all(a is b for a, b in zip(carried, elements, strict=True)) else to_raw(carried)

    def values(raw: Raw) -> Raw:
        members = members_of(raw)
        if members is None:
            return raw
        carried = {key: plan.raw(value) for key, value in members.items()}
        return raw if all(carried[key] is value for key, value in members.items()) else to_raw(carried)

    return {"one": plan.raw, "list": each, "one or list": each, "map": values}[field.shape]


@cache
def plan_of(name: str, target: str) -> Plan | UnionPlan:
    """The plan for a type or union of the tables. A name that they lack is a ``KeyError``."""
    union = UNIONS.get(name)
    return UnionPlan(union, target) if union is not None else Plan(RECORDS[name], target)
