"""How severe a log message is: RFC 5424's severities (2026-07-28 server/utilities/logging, Log Levels)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeGuard, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: tuple[Level, ...] = get_args(Level)  # least severe first
_SEVERITY: dict[str | None, int] = {level: number for number, level in enumerate(LEVELS)}


def is_level(word: str | None) -> TypeGuard[Level]:
    """Whether a word is the name of a level."""
    return word in _SEVERITY


def reaches(level: Level, least: Level) -> bool:
    """Whether a message of that level is for who asked for ``least``."""
    return _SEVERITY[level] >= _SEVERITY[least]


def lowest(levels: Iterable[str | None]) -> Level | None:
    """The least severe of these, which lets through what any of them wants; ``None`` where none is a level."""
    wanted = set(levels)
    return next((level for level in LEVELS if level in wanted), None)
