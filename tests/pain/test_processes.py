"""Kinds 1, 2, 3 and 8: the processes of upstreams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import trio

from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.fake_down import AFTER_EOF, alive, gone
from tests.support.scripted import GRANDCHILD, STUBBORN, TOOL, wrapped

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

QUICK = {"stdinGrace": 0.3, "termGrace": 0.3}


async def test_pain_01_an_idle_stop_takes_the_whole_group(stage: Stage) -> None:
    """A retired server goes with its wrapper and its children, and mcpx and its other servers are not touched."""
    one = stage.upstream(
        "one",
        **STUBBORN,
        wrapper=wrapped,
        onStart=[{"spawn": GRANDCHILD}],
        entry={"limits": {"instanceIdle": 0.2, **QUICK}},
    )
    two = stage.upstream("two")
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo", "two__echo"]
        await gone(one.pids)
        assert (await host.call("two__echo")).result["content"]
    assert len(two.starts) == 1


async def test_pain_01_a_crash_takes_the_whole_group(stage: Stage) -> None:
    """A server that exits by itself leaves no child behind, and the one that follows has its own."""
    one = stage.upstream("one", onStart=[{"spawn": GRANDCHILD}], calls={"echo": [{"exit": 7}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        first = list(one.pids)
        await host.call("one__echo")
        await gone(first)
        await one.happened("spawn", 2)
        assert alive(one.pids[-1])
    assert len(first) == 2


async def test_pain_02_killed_hard_no_server_stays(stage: Stage) -> None:
    """After SIGKILL to mcpx each server sees EOF by itself, as no other holds the end of its pipe, and is gone."""
    several = [stage.upstream(f"s{n}") for n in range(3)]
    stubborn = stage.upstream("stubborn", **STUBBORN, onStart=[{"spawn": GRANDCHILD}])
    limits = {"stdinGrace": 1, "termGrace": 1}
    async with stage.mcpx(*several, stubborn, limits=limits, status=-signal.SIGKILL) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        host.signal(signal.SIGKILL)
        await host.process.wait()
        for one in (*several, stubborn):
            await one.happened("eof")
            await gone(one.pids)
        for one in several:
            assert (await one.happened("exit")).value == 0


async def test_pain_02_without_its_host_mcpx_goes(stage: Stage) -> None:
    """When the host is gone (its end of the pipe closed), mcpx exits, in the middle of a start or of a call."""
    starting = stage.upstream("starting", onStart=[{"hold": "for ever"}])
    async with stage.mcpx(starting) as host:
        await host.open(LATEST_LEGACY)
        await host.start("tools/list")
        await starting.happened("held")
        await host.close()
        assert host.took < AFTER_EOF


def _memory(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(shown.stdout) * 1024


async def test_pain_03_stderr_is_drained(stage: Stage) -> None:
    """A megabyte on stderr without a newline, in the probe, at the start and in calls: nothing blocks or grows."""
    flood = {"flood": 1 << 20}
    one = stage.upstream(
        "one",
        onStart=[flood],
        on={"server/discover": [flood, {"error": {"code": -32601, "message": "no"}}]},
        calls={"echo": [*[flood] * 8, {"answer": True}]},
    )
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await host.call("one__echo")
        before = _memory(host.process.pid)
        for _ in range(3):
            assert (await host.call("one__echo")).result["content"]
        assert _memory(host.process.pid) - before < 8 << 20
        assert len(host.stderr) < 4 << 20


async def test_pain_03_stderr_is_shown_with_the_servers_name(stage: Stage) -> None:
    """What a server says on stderr is in mcpx's own log, and a loud one does not fill it."""
    loud = [{"stderr": "Hällo there\n"}, {"stderr": "line\n" * 100_000}]
    one = stage.upstream("one", calls={"echo": [*loud, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        assert (await host.call("one__echo")).result["content"]
        assert "one" in await host.logged("Hällo there")
        await host.close()
    assert len(host.stderr) < 500_000


SAFE = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR"} | {
    f"XDG_{name}" for name in ("CACHE_HOME", "CONFIG_HOME", "DATA_HOME", "RUNTIME_DIR", "STATE_HOME")
}
OURS = {"SECRET_TOKEN": "s", "HTTPS_PROXY": "http://user:pass@proxy", "LC_TIME": "C", "GIVEN": "g"}
_OF_PYTHON = {"LC_CTYPE"}  # set by the interpreter itself


async def _environment(host: Host, name: str) -> dict[str, str]:
    found = json.loads((await host.call(f"{name}__echo")).result["content"][0]["text"])
    return {key: value for key, value in found.items() if key not in _OF_PYTHON}


async def test_pain_08_the_environment_is_what_was_asked_for(stage: Stage) -> None:
    """By default a documented safe list and the server's own; all of it, or named ones, where that is asked for."""
    own = {"OWN": "${GIVEN}-x", "PATH": os.environ["PATH"], "DEFAULTED": "${NOT_SET:-d}", "DOLLAR": "$$ $GIVEN"}
    entries: dict[str, dict[str, Any]] = {
        "plain": {},
        "empty": {"env": {}},
        "own": {"env": own},
        "all": {"inheritEnv": True},
        "some": {"inheritEnv": ["HTTPS_PROXY", "NOT_SET"]},
    }
    several = [stage.upstream(name, calls={"echo": [{"env": True}]}, entry=entry) for name, entry in entries.items()]
    async with stage.mcpx(*several, env=OURS) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        found = {name: await _environment(host, name) for name in entries}
    safe = {key: value for key, value in {**stage.env, **OURS}.items() if key in SAFE or key.startswith("LC_")}
    assert found["plain"] == found["empty"] == safe
    expanded = {"OWN": "g-x", "PATH": os.environ["PATH"], "DEFAULTED": "d", "DOLLAR": "$$ $GIVEN"}
    assert found["own"] == {**safe, **expanded}
    assert found["all"].items() >= {**stage.env, **OURS}.items()
    assert found["some"] == {**safe, "HTTPS_PROXY": OURS["HTTPS_PROXY"]}


async def test_pain_08_an_unset_variable_is_an_error_that_names_it(stage: Stage) -> None:
    """${VAR} that is unset, in env or args, ends the start of mcpx with its name, the server's, and no traceback."""
    servers = {"one": {"command": "x", "args": ["${UNSET_A}"], "env": {"K": "${UNSET_B}", "OK": "${GIVEN}"}}}
    async with stage.mcpx(servers=servers, env=OURS, status=None) as host:
        assert await host.wait() != 0
        for words in ("one", "UNSET_A", "UNSET_B"):
            assert words in host.log
        assert "GIVEN" not in host.log


async def test_pain_08_a_missing_command_fails_at_once_with_the_path(stage: Stage) -> None:
    """A command that does not exist is told at once, with the PATH it was looked for on; the others work."""
    servers = {"gone": {"command": "no-such-binary", "env": {"PATH": "/nowhere:/usr/bin"}}}
    async with stage.mcpx(stage.upstream("one"), servers=servers) as host:
        await host.open(LATEST_MODERN)
        started = time.monotonic()
        assert await host.names() == ["one__echo"]
        assert time.monotonic() - started < Limits().list_timeout / 2
        line = await host.logged("no-such-binary")
        assert "gone" in line
        assert "/nowhere:/usr/bin" in line
        error = (await host.call("gone__anything")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "gone"
        assert "no-such-binary" in error["data"]["reason"]


async def test_pain_08_a_server_starts_in_its_folder(stage: Stage) -> None:
    """cwd is where the server is started; a command in it need not be on the PATH."""
    await trio.Path(stage.folder / "here").mkdir()
    one = stage.upstream("one", tools=[TOOL], entry={"cwd": str(stage.folder / "here")})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
    assert one.starts[0].value["cwd"] == str((stage.folder / "here").resolve())
