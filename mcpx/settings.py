"""The configuration's structs and the table of limits.

Every queue, buffer, table and wait of mcpx has its bound here, with its default and its reason; ``docs/configuration.md``
shows the same table. Times are seconds, sizes bytes.
"""

from __future__ import annotations

from typing import Literal

import msgspec

KiB = 1024
MiB = 1024 * KiB


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=False):
    """Limits and waits. A server may override those that concern it (see ``ServerSettings.limits``)."""

    probe_delay: float = 1.0  # how long a server/discover probe is alone before initialize follows it
    start_timeout: float = 60.0  # spawn to usable; npx and uvx download on first start
    list_timeout: float = 10.0  # how long a host's list waits for slow upstreams
    call_timeout: float = 300.0  # idle limit of a call; progress resets it
    call_timeout_total: float = 3600.0  # hard cap of a call, whatever progress says
    exit_budget_eof: float = 1.7  # from stdin EOF to exit; hosts kill after about two seconds
    exit_budget_signal: float = 0.8  # from SIGTERM or SIGINT to exit on stdio
    stdin_grace: float = 2.0  # shutdown ladder: close stdin, wait this long
    term_grace: float = 3.0  # shutdown ladder: SIGTERM, wait this long, then SIGKILL
    restart_backoff_step: float = 2.0  # each failed start in a row adds this much
    restart_backoff_max: float = 30.0  # never longer than this
    max_instances: int = 16  # processes of one server
    instance_idle: float = 300.0  # an instance unused for so long is retired
    max_frame: int = 64 * MiB  # one JSON-RPC message
    max_in_flight: int = 1024  # requests of one host connection
    max_pages: int = 1000  # pages followed of one upstream list
    page_size: int = 1000  # items in one page of a merged list
    max_stderr_tail: int = 64 * KiB  # last words kept per process


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream, after expansion: nothing in here needs the environment any more."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # the server's own variables, on top of what `inherit_env` lets through
    inherit_env: bool | tuple[str, ...] = False
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    protocol: str = "auto"  # auto, legacy, modern, or one dated revision
    scope: Literal["host", "shared", "call"] = "host"
    builtin: Literal["demo"] | None = None  # an in-process server instead of a command or URL
    passthrough: bool = False  # names and URIs are the upstream's own; never a key of the file
    limits: Limits = Limits()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration: the servers in the file's order, and the limits of the gateway itself."""

    servers: tuple[ServerSettings, ...] = ()
    limits: Limits = Limits()
    state_dir: str | None = None  # where eras are remembered; None keeps them in memory only
    source: str | None = None  # the file it came from, for messages
