"""The configuration's structs and the table of limits.

Every queue, buffer, table and wait of mcpx has its bound here, with its default, its range and its reason. What the
keys are called, what ``docs/configuration.md`` shows and what a file is checked against all come from this one table
(``limit_rows``). Times are seconds, sizes bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
MOMENT = 0.001  # the shortest wait where none at all would make no sense
WEEK = 7 * 24 * 3600.0  # the longest wait that can be configured: long enough for anything, and still an end

Level = Literal["server", "gateway"]


def _limit(
    unit: Literal["seconds", "bytes", "count"],
    about: str,
    *,
    least: float,
    most: float = WEEK,
    key: str | None = None,
    level: Level = "server",
) -> msgspec.Meta:
    """What is known of a limit beside its name, type and default.

    ``key`` is its spelling in the file where that is not the field's name in camel case; ``level`` says whether a
    server may override it.
    """
    return msgspec.Meta(ge=least, le=most, description=about, extra={"unit": unit, "key": key, "level": level})


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=False):
    """Limits and waits. A server may override those that concern it (see ``ServerSettings.limits``)."""

    probe_delay: Annotated[
        float, _limit("seconds", "how long a `server/discover` probe is alone before `initialize` follows it", least=0)
    ] = 1.0
    start_timeout: Annotated[
        float,
        _limit("seconds", "from spawn to usable; `npx` and `uvx` download on their first start", least=MOMENT),
    ] = 60.0
    list_timeout: Annotated[
        float, _limit("seconds", "how long a host's list waits for slow servers", least=0, level="gateway")
    ] = 10.0
    call_timeout: Annotated[
        float,
        _limit("seconds", "idle limit of a call; progress resets it", least=MOMENT, key="callTimeout.idle"),
    ] = 300.0
    call_timeout_total: Annotated[
        float,
        _limit("seconds", "hard cap of a call, whatever progress says", least=MOMENT, key="callTimeout.total"),
    ] = 3600.0
    question_timeout: Annotated[
        float,
        _limit("seconds", "how long a question of a server waits for its answer", least=MOMENT, level="gateway"),
    ] = 600.0
    exit_budget_eof: Annotated[
        float,
        _limit(
            "seconds",
            "from the end of stdin to exit; hosts kill after about two seconds",
            least=0.3,
            key="exitBudget.eof",
            level="gateway",
        ),
    ] = 1.7
    exit_budget_signal: Annotated[
        float,
        _limit(
            "seconds",
            "from SIGTERM or SIGINT to exit on stdio",
            least=0.3,
            key="exitBudget.signal",
            level="gateway",
        ),
    ] = 0.8
    exit_budget_server: Annotated[
        float,
        _limit(
            "seconds",
            "from SIGTERM or SIGINT to exit when serving a socket or HTTP",
            least=0.3,
            key="exitBudget.server",
            level="gateway",
        ),
    ] = 5.0
    stdin_grace: Annotated[
        float, _limit("seconds", "shutdown ladder: close the server's stdin, then wait this long", least=0)
    ] = 2.0
    term_grace: Annotated[
        float, _limit("seconds", "shutdown ladder: SIGTERM, then wait this long, then SIGKILL", least=0)
    ] = 3.0
    restart_backoff_step: Annotated[
        float,
        _limit("seconds", "each failed start in a row adds this much to the wait before the next", least=MOMENT),
    ] = 2.0
    restart_backoff_max: Annotated[
        float, _limit("seconds", "the wait before a restart is never longer than this", least=MOMENT)
    ] = 30.0
    max_instances: Annotated[int, _limit("count", "processes of one server", least=1, most=1024)] = 16
    instance_idle: Annotated[
        float, _limit("seconds", "an instance that was not used for so long is retired", least=MOMENT)
    ] = 300.0
    max_frame: Annotated[int, _limit("bytes", "one JSON-RPC message, in either direction", least=KiB, most=GiB)] = (
        64 * MiB
    )
    max_in_flight: Annotated[
        int, _limit("count", "requests of one host connection at once", least=1, most=1_000_000, level="gateway")
    ] = 1024
    max_connections: Annotated[
        int,
        _limit(
            "count",
            "connections to a socket or HTTP port at once; one more is turned away",
            least=1,
            most=1_000_000,
            level="gateway",
        ),
    ] = 256
    max_head: Annotated[
        int, _limit("bytes", "the head of an HTTP request", least=KiB, most=16 * MiB, level="gateway")
    ] = 64 * KiB
    head_time: Annotated[
        float,
        _limit("seconds", "HTTP: from a request's first byte to the end of its head", least=MOMENT, level="gateway"),
    ] = 10.0
    body_time: Annotated[
        float, _limit("seconds", "HTTP: the longest pause in a request's body", least=MOMENT, level="gateway")
    ] = 60.0
    connection_idle: Annotated[
        float,
        _limit("seconds", "HTTP: how long a connection waits for its next request", least=MOMENT, level="gateway"),
    ] = 75.0
    write_time: Annotated[
        float,
        _limit("seconds", "HTTP: a client that takes nothing for so long has gone", least=MOMENT, level="gateway"),
    ] = 30.0
    keep_alive: Annotated[
        float,
        _limit("seconds", "a comment or ping on every open stream of a host, so often", least=MOMENT, level="gateway"),
    ] = 15.0
    max_parked: Annotated[
        int,
        _limit(
            "count", "calls at once that wait for answers of modern hosts", least=1, most=1_000_000, level="gateway"
        ),
    ] = 256
    max_subscriptions: Annotated[
        int,
        _limit(
            "count",
            "resources that one host, or one listen stream, can subscribe to",
            least=1,
            most=1_000_000,
            level="gateway",
        ),
    ] = 10_000
    max_sessions: Annotated[
        int, _limit("count", "HTTP sessions at once; one more is refused", least=1, most=1_000_000, level="gateway")
    ] = 1024
    session_idle: Annotated[
        float,
        _limit("seconds", "an HTTP session without a stream or call ends after so long", least=MOMENT, level="gateway"),
    ] = 1800.0
    replay_bytes: Annotated[
        int,
        _limit("bytes", "events kept of an HTTP session for a client that resumes", least=0, most=GiB, level="gateway"),
    ] = MiB
    replay_time: Annotated[float, _limit("seconds", "how long each of them is kept", least=0, level="gateway")] = 300.0
    max_pages: Annotated[int, _limit("count", "pages followed of one list of a server", least=1, most=1_000_000)] = 1000
    page_size: Annotated[
        int, _limit("count", "items in one page of a merged list", least=1, most=1_000_000, level="gateway")
    ] = 1000
    max_stderr_tail: Annotated[
        int, _limit("bytes", "last words kept of a server's stderr, per process", least=1, most=64 * MiB)
    ] = 64 * KiB


class LimitRow(msgspec.Struct, frozen=True):
    """One row of the table of limits."""

    field: str  # in `Limits`
    key: str  # in the file, under `limits`; a dot stands for a nested object
    unit: Literal["seconds", "bytes", "count"]
    default: float
    least: float
    most: float
    level: Level  # "server": the gateway's value can be overridden per server
    about: str


def limit_rows() -> tuple[LimitRow, ...]:
    """The table of limits, in the order of ``Limits``."""
    hints = get_type_hints(Limits, include_extras=True)
    rows: list[LimitRow] = []
    for field in msgspec.structs.fields(Limits):
        meta: msgspec.Meta = hints[field.name].__metadata__[0]
        extra: dict[str, Any] = meta.extra or {}
        rows.append(
            LimitRow(
                field=field.name,
                key=extra["key"] or field.encode_name,
                unit=extra["unit"],
                default=field.default,
                least=meta.ge or 0,
                most=meta.le or WEEK,
                level=extra["level"],
                about=meta.description or "",
            )
        )
    return tuple(rows)


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
    transport: Literal["stdio", "http", "sse", "websocket"] | None = None  # as the file names it, if it does
    protocol: str = "auto"  # auto, legacy, modern, or one dated revision
    scope: Literal["host", "shared", "call"] = "host"
    roots: tuple[str, ...] = ()  # `file:` URIs: what the server is told for a host that declares no roots of its own
    builtin: str | None = None  # an in-process server, by name, instead of a command or URL
    passthrough: bool = False  # names and URIs are the upstream's own; never a key of the file
    limits: Limits = Limits()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration: the servers in the file's order, and the limits of the gateway itself."""

    servers: tuple[ServerSettings, ...] = ()
    limits: Limits = Limits()
    state_key: str | None = None  # a secret: what mcpx gives hosts to give back is sealed with it; None: a random one
    state_dir: str | None = None  # where eras are remembered; None keeps them in memory only
    source: str | None = None  # the file it came from, for messages


# What a server is given of mcpx's own environment without being asked: what programs need to find themselves, their
# user, their language, clock and folders. The official SDKs pass the first six; the rest name places and formats as
# well. Nothing in here carries credentials, which proxy variables, for one, may.
SAFE_VARIABLES: tuple[str, ...] = (
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
)
SAFE_PREFIX = "LC_"


def server_environment(server: ServerSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that a server's process is given, out of mcpx's own.

    The safe variables, or with ``inherit_env`` all of them or the named ones as well, and the server's own ``env`` on
    top. A safe variable that holds a shell function (``() { ...``) is left out, as the official SDKs do.
    """
    if server.inherit_env is True:
        return {**environ, **server.env}
    named = server.inherit_env or ()
    inherited = {
        name: value
        for name, value in environ.items()
        if name in named or ((name in SAFE_VARIABLES or name.startswith(SAFE_PREFIX)) and not value.startswith("()"))
    }
    return {**inherited, **server.env}


# The headers that mcpx says itself in a request to a URL, by name or (with a hyphen last) by how the name begins, and
# what they belong to. A second one would contradict the first. `Host` is not among them: it may be another than the
# URL's.
_HTTP_ITSELF = dict.fromkeys(
    (
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ),
    "HTTP",
)
_HANDSHAKE_ITSELF = {**_HTTP_ITSELF, "sec-websocket-": "the WebSocket handshake"}
_MCP_ITSELF = {
    **_HTTP_ITSELF,
    **dict.fromkeys(("accept", "content-encoding", "content-type", "last-event-id", "mcp-"), "MCP"),
}
_RESERVED_HEADERS: dict[str, dict[str, str]] = {
    "http": _MCP_ITSELF,
    "https": _MCP_ITSELF,
    "ws": _HANDSHAKE_ITSELF,
    "wss": _HANDSHAKE_ITSELF,
}


def header_owner(scheme: str, name: str) -> str | None:
    """What says the header itself in a request to a URL of that scheme (``"HTTP"``, ``"MCP"``, ``"the WebSocket
    handshake"``), so that a configuration cannot; ``None`` where it can."""
    name = name.lower()
    for reserved, owner in _RESERVED_HEADERS.get(scheme, {}).items():
        if name == reserved or (reserved.endswith("-") and name.startswith(reserved)):
            return owner
    return None
