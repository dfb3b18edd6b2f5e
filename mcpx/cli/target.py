"""From the command line to settings: which servers, and under whose names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from mcpx.config import load
from mcpx.config.document import Object
from mcpx.config.locate import candidates, state_folder
from mcpx.config.report import Place, Report
from mcpx.config.servers import check_headers
from mcpx.config.values import STREAMS
from mcpx.config.values import headers as check_values
from mcpx.config.values import url as check_url
from mcpx.errors import ConfigError
from mcpx.settings import Limits, ServerSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.config import Loaded


class Chosen(msgspec.Struct, frozen=True):
    """What to run, and what is odd about the configuration it came from."""

    settings: Settings
    warnings: tuple[str, ...] = ()


def load_configuration(config: str | None) -> Loaded:
    """The configuration by the search order, from this process's environment and folder."""
    return load(config, os.environ, Path.cwd())


def sought() -> str:
    """Where a configuration was looked for, for a message that says that there is none."""
    return "looked for " + ", ".join(str(file) for file in candidates(os.environ, Path.cwd()))


def choose(
    target: str | None,
    command: Sequence[str] | None,
    config: str | None,
    passthrough: Sequence[str] = (),
    headers: Sequence[str] = (),
) -> Chosen:
    """Settings for a command line.

    A ``command`` or a URL is one server given on the spot: no file is searched for, and one named by ``config`` gives
    its limits only. ``headers`` (``Name: value``) are for a URL; variables in them are expanded. A name is one server
    of the configuration. Each of them is passed through. Without a target it is the whole configuration, with the
    servers in ``passthrough`` passed through.

    Raises ``ConfigError`` for what does not fit together, and as ``load`` does.
    """
    has_url = target is not None and "://" in target
    if headers and not has_url:
        raise ConfigError(["--header is for a server that is given by its URL"])
    if command is not None or has_url:
        if target is not None and command is not None:
            raise ConfigError([f'either "{target}" or a command behind "--", not both'])
        if passthrough:
            raise ConfigError(["--passthrough is for the servers of a configuration"])
        server = _from_command(command) if command is not None else _from_url(target or "", headers)
        return _on_the_spot(server, config)
    loaded = load_configuration(config)
    if target is None:
        return Chosen(_passed_through(loaded, passthrough), loaded.warnings)
    if passthrough:
        raise ConfigError([f'"{target}" is passed through already; leave --passthrough out'])
    server = msgspec.structs.replace(_named(loaded, target), passthrough=True)
    return Chosen(msgspec.structs.replace(loaded.settings, servers=(server,)), loaded.warnings)


def _on_the_spot(server: ServerSettings, config: str | None) -> Chosen:
    loaded = load_configuration(config) if config is not None else None
    limits = loaded.settings.limits if loaded is not None else Limits()
    settings = Settings(
        servers=(msgspec.structs.replace(server, limits=limits, passthrough=True),),
        limits=limits,
        state_dir=state_folder(os.environ),
        source=loaded.settings.source if loaded is not None else None,
    )
    return Chosen(settings, loaded.warnings if loaded is not None else ())


def _from_command(command: Sequence[str]) -> ServerSettings:
    if not command or not command[0]:
        raise ConfigError(['no command follows "--"'])
    program, *args = command
    # There is no file to say what the server inherits, and whoever typed the command expects what `env COMMAND` does.
    return ServerSettings(name=Path(program).name, command=program, args=tuple(args), inherit_env=True)


def _from_url(url: str, given: Sequence[str]) -> ServerSettings:
    report = Report("the command line")
    check_url(Place(report, key="TARGET"), url, {})
    headers = _headers(Place(report, key="--header"), url, given) if not report.problems else {}
    if report.problems:
        raise ConfigError(report.problems)
    parts = urlsplit(url)
    # As messages about it show the address, so that they need not name it twice.
    name = parts.netloc.rpartition("@")[2].lower() or Path(parts.path).stem or "server"
    return ServerSettings(name=name, url=url, headers=headers)


def _headers(place: Place, url: str, given: Sequence[str]) -> dict[str, str]:
    """The headers of a command line, each ``Name: value``. Nothing of them is shown but a name."""
    said = Object()
    for one in given:
        name, colon, value = one.partition(":")
        if not colon or not name.strip():
            place.problem('needs "Name: value", such as "Authorization: Bearer ${TOKEN}"')
        elif name.strip().lower() in {other.lower() for other in said}:
            place.problem(f"{name.strip()} is given twice")
        else:
            said[name.strip()] = value.strip()
    headers = check_values(place, said, os.environ) or {}
    scheme = urlsplit(url).scheme
    if headers and scheme in STREAMS:
        place.problem(f"a {scheme}:// URL has no room for headers")
    check_headers(place, scheme, headers)
    return headers


def names_of(loaded: Loaded, names: Sequence[str]) -> frozenset[str]:
    """The same names, each of which a server of the configuration has.

    Raises ``ConfigError`` that says all that are none, and which there are.
    """
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            _named(loaded, name)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return frozenset(names)


def _passed_through(loaded: Loaded, names: Sequence[str]) -> Settings:
    chosen = names_of(loaded, names)
    servers = tuple(
        msgspec.structs.replace(server, passthrough=True) if server.name in chosen else server
        for server in loaded.settings.servers
    )
    return msgspec.structs.replace(loaded.settings, servers=servers)


def _named(loaded: Loaded, name: str) -> ServerSettings:
    """One server of a configuration."""
    for server in loaded.settings.servers:
        if server.name == name:
            return server
    source = loaded.settings.source
    if name in loaded.disabled:
        raise ConfigError([f'server "{name}" is disabled in {source}'])
    where = f" in {source}" if source is not None else f", as no configuration was found ({sought()})"
    names = ", ".join(f'"{server.name}"' for server in loaded.settings.servers) or "none"
    raise ConfigError([f'no server is called "{name}"{where}; there is {names}'])
