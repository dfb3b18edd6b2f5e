"""Finding, reading and checking a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mcpx.config import values
from mcpx.config.document import MAX_FILE, JsonValue, Object, kind_of, parse, repeated_keys
from mcpx.config.limits import KEYS as LIMIT_KEYS
from mcpx.config.limits import read_limits
from mcpx.config.locate import candidates, named_file, resolve, state_folder
from mcpx.config.report import Place, Report
from mcpx.config.roots import read_roots, root_uri
from mcpx.config.servers import read_server
from mcpx.errors import ConfigError
from mcpx.names import server_part
from mcpx.settings import Limits, ServerSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# VS Code calls the same object "servers".
_SERVERS_KEYS = ("mcpServers", "servers")
_TOP_KEYS = (*_SERVERS_KEYS, "limits", "roots", "stateKey")
_IGNORED_KEYS = ("$schema",)  # for editors

SHORTEST_KEY = 16  # characters of a key; whoever has seen what it sealed can try shorter ones

DEMO = ServerSettings(name="demo", builtin="demo")


class Loaded(msgspec.Struct, frozen=True):
    """A configuration that was read: what it says, what is odd about it, and the servers it switches off."""

    settings: Settings
    warnings: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


def load(path: str | None, environ: Mapping[str, str], cwd: Path) -> Loaded:
    """Read the configuration.

    It comes from ``path``, else from the file that ``MCPX_CONFIG`` names, else from the first ``mcpx.json`` in ``cwd``
    or the user's folder. With none of them it is the built-in demo server.

    Raises ``ConfigError`` with every mistake at once; a file that was named and is not there is one.
    """
    found = _find(path, environ, cwd)
    if found is None:
        return Loaded(Settings(servers=(DEMO,), state_dir=state_folder(environ)))
    file, data = found
    try:
        document = parse(data)
    except ValueError as error:
        raise ConfigError([f"{file}: {error}"]) from None
    return read(document, file, environ)


def read(document: JsonValue, file: Path, environ: Mapping[str, str]) -> Loaded:
    """Check a parsed configuration and decode it; ``file`` is for messages, and for relative ``cwd`` entries.

    Raises ``ConfigError`` with every mistake at once, and behind them what is odd, since a key that is misspelt is
    often why another is missing.
    """
    report = Report(str(file))
    top = Place(report)
    if not isinstance(document, Object):
        top.problem(f"must be an object, not {kind_of(document)}")
        raise ConfigError(report.problems)
    _check_repeated(report, document)
    for key in document:
        if key not in (*_TOP_KEYS, *_IGNORED_KEYS):
            top.unknown(key, _TOP_KEYS, elsewhere=[f"limits.{name}" for name in LIMIT_KEYS])
    limits = read_limits(top.within("limits"), document.get("limits"), Limits(), within_server=False)
    state_key = _read_state_key(top.within("stateKey"), document.get("stateKey"), environ)
    roots = read_roots(top.within("roots"), document.get("roots", []), environ) or ()
    servers, disabled = _read_servers(top, document, limits, roots, environ)
    _check_names(top, [server.name for server in servers])
    if report.problems:
        raise ConfigError([*report.problems, *report.warnings])
    settings = Settings(
        servers=tuple(_with_folder(server, file.parent) for server in servers),
        limits=limits,
        state_key=state_key,
        state_dir=state_folder(environ),
        source=str(file),
    )
    return Loaded(settings, tuple(report.warnings), tuple(disabled))


def _find(path: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[Path, bytes] | None:
    """The file to read and its content."""
    named = named_file(path, environ)
    if named is not None:
        file = resolve(named[0], environ, cwd)
        try:
            return file, _read_file(file)
        except FileNotFoundError:
            raise ConfigError([f"{file}: no such file (named by {named[1]})"]) from None
    for file in candidates(environ, cwd):
        try:
            return file, _read_file(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


def _read_file(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from None
    if len(data) > MAX_FILE:
        raise ConfigError([f"{file}: larger than {MAX_FILE} bytes, so not a configuration"])
    return data


def _read_servers(
    top: Place, document: Object, limits: Limits, roots: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[list[ServerSettings], list[str]]:
    present = [key for key in _SERVERS_KEYS if key in document]
    if len(present) != 1:
        top.problem('has both "mcpServers" and "servers"; use one' if present else 'has no "mcpServers"')
        return [], []
    entries = document[present[0]]
    if not isinstance(entries, Object):
        top.within(present[0]).problem(f"must be an object, not {kind_of(entries)}")
        return [], []
    servers: list[ServerSettings] = []
    disabled: list[str] = []
    for name, entry in entries.items():
        server = read_server(Place(top.report, name), name, entry, limits, environ, roots=roots)
        if server == "disabled":
            disabled.append(name)
        elif isinstance(server, ServerSettings):
            servers.append(server)
    if top.report.problems:  # which matter more than that there would be nothing to run
        return servers, disabled
    if not entries:
        top.within(present[0]).warning("lists no server")
    elif len(disabled) == len(entries):
        top.within(present[0]).warning("every server is disabled")
    return servers, disabled


def _read_state_key(place: Place, value: JsonValue, environ: Mapping[str, str]) -> str | None:
    """What seals the state that hosts give back: a secret that several copies of mcpx can share."""
    if value is None:
        return None
    key = values.text(place, value, environ, secret=True)
    if key is not None and len(key) < SHORTEST_KEY:
        place.problem(f"must have at least {SHORTEST_KEY} characters; openssl rand -hex 32 makes a good one")
    return key


def _check_repeated(report: Report, document: Object) -> None:
    for path in repeated_keys(document):
        match path:
            case (("mcpServers" | "servers"), name):
                Place(report).problem(f'two servers are called "{name}"')
            case (("mcpServers" | "servers"), name, *within):
                Place(report, name).problem(f'"{".".join(within)}" is there more than once')
            case _:
                Place(report).problem(f'"{".".join(path)}" is there more than once')


def _check_names(top: Place, names: list[str]) -> None:
    """Two servers whose public names begin alike would take each other's calls (design, Names)."""
    by_part: dict[str, list[str]] = {}
    for name in names:
        by_part.setdefault(server_part(name), []).append(name)
    for part, sharing in by_part.items():
        if len(sharing) > 1:
            quoted = " and ".join(f'"{name}"' for name in sharing)
            top.problem(f'servers {quoted} would both show their tools as "{part}__..."; rename one')


def _with_folder(server: ServerSettings, folder: Path) -> ServerSettings:
    """A relative ``cwd`` or root is meant from the file's folder, wherever the host started mcpx."""
    cwd = None if server.cwd is None else str(folder / server.cwd)
    return msgspec.structs.replace(server, cwd=cwd, roots=tuple(root_uri(root, folder) for root in server.roots))
