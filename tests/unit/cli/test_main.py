"""The command line as a person meets it: help, versions, and what is said of a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpx import __version__
from mcpx.cli.main import app, run

if TYPE_CHECKING:
    from collections.abc import Callable

    Python = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[3]
COMMANDS = ("serve", "check", "discover", "listen", "revisions", "demo")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and an environment in which no configuration is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("MCPX_CONFIG", "MCPX_LOG_LEVEL", "MCPX_LOG_FORMAT", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def environ(nowhere: Path) -> dict[str, str]:
    """The same for a process of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(nowhere), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def python(nowhere: Path, environ: dict[str, str]) -> Python:
    """Runs Python with these arguments in a process of its own, in the same place."""

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=nowhere,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


def test_version(python: Python) -> None:
    done = python("-m", "mcpx", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert run(arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for word in ("Usage:", "Examples:", "mcpx serve -- npx", "MCPX_CONFIG", *COMMANDS):
        assert word in said.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run((command, "--help")) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"Usage: mcpx {command}" in said.out


def test_the_examples_of_a_command_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert run((command, "--help")) == 0
        examples = capsys.readouterr().out.partition("Examples:")[2].split("\n")
        assert all(line.startswith(f"  mcpx {command}") for line in examples if line.startswith("  mcpx ")), command


def test_help_fits_a_terminal_of_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line of the examples is wrapped."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(("--help",)) == 0
    assert "  mcpx serve -- npx -y some-mcp-server  one server, without a configuration\n" in capsys.readouterr().out


def test_help_loads_no_event_loop(python: Python) -> None:
    """Which is most of what starting costs (guide: imports are late)."""
    program = (
        "import sys\n"
        "from mcpx.cli.main import app, run\n"
        "status = run(['--help'])\n"
        "heavy = {'trio', 'httpx', 'trio_websocket', 'msgspec'} & sys.modules.keys()\n"
        "sys.exit(f'loaded: {heavy}' if heavy else status)\n"
    )
    done = python("-c", program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (("serv",), 'Unknown command "serv". Did you mean "serve"?', "mcpx --help"),
        (("serve", "--htp", "localhost:80"), "Unknown option: --htp. Did you mean --http?", "mcpx serve --help"),
        (("serve", "--confg", "x"), "Unknown option: --confg. Did you mean --config?", "mcpx serve --help"),
        (("serve", "--config"), "parameter --config requires an argument", "mcpx serve --help"),
        (("serve", "a", "b"), 'unexpected argument "b"; a server\'s command goes behind "--"', "mcpx serve --help"),
        (
            ("discover", "npx", "-y", "some-server"),
            'Unknown option: -y; a server\'s command goes behind "--"',
            "mcpx discover --help",
        ),
        (("listen", "uvx", "x"), 'unexpected argument "x"; a server\'s command goes behind "--"', "mcpx listen --help"),
        (
            ("serve", "--log-level", "loud"),
            '--log-level: "loud" is not valid; valid are debug, info, warning, error',
            "mcpx serve --help",
        ),
        (("check", "--", "x"), 'nothing can follow "--" here', "mcpx check --help"),
        (("revisions", "ping", "x"), 'unexpected argument "x"', "mcpx revisions --help"),
    ],
)
def test_a_command_line_that_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str, hint: str
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    first, second = said.err.splitlines()
    assert first.startswith("mcpx: ")
    assert problem in first
    assert second == f'mcpx: try "{hint}"'


def test_the_log_level_can_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPX_LOG_LEVEL", "loud")
    assert run(("serve",)) == 2
    assert 'MCPX_LOG_LEVEL: "loud" is not valid; valid are debug, info, warning, error' in capsys.readouterr().err


def test_a_variable_that_is_empty_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the shell's own defaults and those of containers have it."""
    monkeypatch.setenv("MCPX_LOG_LEVEL", "")
    monkeypatch.setenv("MCPX_LOG_FORMAT", "")
    _, bound, _ = app.parse_args(["serve"], print_error=False, exit_on_error=False)
    assert (bound.arguments["log_level"], bound.arguments["log_format"]) == ("info", "text")


def test_an_option_that_is_empty_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("serve", "--log-level", "")) == 2
    assert '--log-level: "" is not valid' in capsys.readouterr().err


def test_the_case_of_a_log_level_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPX_LOG_LEVEL", "ERROR")
    _, bound, _ = app.parse_args(["serve", "--log-format", "Json"], print_error=False, exit_on_error=False)
    assert (bound.arguments["log_level"], bound.arguments["log_format"]) == ("error", "json")


@pytest.mark.parametrize("arguments", [("serve",), ("check",), ("discover", "a"), ("listen",)])
def test_every_mistake_of_the_configuration_is_a_line(
    capsys: pytest.CaptureFixture[str], nowhere: Path, arguments: tuple[str, ...]
) -> None:
    file = nowhere / "mcpx.json"
    file.write_text('{"mcpServers": {"a": {}, "b": {"command": "x", "scope": "any"}}}')
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f'mcpx: {file}: server "a": has no "command" or "url"',
        f'mcpx: {file}: server "b": scope: "any" is not valid; valid are host, shared, call',
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


def test_a_socket_needs_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("serve", "--socket", "")) == 2
    assert capsys.readouterr().err == "mcpx: --socket needs a path\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_when_all_is_done_changes_nothing(python: Python, name: str) -> None:
    """Hosts send a second signal, or one after the end of stdin, and take a death by it for a crash."""
    program = (
        "import atexit, os, signal, sys; from mcpx.cli.main import main; sys.argv = ['mcpx', '--version']; "
        f"atexit.register(lambda: os.kill(os.getpid(), signal.{name})); main()"
    )
    done = python("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
