"""How severe a log message is: RFC 5424's severities (2026-07-28 server/utilities/logging, Log Levels)."""

from __future__ import annotations

from typing import Literal, get_args

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: tuple[Level, ...] = get_args(Level)  # least severe first
