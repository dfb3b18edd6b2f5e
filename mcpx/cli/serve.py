"""``mcpx serve``: a host on stdin and stdout, or hosts on a socket, by HTTP, or both."""

from __future__ import annotations

import gc
import logging
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import trio

from mcpx.cli.http import TOKEN_VARIABLE, plan_http
from mcpx.cli.log import Format, Level, log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import choose, sought
from mcpx.config import Redactor, secrets_of
from mcpx.demo import BUILTINS
from mcpx.errors import ConfigError
from mcpx.gateway import open_gateway
from mcpx.host import Service, open_ending, serve_socket, serve_stdio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpx.cli.http import HttpOptions, HttpPlan
    from mcpx.settings import Settings

log = logging.getLogger("mcpx")


def serve(
    target: str | None,
    command: Sequence[str] | None,
    config: str | None,
    passthrough: Sequence[str],
    headers: Sequence[str],
    socket: str | None,
    http: HttpOptions,
    level: Level,
    form: Format,
) -> int:
    """Serve until the host leaves or a signal ends it, and return the exit status.

    With the path of a ``socket``, or an address in ``http``, it is those that are served, and stdin and stdout are not
    touched; a signal alone ends that.
    """
    if socket == "":
        raise ConfigError(["--socket needs a path"])
    plan = plan_http(http, os.environ)
    chosen = choose(target, command, config, passthrough, headers)
    settings = chosen.settings
    secrets = secrets_of(settings.servers)
    if plan is not None:
        secrets |= plan.secrets
    with log_to_stderr(level, form, secrets) as lines:
        for warning in chosen.warnings:
            log.warning("%s", warning)
        if sys.platform == "win32" and any(server.command for server in settings.servers):
            log.warning("mcpx does not start servers on Windows; see docs/platforms.md")
        log.info("serving %s", _describe(settings))
        if socket is None and plan is None and os.isatty(0):
            log.info(
                "stdin is a terminal, where a host is expected that sends JSON-RPC; Ctrl-D ends it. "
                '"mcpx check" is for a person'
            )
        _collect_rarely()
        return run_logged(_serve, settings, socket, plan, Redactor(secrets), lines=lines)


def _collect_rarely() -> None:
    """Have the garbage collector come more rarely than the interpreter does by itself.

    What a call makes is freed by counting as soon as the call is over. The collector would go over all that a thousand
    calls in flight hold, time and again and in vain: two thirds of the processor's time.
    """
    gc.set_threshold(20_000, 20, 50)


def _describe(settings: Settings) -> str:
    """Which servers, and where they come from."""
    names = ", ".join(server.name for server in settings.servers) or "no server"
    if settings.source is not None:
        return f"{names}, from {settings.source}"
    if any(server.builtin for server in settings.servers):
        return f"the built-in demo server, as no configuration was found ({sought()})"
    return f"{names}, as given on the command line"


async def _serve(settings: Settings, socket: str | None, plan: HttpPlan | None, redact: Callable[[str], str]) -> None:
    # The token opens mcpx itself, which is no business of its servers.
    environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    async with open_ending() as ending, open_gateway(settings, builtins=BUILTINS, environ=environ) as gateway:
        service = Service(gateway)
        if socket is None and plan is None:
            await serve_stdio(service, ending)
            return
        async with trio.open_nursery() as doors:
            if socket is not None:
                doors.start_soon(serve_socket, service, socket, ending)
            if plan is not None:
                from mcpx.host.http import serve_http

                address, access, tls = plan
                doors.start_soon(partial(serve_http, service, address, ending, access=access, tls=tls, redact=redact))
