"""The command line as a person meets it: ``mcpx`` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mcpx import __version__

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ("serve", "check", "discover", "revisions", "demo")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment in which no configuration is found."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "COLUMNS": "200"}


def mcpx(*arguments: str, cwd: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpx", *arguments],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version(tmp_path: Path, environ: dict[str, str]) -> None:
    done = mcpx("--version", cwd=tmp_path, environ=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help(tmp_path: Path, environ: dict[str, str], arguments: tuple[str, ...]) -> None:
    done = mcpx(*arguments, cwd=tmp_path, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("Usage:", "Examples:", "mcpx serve -- npx", "MCPX_CONFIG", *COMMANDS):
        assert word in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(tmp_path: Path, environ: dict[str, str], command: str) -> None:
    done = mcpx(command, "--help", cwd=tmp_path, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: mcpx {command}" in done.stdout


def test_help_fits_a_terminal_of_eighty_columns(tmp_path: Path, environ: dict[str, str]) -> None:
    """No line of the examples is wrapped."""
    done = mcpx("--help", cwd=tmp_path, environ={**environ, "COLUMNS": "80"})
    assert "  mcpx serve -- npx -y some-mcp-server  one server, without a configuration\n" in done.stdout


def test_help_loads_no_event_loop(tmp_path: Path, environ: dict[str, str]) -> None:
    """Which is most of what starting costs (guide: imports are late)."""
    program = (
        "import sys\n"
        "from mcpx.cli.main import run\n"
        "status = run(['--help'])\n"
        "heavy = {'trio', 'httpx', 'trio_websocket', 'msgspec'} & sys.modules.keys()\n"
        "sys.exit(f'loaded: {heavy}' if heavy else status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (("serv",), 'Unknown command "serv". Did you mean "serve"?', "mcpx --help"),
        (("serve", "--http", "localhost:80"), "Unknown option: --http.", "mcpx serve --help"),
        (("serve", "--confg", "x"), "Unknown option: --confg. Did you mean --config?", "mcpx serve --help"),
        (("serve", "--config"), "parameter --config requires an argument", "mcpx serve --help"),
        (("serve", "a", "b"), 'unexpected argument "b"', "mcpx serve --help"),
        (("serve", "--log-level", "loud"), 'Invalid value "loud" for --log-level.', "mcpx serve --help"),
        (("check", "--", "x"), 'nothing can follow "--" here', "mcpx check --help"),
        (("revisions", "x"), 'unexpected argument "x"', "mcpx revisions --help"),
    ],
)
def test_a_command_line_that_is_wrong(
    tmp_path: Path, environ: dict[str, str], arguments: tuple[str, ...], problem: str, hint: str
) -> None:
    done = mcpx(*arguments, cwd=tmp_path, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("mcpx: ")
    assert problem in first
    assert second == f'mcpx: try "{hint}"'


def test_the_log_level_can_come_from_the_environment(tmp_path: Path, environ: dict[str, str]) -> None:
    done = mcpx("serve", cwd=tmp_path, environ={**environ, "MCPX_LOG_LEVEL": "loud"})
    assert done.returncode == 2
    assert 'Invalid value "loud" for MCPX_LOG_LEVEL' in done.stderr.replace("--log-level", "MCPX_LOG_LEVEL")


@pytest.mark.parametrize("command", ["serve", "check", "discover"])
def test_every_mistake_of_the_configuration_is_a_line(tmp_path: Path, environ: dict[str, str], command: str) -> None:
    (tmp_path / "mcpx.json").write_text('{"mcpServers": {"a": {}, "b": {"command": "x", "scope": "any"}}}')
    done = mcpx(command, *(["a"] if command == "discover" else []), cwd=tmp_path, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f'mcpx: {tmp_path / "mcpx.json"}: server "a": has no "command" or "url"',
        f'mcpx: {tmp_path / "mcpx.json"}: server "b": scope: "any" is not valid; valid are host, shared, call',
    ]


def test_a_reader_that_has_seen_enough(tmp_path: Path, environ: dict[str, str]) -> None:
    """``mcpx revisions | head -1``: no traceback, no complaint of the interpreter."""
    with subprocess.Popen(
        [sys.executable, "-m", "mcpx", "revisions"],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        status = process.wait(60)
    assert (status, said) == (1, b"")
