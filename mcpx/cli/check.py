"""``mcpx check``: is the configuration right, and do its servers come up?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec
import trio

from mcpx.cli.examine import Finding, examine, silent, telling_who_is_awaited
from mcpx.cli.log import Level, log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import load_configuration, names_of, sought
from mcpx.cli.text import indented, plain
from mcpx.config import Redactor, redact_url, secrets_of
from mcpx.demo import BUILTINS
from mcpx.errors import RpcError, UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpx.settings import ServerSettings, Settings
    from mcpx.upstream.target import Builtins


def check(names: Sequence[str], config: str | None, level: Level) -> int:
    """Start servers of the configuration, all at once, print what became of each, and return the exit status.

    They are those of the given names, or all of them. Raises ``ConfigError`` for a name that is none, and as ``load``
    does.
    """
    loaded = load_configuration(config)
    settings = loaded.settings
    secrets = secrets_of(settings.servers)
    if names:
        chosen = names_of(loaded, names)
        servers = tuple(server for server in settings.servers if server.name in chosen)
        settings = msgspec.structs.replace(settings, servers=servers)
    for warning in loaded.warnings:
        print(f"mcpx: warning: {plain(warning)}", file=sys.stderr)
    source = settings.source or f"none found ({sought()}), so the built-in demo server"
    print(f"Configuration: {source}", flush=True)
    failed: list[str] = []
    with log_to_stderr(level, secrets=secrets, silent=silent(level)) as lines:
        status = run_logged(check_all, settings, BUILTINS, Redactor(secrets), failed, lines.put, lines=lines)
    if status:  # interrupted: what has not been seen is not summed up
        return status
    for name in loaded.disabled if not names else ():
        print("  off     " + indented(name, 10))
    count = len(settings.servers)
    print(f"{count - len(failed)} of {count} servers came up." if count else "There is no server.")
    return 1 if failed else 0


async def check_all(
    settings: Settings, builtins: Builtins, redact: Redactor, failed: list[str], tell: Callable[[str], None]
) -> None:
    """Start all servers at once, and print of each what became of it as soon as that is known.

    Names of those that do not come up are added to ``failed``. Who takes longer than ``PATIENCE`` is told, once.
    """
    awaited = {server.name: server for server in settings.servers}
    async with telling_who_is_awaited(awaited, tell), trio.open_nursery() as nursery:
        for server in settings.servers:
            nursery.start_soon(_check_one, settings, server, builtins, redact, failed, awaited)


async def _check_one(
    settings: Settings,
    server: ServerSettings,
    builtins: Builtins,
    redact: Redactor,
    failed: list[str],
    awaited: dict[str, ServerSettings],
) -> None:
    try:
        finding = await examine(settings, server, builtins)
    except* (UpstreamError, RpcError) as group:
        failed.append(server.name)
        reasons = "; ".join(_reason(error) for error in group.exceptions)
        reached = f" ({redact_url(server.url)})" if server.url is not None else ""
        print("  failed  " + indented(f"{server.name}{reached}: {redact(reasons)}", 10), flush=True)
    else:
        print("  ok      " + indented(f"{server.name}: {redact(_describe(finding))}", 10), flush=True)
    finally:
        del awaited[server.name]


def _reason(error: BaseException) -> str:
    return error.reason if isinstance(error, UpstreamError) else str(error)


def _describe(finding: Finding) -> str:
    noise = {0: "", 1: "1 line on stdout that is no message"}.get(
        finding.noise, f"{finding.noise} lines on stdout that are no messages"
    )
    parts = (finding.identity, f"{finding.era} {finding.revision}", finding.offers, noise)
    return ", ".join(part for part in parts if part)
