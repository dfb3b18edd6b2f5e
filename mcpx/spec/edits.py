"""What the rows of fields cannot say: the vocabulary of the changes that carrying makes besides leaving properties out.

An ``Edit`` changes the members of a type; a *restatement* says a value of a type that the target does not have in one
that it has. ``restate.py`` and ``questions.py`` list them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mcpx.errors import McpxError
from mcpx.wire.frames import to_raw

if TYPE_CHECKING:
    from msgspec import Raw

    from mcpx.spec.span import Span

# An escape that spells a character of a property's name: then marks may be there without being seen.
_ESCAPED = re.compile(rb"\\u00(?:2[4eEfF]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF])")

# Both get members and the target revision, and give members back: the very same object where nothing changes.
Change = Callable[[dict[str, "Raw"], str], dict[str, "Raw"]]


class CannotSay(McpxError):
    """A payload means something that the target revision has no way to say; the message is a sentence about what."""


class Marks(msgspec.Struct, frozen=True):
    """What the bytes of a value must hold for carrying to change anything in it.

    Property names, strings that stand as a value, and patterns that follow a quotation mark.
    """

    keys: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()

    def __or__(self, other: Marks) -> Marks:
        return Marks(self.keys | other.keys, self.values | other.values, self.patterns | other.patterns)

    def __bool__(self) -> bool:
        return bool(self.keys or self.values or self.patterns)

    def finder(self) -> Callable[[Raw], bool]:
        """Whether bytes hold any of the marks, or a spelling of names that could hide one.

        All marks are one pattern that begins with a quotation mark, and escapes are looked for apart: so each search
        skips by its first byte, at some gigabytes a second.
        """
        alternatives = [
            *([f'(?:{"|".join(sorted(map(_spelled, self.keys)))})"\\s*:'] if self.keys else []),
            *([f'(?:{"|".join(sorted(map(_spelled, self.values)))})"'] if self.values else []),
            *sorted(self.patterns),
        ]
        if not alternatives:
            return lambda raw: False
        search = re.compile(f'"(?:{"|".join(alternatives)})'.encode()).search
        escaped = _ESCAPED.search
        return lambda raw: search(raw) is not None or escaped(raw) is not None


def _spelled(name: str) -> str:
    return re.escape(name).replace("/", r"\\?/")  # JSON may escape a slash


class Edit(NamedTuple):
    """A change to a type for the target revisions in ``span``; without any of its ``marks`` it changes nothing."""

    span: Span
    marks: Marks
    change: Change


def cannot(what: str) -> Change:
    """The restatement of what has none: it raises ``CannotSay``. ``what`` ends before the revision's name."""

    def refuse(members: dict[str, Raw], target: str) -> dict[str, Raw]:
        raise CannotSay(f"{what}, which {target} has no way to say")

    return refuse


def text_block(text: str, *, like: dict[str, Raw] | None = None) -> dict[str, Raw]:
    """The members of a text block, with the annotations and the metadata of the block ``like`` in whose place it is."""
    kept = {key: value for key, value in (like or {}).items() if key in ("annotations", "_meta")}
    return {"type": to_raw("text"), "text": to_raw(text), **kept}
