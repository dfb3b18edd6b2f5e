"""``mcpx serve``: a host on stdin and stdout, or hosts on a socket."""

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
from mcpx.errors import ConfigError
from mcpx.gateway import open_gateway
from mcpx.host import Service, open_ending, serve_socket, serve_stdio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.settings import Settings

log = logging.getLogger("mcpx")


def serve(
    target: str | None,
    command: Sequence[str] | None,
    config: str | None,
    passthrough: Sequence[str],
    socket: str | None,
    level: Level,
    form: Format,
) -> int:
    """Serve until the host leaves or a signal ends it, and return the exit status.

    With the path of a ``socket`` it is served and stdin and stdout are not touched; a signal alone ends that.
    """
    if socket == "":
        raise ConfigError(["--socket needs a path"])
    chosen = choose(target, command, config, passthrough)
    settings = chosen.settings
    with log_to_stderr(level, form, secrets_of(settings.servers)) as lines:
        for warning in chosen.warnings:
            log.warning("%s", warning)
        if sys.platform == "win32" and any(server.command for server in settings.servers):
            log.warning("mcpx does not start servers on Windows; see docs/platforms.md")
        log.info("serving %s", _describe(settings))
        if socket is None and os.isatty(0):
            log.info(
                "stdin is a terminal, where a host is expected that sends JSON-RPC; Ctrl-D ends it. "
                '"mcpx check" is for a person'
            )
        return run_logged(_serve, settings, socket, lines=lines)


def _describe(settings: Settings) -> str:
    """Which servers, and where they come from."""
    names = ", ".join(server.name for server in settings.servers) or "no server"
    if settings.source is not None:
        return f"{names}, from {settings.source}"
    if any(server.builtin for server in settings.servers):
        return f"the built-in demo server, as no configuration was found ({sought()})"
    return f"{names}, as given on the command line"


async def _serve(settings: Settings, socket: str | None) -> None:
    async with open_ending() as ending, open_gateway(settings, builtins=BUILTINS) as gateway:
        service = Service(gateway)
        if socket is not None:
            await serve_socket(service, socket, ending)
        else:
            await serve_stdio(service, ending)
