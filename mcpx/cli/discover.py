"""``mcpx discover``: which era, revisions and capabilities a server has, and who it is."""

from __future__ import annotations

import shutil
from textwrap import wrap
from typing import TYPE_CHECKING

import msgspec

from mcpx.cli.examine import Finding, examine, silent
from mcpx.cli.log import Level, log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import choose
from mcpx.cli.text import plain
from mcpx.config import secrets_of
from mcpx.demo import BUILTINS
from mcpx.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.settings import Settings

LABEL = 14  # characters before what a line says
MAX_WIDTH = 120
MAX_LINES = 8  # of one value; some servers have pages of instructions


def discover(target: str | None, command: Sequence[str] | None, config: str | None, as_json: bool, level: Level) -> int:
    """Start one server, print what it is like, and return the exit status."""
    if target is None and command is None:
        raise ConfigError(['name a configured server, or give a command behind "--"'])
    settings = choose(target, command, config).settings
    with log_to_stderr(level, secrets=secrets_of(settings.servers), silent=silent(level)) as lines:
        return run_logged(_discover, settings, as_json, lines=lines)


async def _discover(settings: Settings, as_json: bool) -> None:
    [server] = settings.servers
    finding = await examine(settings, server, BUILTINS)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(finding)).decode())
    else:
        print(render(finding, min(shutil.get_terminal_size().columns, MAX_WIDTH)))


def render(finding: Finding, width: int) -> str:
    """The finding in lines of ``width`` characters, for people; what is very long is cut."""
    rows = {
        "server": finding.identity or finding.server,
        "title": finding.server_info.get("title"),
        "era": finding.era,
        "revision": finding.revision,
        "speaks": ", ".join(finding.revisions),
        "capabilities": ", ".join(finding.capabilities),
        "offers": finding.offers,
        "instructions": finding.instructions,
    }
    return "\n".join(line for name, value in rows.items() if value for line in _row(name, str(value), width))


def _row(name: str, value: str, width: int) -> list[str]:
    text = plain(" ".join(value.split()))
    label, indent = f"{name + ':':<{LABEL}}", " " * LABEL
    lines = wrap(
        text,
        max(width, 2 * LABEL),
        initial_indent=label,
        subsequent_indent=indent,
        break_long_words=False,  # an address would be of no use in pieces
        break_on_hyphens=False,
    )
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"{indent}... ({len(text)} characters; --json shows all)"]
