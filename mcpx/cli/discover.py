"""``mcpx discover``: which era, revisions and capabilities a server has, and who it is."""

from __future__ import annotations

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
    print(msgspec.json.format(msgspec.json.encode(finding)).decode() if as_json else plain(_render(finding)))


def _render(finding: Finding) -> str:
    rows = {
        "server": finding.identity or finding.server,
        "title": finding.server_info.get("title"),
        "era": finding.era,
        "revision": finding.revision,
        "speaks": ", ".join(finding.revisions),
        "capabilities": ", ".join(finding.capabilities),
        "offers": finding.offers,
        "instructions": " ".join((finding.instructions or "").split()),
    }
    return "\n".join(f"{name + ':':<14}{value}" for name, value in rows.items() if value)
