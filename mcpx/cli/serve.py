"""``mcpx serve``: a host on stdin and stdout."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from mcpx.cli.log import Format, Level, log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import choose, sought
from mcpx.config import secrets_of
from mcpx.demo import BUILTINS
from mcpx.gateway import open_gateway
from mcpx.host.stdio import open_ending, serve_stdio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.settings import Settings

log = logging.getLogger("mcpx")


def serve(
    target: str | None,
    command: Sequence[str] | None,
    config: str | None,
    passthrough: Sequence[str],
    level: Level,
    form: Format,
) -> int:
    """Serve until the host leaves or a signal ends it, and return the exit status."""
    chosen = choose(target, command, config, passthrough)
    settings = chosen.settings
    with log_to_stderr(level, form, secrets_of(settings.servers)) as lines:
        for warning in chosen.warnings:
            log.warning("%s", warning)
        if sys.platform == "win32" and any(server.command for server in settings.servers):
            log.warning("mcpx does not start servers on Windows; see docs/platforms.md")
        log.info("serving %s", _describe(settings))
        if os.isatty(0):
            log.info(
                "stdin is a terminal, where a host is expected that sends JSON-RPC; Ctrl-D ends it. "
                '"mcpx check" is for a person'
            )
        return run_logged(_serve, settings, lines=lines)


def _describe(settings: Settings) -> str:
    """Which servers, and where they come from."""
    names = ", ".join(server.name for server in settings.servers) or "no server"
    if settings.source is not None:
        return f"{names}, from {settings.source}"
    if any(server.builtin for server in settings.servers):
        return f"the built-in demo server, as no configuration was found ({sought()})"
    return f"{names}, as given on the command line"


async def _serve(settings: Settings) -> None:
    async with open_ending() as ending, open_gateway(settings, builtins=BUILTINS) as gateway:
        await serve_stdio(gateway, ending)
