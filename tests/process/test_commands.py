"""The commands that start servers, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.cli.demo import readable
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.process.machine import SERVER, Machine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_check_of_servers_that_come_up(machine: Machine) -> None:
    path = machine.configure({"one": machine.entry, "off": {**machine.entry, "disabled": True}})
    done = machine.run("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"Configuration: {path}",
        f"  ok      one: old 1.2, legacy {LATEST_LEGACY}, 1 tool, 1 line on stdout that is no message",
        "  off     off",
        "1 of 1 servers came up.",
    ]


def test_check_says_of_each_server_what_is_wrong(machine: Machine) -> None:
    machine.configure(
        {
            "good": machine.entry,
            "missing": {"command": "no-such-program"},
            "ends": {
                "command": "sh",
                "args": ["-c", "echo no licence for hush-hush >&2; exit 3"],
                "env": {"K": "hush-hush"},
            },
            "remote": {"url": "https://me:hush-hush@127.0.0.1:1/mcp?key=hush-hush"},
        },
        odd=True,
    )
    done = machine.run("check")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f'mcpx: warning: {machine.folder / "mcpx.json"}: unknown key "odd" is ignored']
    first, *lines, last = done.stdout.splitlines()
    assert first.startswith("Configuration: ")
    assert last == "1 of 4 servers came up."
    by_name = {line.split()[1].rstrip(":"): line for line in lines}
    assert by_name["good"].startswith("  ok ")
    assert by_name["missing"].startswith('  failed  missing: The command "no-such-program" was not found on the PATH')
    assert "exited with status 3" in by_name["ends"]
    assert "no licence for ***" in by_name["ends"]
    assert by_name["remote"].startswith("  failed  remote (https://***@127.0.0.1:1/mcp?***): ")
    assert "127.0.0.1:1 cannot be connected to: Connection refused" in by_name["remote"]
    assert "hush" not in done.stdout


def test_check_of_some_servers_starts_no_others(machine: Machine) -> None:
    broken = {"command": "no-such-program"}
    machine.configure({"b": machine.entry, "broken": broken, "a": machine.entry, "off": {**broken, "disabled": True}})
    done = machine.run("check", "a", "b", "a")
    assert (done.returncode, done.stderr) == (0, "")
    _, *lines, last = done.stdout.splitlines()
    assert sorted(line.split()[:2] for line in lines) == [["ok", "a:"], ["ok", "b:"]]
    assert last == "2 of 2 servers came up."


def test_check_of_servers_that_there_are_not(machine: Machine) -> None:
    path = machine.configure({"one": machine.entry, "two": machine.entry, "off": {**machine.entry, "disabled": True}})
    done = machine.run("check", "on", "one", "off")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f'mcpx: no server is called "on" in {path}; there is "one", "two"',
        f'mcpx: server "off" is disabled in {path}',
    ]


def test_check_that_is_interrupted_claims_nothing(machine: Machine) -> None:
    mute = {"command": "sleep", "args": ["1000"]}
    machine.configure({"one": machine.entry, "mute": mute}, limits={"stdinGrace": 0})
    with machine.start("check", stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    assert lines[1].startswith("  ok      one: ")
    assert (process.returncode, rest) == (130, "")
    assert "Traceback" not in said


def test_a_header_of_the_command_line_shows_nowhere(machine: Machine) -> None:
    machine.environ["TOKEN"] = "hush-hush"
    done = machine.run(
        "discover", "http://127.0.0.1:1/hush-hush", "--header", "Authorization: Bearer ${TOKEN}", "--log-level", "debug"
    )
    assert done.returncode == 1
    assert "mcpx: 127.0.0.1:1 cannot be connected to: Connection refused." in done.stderr.splitlines()
    assert "hush" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["check", "discover"])
def test_what_a_server_says_meanwhile_can_be_heard(machine: Machine, command: str) -> None:
    machine.server.write_text("import sys\nprint('loading maps', file=sys.stderr)\n" + SERVER)
    machine.configure({"one": machine.entry})
    heard = machine.run(command, "one", "--log-level", "info")
    assert heard.returncode == 0
    assert "info mcpx.upstream: [one] loading maps" in heard.stderr
    assert f"info mcpx.upstream: [one] up, revision {LATEST_LEGACY}" in heard.stderr
    assert machine.run(command, "one").stderr == ""


def test_check_without_a_configuration_checks_the_demo_server(machine: Machine) -> None:
    done = machine.run("check")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith(f"Configuration: none found (looked for {machine.folder / 'mcpx.json'}, ")
    assert first.endswith("), so the built-in demo server")
    assert second.startswith("  ok      demo: ")


def test_discover_a_command(machine: Machine) -> None:
    done = machine.run("discover", "--", *machine.command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "server:       old 1.2",
        "title:        Old one",
        "era:          legacy",
        f"revision:     {LATEST_LEGACY}",
        f"speaks:       {LATEST_LEGACY}",
        "capabilities: tools",
        "offers:       1 tool",
        "instructions: Mind the gap.",
    ]


def test_discover_as_json(machine: Machine) -> None:
    machine.configure({"one": machine.entry})
    done = machine.run("discover", "one", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "server": "one",
        "era": "legacy",
        "revision": LATEST_LEGACY,
        "revisions": [LATEST_LEGACY],
        "serverInfo": {"name": "old", "version": "1.2", "title": "Old one"},
        "capabilities": {"tools": {}},
        "instructions": "Mind\nthe gap.",
        "counts": {"tools": 1, "prompts": 0, "resources": 0, "templates": 0},
        "noise": 1,
    }


def test_discover_a_server_of_the_modern_era(machine: Machine) -> None:
    done = machine.run("discover", "demo", "--json")
    found = json.loads(done.stdout)
    assert (found["era"], found["revision"]) == ("modern", LATEST_MODERN)
    assert LATEST_MODERN in found["revisions"]


def test_discover_a_server_that_does_not_come_up(machine: Machine) -> None:
    done = machine.run("discover", "--", "no-such-program")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith('mcpx: no-such-program: The command "no-such-program" was not found on the PATH')


def test_serve_says_to_a_person_what_it_waits_for(machine: Machine) -> None:
    """Whoever starts it in a terminal would otherwise see it do nothing."""
    ours, theirs = os.openpty()
    try:
        with machine.start("serve", stdin=theirs) as process:
            assert process.stderr is not None
            lines = [process.stderr.readline() for _ in range(2)]
            process.terminate()
            said, _ = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert "info mcpx: serving the built-in demo server" in lines[0]
    assert "info mcpx: stdin is a terminal" in lines[1]
    assert said == ""


def test_discover_needs_to_know_what(machine: Machine) -> None:
    done = machine.run("discover")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'mcpx: name a configured server or a URL, or give a command behind "--"\n'


def test_revisions(machine: Machine) -> None:
    done = machine.run("revisions")
    assert (done.returncode, done.stderr) == (0, "")
    assert LATEST_LEGACY in done.stdout
    assert "server/discover" in done.stdout
    data = json.loads(machine.run("revisions", "--json").stdout)
    assert [entry["revision"] for entry in data["revisions"]][-1] == LATEST_MODERN


def test_demo_whatever_is_configured(machine: Machine) -> None:
    """It serves the demo server even where the user has a configuration, and a broken one."""
    machine.configure({"broken": {}})
    done = machine.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"legacy era ({LATEST_LEGACY})" in done.stdout
    assert f"modern era ({LATEST_MODERN})" in done.stdout
    assert done.stdout.count('"method": "tools/call"') == 2
    assert done.stdout.count('{"type": "text", "text": "hello from either era"}') == 2
    assert max(map(len, done.stdout.splitlines())) <= 104


def test_demo_says_why_what_it_started_ended(machine: Machine) -> None:
    (machine.folder / "sitecustomize.py").write_text(
        "import os, sys\nif 'serve' in sys.orig_argv:\n    os.write(2, b'out of luck\\n')\n    os._exit(3)\n"
    )
    machine.environ["PYTHONPATH"] = os.pathsep.join(
        [str(machine.folder), *filter(None, [machine.environ.get("PYTHONPATH")])]
    )
    done = machine.run("demo")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "mcpx: mcpx ended with status 3 before it answered initialize; it said: out of luck"
    ]


def test_serve_puts_nothing_but_frames_on_stdout(machine: Machine) -> None:
    machine.configure({"one": machine.entry}, odd=True)
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LATEST_LEGACY}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with machine.start("serve", "--log-format", "json") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.writelines(json.dumps(frame) + "\n" for frame in frames)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in frames]
        process.stdin.close()
        rest, said = process.stdout.read(), process.stderr.read()
        status = process.wait(60)
    assert (status, rest) == (0, "")
    tools = next(answer for answer in answers if answer["id"] == 2)["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["one__dig"]
    entries = [json.loads(line) for line in said.splitlines()]
    warning = next(entry["message"] for entry in entries if entry["level"] == "warning")
    assert warning.endswith('unknown key "odd" is ignored')
    assert "one" in {entry.get("server") for entry in entries}


def test_serve_with_a_stderr_that_nobody_reads(machine: Machine) -> None:
    """A server that says more than a pipe holds stops nobody, and mcpx ends in time all the same."""
    chatty = "import sys\nfor _ in range(5000): print('x' * 900, file=sys.stderr)\n"
    machine.server.write_text(chatty + SERVER)
    reading, writing = os.pipe()
    with machine.start("serve", "--log-level", "debug", "--", *machine.command, stderr=writing) as process:
        os.close(writing)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n')
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        status = process.wait(10)
    os.close(reading)
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["dig"]
    assert status == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_well_on_a_signal(machine: Machine, number: signal.Signals) -> None:
    with machine.start("serve") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        status = process.wait(10)
        said = process.stderr.read()
    assert status == 0
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("value", "width", "lines"),
    [
        ({"a": 1}, 20, ['{"a": 1}']),
        ({"a": 1, "b": [1, 2]}, 12, ["{", '  "a": 1,', '  "b": [', "    1,", "    2", "  ]", "}"]),
        ([{"a": 1}, {"a": 2}, {"a": 3}], 12, ["[", '  {"a": 1},', "  ... 2 more", "]"]),
        ({"k": "x" * 30}, 20, ["{", '  "k": "xxxxxxx..."', "}"]),
        ([], 1, ["[]"]),
    ],
)
def test_frames_are_printed_to_be_read(value: Any, width: int, lines: list[str]) -> None:
    assert readable(value, width) == lines


def test_nothing_that_a_server_says_of_itself_reaches_the_terminal_raw(machine: Machine) -> None:
    machine.server.write_text(SERVER.replace('"old"', '"o\\x1b[2Jld"').replace("the gap.", "\\x1b]0;title\\x07"))
    machine.configure(
        {"a\u009bb": machine.entry, "gone": {"command": "sh", "args": ["-c", "printf 'a\\nb' >&2; exit 1"]}}
    )
    checked = machine.run("check")
    found = machine.run("discover", "--", *machine.command)
    for done in (checked, found):
        assert not any(ord(character) < 32 and character != "\n" for character in done.stdout + done.stderr)
        assert "\u009b" not in done.stdout
    assert "  ok      a\\x9bb: o\\x1b[2Jld 1.2" in checked.stdout
    assert "a\n          b" in checked.stdout
    assert found.returncode == 0


# A server of the legacy era that says of its tools, on being initialized, that they have changed.
TELLS = f"""
import json, sys
def say(**frame):
    print(json.dumps({{"jsonrpc": "2.0", **frame}}), flush=True)
for line in sys.stdin:
    frame = json.loads(line)
    if frame["method"] == "initialize":
        capabilities = {{"tools": {{"listChanged": True}}, "resources": {{}}}}
        info = {{"name": "tells", "version": "1"}}
        result = {{"protocolVersion": {LATEST_LEGACY!r}, "capabilities": capabilities, "serverInfo": info}}
        say(id=frame["id"], result=result)
    elif "id" in frame:
        say(id=frame["id"], error={{"code": -32601, "message": "Method not found"}})
    else:
        say(method="notifications/tools/list_changed")
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_listen_until_a_signal(machine: Machine, number: signal.Signals, status: int) -> None:
    machine.server.write_text(TELLS)
    machine.configure({"one": machine.entry})
    with machine.start("listen", "--json", "--uri", "mcpx://one/a:b", stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        said = [process.stderr.readline() for _ in range(3)]
        process.send_signal(number)
        rest, more = process.communicate(timeout=60)
    assert (process.returncode, json.loads(first)) == (status, {"server": "one", "kind": "tools"})
    assert said == [
        "mcpx: one tells of changes of tools\n",
        "mcpx: one does not tell of changes of resources: it declares no listChanged for them\n",
        "mcpx: mcpx://one/a:b is not listened to: one takes no subscriptions to resources\n",
    ]
    assert (rest, more) == ("", "")


def test_listen_for_a_reader_that_has_seen_enough(machine: Machine) -> None:
    machine.server.write_text(TELLS)
    machine.configure({"one": machine.entry})
    reading, writing = os.pipe()
    os.close(reading)
    with machine.start("listen", "--", *machine.command, stdin=subprocess.DEVNULL, stdout=writing) as process:
        os.close(writing)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("missing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_started_without_a_standard_stream_a_command_does_the_same(machine: Machine, missing: str) -> None:
    machine.configure({"one": machine.entry})
    check = ["sh", "-c", f'"$@" {missing}', "sh", sys.executable, "-m", "mcpx", "check"]
    done = subprocess.run(check, cwd=machine.folder, env=machine.environ, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"1 of 1 servers came up.\n") is (">&-" not in missing.split())


def test_serving_by_http_needs_neither_stdin_nor_stdout(machine: Machine) -> None:
    machine.configure({"one": machine.entry})
    serve = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "mcpx", "serve", "--http", "127.0.0.1:0"]
    with subprocess.Popen(serve, cwd=machine.folder, env=machine.environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = [process.stderr.readline() for _ in range(2)]
            assert "listening on http://127.0.0.1:" in said[1]
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in rest
