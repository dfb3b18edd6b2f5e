"""``mcpx check``: is the configuration right, and does every server come up?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import trio

from mcpx.cli.examine import SILENT, Finding, examine
from mcpx.cli.log import log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import load_configuration, sought
from mcpx.cli.text import indented, plain
from mcpx.config import Redactor, redact_url, secrets_of
from mcpx.demo import BUILTINS
from mcpx.errors import RpcError, UpstreamError

if TYPE_CHECKING:
    from mcpx.settings import ServerSettings, Settings


def check(config: str | None) -> int:
    """Start every server of the configuration, all at once, print what became of each, and return the exit status."""
    loaded = load_configuration(config)
    settings = loaded.settings
    for warning in loaded.warnings:
        print(f"mcpx: warning: {plain(warning)}", file=sys.stderr)
    print(f"Configuration: {settings.source or f'none found ({sought()}), so the built-in demo server'}")
    secrets = secrets_of(settings.servers)
    failed: list[str] = []
    with log_to_stderr("warning", secrets=secrets, silent=SILENT) as lines:
        status = run_logged(_check_all, settings, Redactor(secrets), failed, lines=lines)
    for name in loaded.disabled:
        print("  off     " + indented(name, 10))
    count = len(settings.servers)
    print(f"{count - len(failed)} of {count} servers came up." if count else "There is no server.")
    return status or (1 if failed else 0)


async def _check_all(settings: Settings, redact: Redactor, failed: list[str]) -> None:
    async with trio.open_nursery() as nursery:
        for server in settings.servers:
            nursery.start_soon(_check_one, settings, server, redact, failed)


async def _check_one(settings: Settings, server: ServerSettings, redact: Redactor, failed: list[str]) -> None:
    try:
        finding = await examine(settings, server, BUILTINS)
    except* (UpstreamError, RpcError) as group:
        failed.append(server.name)
        reasons = "; ".join(_reason(error) for error in group.exceptions)
        reached = f" ({redact_url(server.url)})" if server.url is not None else ""
        print("  failed  " + indented(f"{server.name}{reached}: {redact(reasons)}", 10), flush=True)
    else:
        print("  ok      " + indented(f"{server.name}: {redact(_describe(finding))}", 10), flush=True)


def _reason(error: BaseException) -> str:
    return error.reason if isinstance(error, UpstreamError) else str(error)


def _describe(finding: Finding) -> str:
    noise = {0: "", 1: "1 line on stdout that is no message"}.get(
        finding.noise, f"{finding.noise} lines on stdout that are no messages"
    )
    parts = (finding.identity, f"{finding.era} {finding.revision}", finding.offers, noise)
    return ", ".join(part for part in parts if part)
