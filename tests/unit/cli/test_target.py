"""Which servers a command line means."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from mcpx.cli.target import Chosen, choose
from mcpx.errors import ConfigError
from mcpx.settings import Limits, ServerSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
    ("url", "name"), [("unix:///run/mcp.sock", "mcp"), ("tcp://127.0.0.1:7000", "127.0.0.1"), ("tcp://[::1]:7", "::1")]
)
def test_an_address_on_the_spot_has_a_name(folder: Path, url: str, name: str) -> None:
    assert choose(url, None, None).settings.servers == (ServerSettings(name=name, url=url, passthrough=True),)


def test_a_url_is_a_server_passed_through(folder: Path) -> None:
    expected = ServerSettings(name="example.com", url="https://example.com/mcp", passthrough=True)
    chosen = choose("https://example.com/mcp", None, None)
    assert chosen.settings == settings(folder, expected, limits=Limits(), source=None)


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
