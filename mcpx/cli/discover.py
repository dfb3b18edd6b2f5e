"""``mcpx discover``: which era, revisions and capabilities a server has, and who it is."""

from __future__ import annotations

import re
import shutil
from textwrap import wrap
from typing import TYPE_CHECKING

import msgspec

from mcpx.cli.examine import Finding, examine, silent, telling_who_is_awaited
from mcpx.cli.log import Level, log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import choose
from mcpx.cli.text import plain
from mcpx.config import secrets_of
from mcpx.demo import BUILTINS
from mcpx.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpx.settings import Settings
    from mcpx.upstream.target import Builtins

LABEL = 14  # characters before what a line says
MAX_WIDTH = 120
MAX_LINES = 8  # of one value; some servers have pages of instructions


def discover(
    target: str | None,
    command: Sequence[str] | None,
    config: str | None,
    headers: Sequence[str],
    as_json: bool,
    level: Level,
) -> int:
    """Start one server, or connect to it, print what it is like, and return the exit status."""
    if target is None and command is None:
        raise ConfigError(['name a configured server or a URL, or give a command behind "--"'])
    settings = choose(target, command, config, headers=headers).settings
    with log_to_stderr(level, secrets=secrets_of(settings.servers), silent=silent(level)) as lines:
        return run_logged(discover_one, settings, BUILTINS, as_json, lines.put, lines=lines)


async def discover_one(settings: Settings, builtins: Builtins, as_json: bool, tell: Callable[[str], None]) -> None:
    """Start the one server of the settings, and print what it is like.

    That it takes longer than ``PATIENCE`` is told, once. Raises ``UpstreamError`` where it does not come up.
    """
    [server] = settings.servers
    async with telling_who_is_awaited((server.name,), tell):
        finding = await examine(settings, server, builtins)
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
    label, indent = f"{name + ':':<{LABEL}}", " " * LABEL
    lines = [
        line
        for paragraph in re.split(r"\n\s*\n", value)
        for line in wrap(
            plain(" ".join(paragraph.split())),
            max(width - LABEL, LABEL),
            break_long_words=False,  # an address would be of no use in pieces
            break_on_hyphens=False,
        )
    ]
    shown = [f"{label if at == 0 else indent}{line}" for at, line in enumerate(lines[:MAX_LINES])]
    if len(lines) <= MAX_LINES:
        return shown
    return [*shown, f"{indent}... ({len(value.strip())} characters; --json shows all)"]
