"""Which servers a command line means."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from mcpx.cli.target import Chosen, choose
from mcpx.config import secrets_of
from mcpx.errors import ConfigError
from mcpx.settings import Limits, ServerSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LINE = "the command line: --header: "
LIMITS = Limits(probe_delay=0.25)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration of two servers, which is where mcpx is started; nothing else is found."""
    monkeypatch.chdir(tmp_path)
    for name in ("MCPX_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    servers = {"a": {"command": "run-a"}, "b": {"command": "run-b"}, "off": {"command": "x", "disabled": True}}
    (tmp_path / "mcpx.json").write_text(
        json.dumps({"limits": {"probeDelay": 0.25}, "mcpServers": servers, "comment": "odd"})
    )
    return tmp_path


def server(name: str, *, passthrough: bool = False) -> ServerSettings:
    return ServerSettings(name=name, command=f"run-{name}", limits=LIMITS, passthrough=passthrough)


def settings(
    folder: Path, *servers: ServerSettings, limits: Limits = LIMITS, source: str | None = "mcpx.json"
) -> Settings:
    return Settings(
        servers=servers,
        limits=limits,
        state_dir=str(folder / "home" / ".local" / "state" / "mcpx"),
        source=None if source is None else str(folder / source),
    )


def test_without_a_target_it_is_the_configuration(folder: Path) -> None:
    chosen = choose(None, None, None)
    assert chosen.settings == settings(folder, server("a"), server("b"))
    assert chosen.warnings == (f'{folder / "mcpx.json"}: unknown key "comment" is ignored',)


def test_some_are_passed_through(folder: Path) -> None:
    assert choose(None, None, None, ["b"]).settings == settings(folder, server("a"), server("b", passthrough=True))


def test_a_name_is_one_server_passed_through(folder: Path) -> None:
    assert choose("b", None, None).settings == settings(folder, server("b", passthrough=True))


def test_a_command_is_a_server_passed_through_and_no_file_is_searched_for(folder: Path) -> None:
    on_the_spot = ServerSettings(
        name="server", command="/opt/server", args=("-x", "--", "y"), inherit_env=True, passthrough=True
    )
    expected = Chosen(settings(folder, on_the_spot, limits=Limits(), source=None))
    assert choose(None, ("/opt/server", "-x", "--", "y"), None) == expected


def test_a_named_file_gives_a_command_its_limits(folder: Path) -> None:
    chosen = choose(None, ("x",), "mcpx.json")
    expected = ServerSettings(name="x", command="x", inherit_env=True, passthrough=True, limits=LIMITS)
    assert chosen.settings == settings(folder, expected)


@pytest.mark.parametrize(
    ("url", "name"),
    [("unix:///run/mcp.sock", "mcp"), ("tcp://127.0.0.1:7000", "127.0.0.1:7000"), ("tcp://[::1]:7", "[::1]:7")],
)
def test_an_address_on_the_spot_has_a_name(folder: Path, url: str, name: str) -> None:
    assert choose(url, None, None).settings.servers == (ServerSettings(name=name, url=url, passthrough=True),)


def test_a_url_is_a_server_passed_through(folder: Path) -> None:
    expected = ServerSettings(name="example.com", url="https://example.com/mcp", passthrough=True)
    chosen = choose("https://example.com/mcp", None, None)
    assert chosen.settings == settings(folder, expected, limits=Limits(), source=None)


def test_the_name_shows_nothing_secret(folder: Path) -> None:
    [server] = choose("https://user:word@Example.com:8443/mcp?key=x", None, None).settings.servers
    assert server.name == "example.com:8443"


def test_a_url_has_headers_whose_variables_are_expanded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-t0ken")
    given = ["Authorization: Bearer ${TOKEN}", "X-Team:blue"]
    settings = choose("https://example.com/mcp", None, None, headers=given).settings
    [server] = settings.servers
    assert server.headers == {"Authorization": "Bearer s3cret-t0ken", "X-Team": "blue"}
    assert "s3cret-t0ken" in secrets_of(settings.servers)


@pytest.mark.parametrize(
    ("target", "command", "headers", "problems"),
    [
        ("a", None, ["X: s3cret"], ["--header is for a server that is given by its URL"]),
        (None, None, ["X: s3cret"], ["--header is for a server that is given by its URL"]),
        (None, ("x",), ["X: s3cret"], ["--header is for a server that is given by its URL"]),
        ("tcp://h:1", None, ["X: s3cret"], [f"{LINE}a tcp:// URL has no room for headers"]),
        ("http://h/", None, ["s3cret"], [f'{LINE}needs "Name: value", such as "Authorization: Bearer ${{TOKEN}}"']),
        ("http://h/", None, ["X: s3cret", "x: s3cret"], [f"{LINE}x is given twice"]),
        ("http://h/", None, ["a b: s3cret"], [f'{LINE}"a b": not a valid name of an HTTP header']),
        (
            "http://h/",
            None,
            ["X: ${MCPX_NONE}", "Accept: */*"],
            [
                f"{LINE[:-2]}.X: the environment variable MCPX_NONE is not set, and no default is given "
                "(${MCPX_NONE:-...})",
                f"{LINE[:-2]}.Accept: belongs to MCP itself and cannot be set; take it out of the headers",
            ],
        ),
    ],
)
def test_headers_that_do_not_fit(
    folder: Path, target: str | None, command: Sequence[str] | None, headers: list[str], problems: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(target, command, None, headers=headers)
    assert caught.value.problems == problems


@pytest.mark.parametrize(
    ("target", "command", "passthrough", "problem"),
    [
        ("c", None, (), 'no server is called "c" in {file}; there is "a", "b"'),
        ("off", None, (), 'server "off" is disabled in {file}'),
        (None, None, ("c",), 'no server is called "c" in {file}; there is "a", "b"'),
        ("a", None, ("b",), '"a" is passed through already; leave --passthrough out'),
        (None, ("x",), ("b",), "--passthrough is for the servers of a configuration"),
        ("a", ("x",), (), 'either "a" or a command behind "--", not both'),
        (None, (), (), 'no command follows "--"'),
        (None, ("",), (), 'no command follows "--"'),
        (
            "ftp://h/",
            None,
            (),
            'the command line: TARGET: "ftp" is not a valid scheme; '
            "valid are http://, https://, ws://, wss://, unix://, tcp://",
        ),
    ],
)
def test_what_does_not_fit(
    folder: Path, target: str | None, command: Sequence[str] | None, passthrough: Sequence[str], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(target, command, None, passthrough)
    assert caught.value.problems == [problem.format(file=folder / "mcpx.json")]


def test_the_demo_server_has_a_name_too(folder: Path) -> None:
    (folder / "mcpx.json").unlink()
    demo = ServerSettings(name="demo", builtin="demo", passthrough=True)
    assert choose("demo", None, None).settings == settings(folder, demo, limits=Limits(), source=None)
    with pytest.raises(ConfigError) as caught:
        choose("a", None, None)
    sought = f"{folder / 'mcpx.json'}, {folder / 'home' / '.config' / 'mcpx' / 'mcpx.json'}"
    if sys.platform == "darwin":
        sought += f", {folder / 'home' / 'Library' / 'Application Support' / 'mcpx' / 'mcpx.json'}"
    assert caught.value.problems == [
        f'no server is called "a", as no configuration was found (looked for {sought}); there is "demo"'
    ]
