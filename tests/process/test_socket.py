"""``mcpx serve --socket`` as a process: hosts at once, hosts that leave, signals, its file, and mcpx behind mcpx."""

from __future__ import annotations

import signal
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05
from tests.support.fake_down import gone
from tests.support.scripted import TOOL
from tests.support.socket_hosts import connected, serving
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    import subprocess

    from tests.support.stage import Stage

HELD: dict[str, Any] = {
    "tools": [TOOL, {**TOOL, "name": "held"}],
    "calls": {"held": [{"progress": {"message": "begun"}}, {"hold": "it"}, {"answer": True}]},
}


async def test_hosts_of_both_eras_at_once_keep_to_themselves(stage: Stage) -> None:
    """The same ids and tokens on two connections: answers and progress go to whoever asked."""
    for revision in (LATEST_LEGACY, LATEST_MODERN):
        one = stage.upstream(f"one-{revision[:4]}", revision, **HELD)
        name = f"{one.name}__held"
        async with serving(stage, one) as served, connected(served) as old, connected(served) as new:
            await old.open(V2024_11_05)
            await new.open(LATEST_MODERN)
            token = {"progressToken": "p"}
            first = await old.start("tools/call", {"name": name, "arguments": {}}, id=7, meta=token)
            second = await new.start("tools/call", {"name": name, "arguments": {}}, id=7, meta=token)
            for host, asked in ((old, first), (new, second)):
                await host.notified("notifications/progress")
                assert len(asked.progress) == 1
            await new.cancel(second)
            await one.changes.until(lambda one=one: one.cancelled, "the cancellation")
            await one.release("it")
            assert (await first.wait()).result["content"]
            await new.fence()
            assert second.answer is None
            assert old.strays == new.strays == []
            assert len(old.notifications) == len(new.notifications) == 1
        assert len(one.cancelled) == 1


async def test_a_host_that_leaves_mid_call_is_one_cancellation_upstream(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with serving(stage, one) as served, connected(served) as stays:
        await stays.open(LATEST_LEGACY)
        asked = await stays.start("tools/call", {"name": "one__held", "arguments": {}})
        await one.got("tools/call")
        async with connected(served) as leaves:
            await leaves.open(LATEST_MODERN)
            await leaves.start("tools/call", {"name": "one__held", "arguments": {}})
            await one.got("tools/call", 2)
        cancelled = await one.got("notifications/cancelled")
        assert cancelled.frame["params"]["requestId"] == one.received("tools/call")[1].frame["id"]
        await one.release("it")
        assert (await asked.wait()).result["content"]
    assert len(one.cancelled) == 1


async def test_the_socket_is_for_its_owner_alone(stage: Stage) -> None:
    async with serving(stage, stage.upstream("one")) as served:
        mode = served.path.lstat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_at_a_signal_calls_in_flight_are_waited_for(stage: Stage, number: signal.Signals) -> None:
    one = stage.upstream("one", **HELD)
    async with serving(stage, one) as served, connected(served) as host:
        await host.open(LATEST_LEGACY)
        asked = await host.start("tools/call", {"name": "one__held", "arguments": {}})
        await one.got("tools/call")
        served.process.signal(number)
        await served.process.logged("stopping")
        await one.release("it")
        assert (await asked.wait()).result["content"]
        await host.changes.until(lambda: host.eof_at, "the end of the connection")
        assert await served.process.wait() == 0
        assert served.process.took < Limits().exit_budget_server + BUSY
    await gone(one.pids)


async def test_what_does_not_come_within_the_budget_is_an_error_and_cancelled(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with serving(stage, one, limits={"exitBudget": {"server": 3}}) as served, connected(served) as host:
        await host.open(LATEST_LEGACY)
        asked = await host.start("tools/call", {"name": "one__held", "arguments": {}})
        await one.got("tools/call")
        served.process.signal(signal.SIGTERM)
        assert (await asked.wait()).error["message"] == "mcpx is stopping"
        assert await served.process.wait() == 0
        assert served.process.took < 3 + BUSY
    assert len(one.cancelled) == 1


async def test_a_second_signal_forces(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with serving(stage, one, limits={"exitBudget": {"server": 60}}) as served, connected(served) as host:
        await host.open(LATEST_LEGACY)
        await host.start("tools/call", {"name": "one__held", "arguments": {}})
        await one.got("tools/call")
        served.process.signal(signal.SIGTERM)
        await served.process.logged("stopping")
        served.process.signal(signal.SIGINT)
        assert await served.process.wait() == 0
        assert served.process.took < BUSY


async def test_stdin_is_none_of_its_business(stage: Stage) -> None:
    async with serving(stage, stage.upstream("one")) as served, connected(served) as host:
        await served.process.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await served.process.close_stdin()
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]


async def second(stage: Stage, path: Path) -> subprocess.CompletedProcess[bytes]:
    """What becomes of another one that is to serve the same path."""
    command = [sys.executable, "-m", "mcpx", "serve", "--socket", str(path)]
    return await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False, env=stage.env)


async def test_a_socket_that_is_served_is_left_to_whoever_serves_it(stage: Stage) -> None:
    async with serving(stage, stage.upstream("one")) as served, connected(served) as host:
        done = await second(stage, served.path)
        assert done.returncode == 1
        assert done.stderr.decode().splitlines()[-1] == f"mcpx: Another server listens on {served.path} already."
        assert done.stdout == b""
        await host.open(LATEST_LEGACY)
        async with connected(served) as another:
            await another.open(LATEST_MODERN)


async def test_what_a_killed_one_has_left_is_replaced(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage.folder)  # where mcpx is started too
    path = Path("mcpx.sock")
    for _ in range(2):
        async with stage.mcpx(stage.upstream("one"), args=["--socket", str(path)], status=None) as process:
            await process.logged("listening on")
            async with connected(path) as host:
                await host.open(LATEST_MODERN)
                process.signal(signal.SIGKILL)
                await process.wait()
        assert path.is_socket()  # noqa: ASYNC240


async def test_one_server_is_passed_through_as_on_stdio(stage: Stage) -> None:
    one, two = stage.upstream("one"), stage.upstream("two")
    for args, names in (
        (("one",), ["echo"]),
        (("--passthrough", "two"), ["one__echo", "echo"]),
        (("--", *one.command), ["echo"]),
    ):
        async with serving(stage, one, two, args=args) as served, connected(served) as host:
            await host.open(LATEST_MODERN)
            assert await host.names() == names


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_mcpx_behind_mcpx(stage: Stage, revision: str) -> None:
    """A host of either era, mcpx, a socket, mcpx, a server: calls, progress and cancellations get through."""
    one = stage.upstream("one", LATEST_LEGACY, **HELD)
    async with serving(stage, one) as served:
        front = {"behind": {"url": f"unix://{served.path}"}}
        async with stage.mcpx(servers=front) as host:
            await host.open(revision)
            assert await host.names() == ["behind__one__echo", "behind__one__held"]
            assert (await host.call("behind__one__echo")).result["content"]
            call = {"name": "behind__one__held", "arguments": {}}
            asked = await host.start("tools/call", call, meta={"progressToken": 1})
            await host.notified("notifications/progress")
            await host.cancel(asked)
            await one.changes.until(lambda one=one: one.cancelled, "the cancellation")
            asked = await host.start("tools/call", call)
            await one.got("tools/call", 3)
            await one.release("it")
            assert (await asked.wait()).result["content"]
    assert len(one.cancelled) == 1


async def test_mcpx_behind_mcpx_that_comes_and_goes(stage: Stage) -> None:
    """The one in front says what is wrong, and connects again by itself once there is somebody."""
    one = stage.upstream("one")
    limits = {"restartBackoffStep": 0.1, "restartBackoffMax": 0.2}
    with tempfile.TemporaryDirectory(prefix="mcpx") as folder:
        path = Path(folder) / "s"
        servers = {"behind": {"url": f"unix://{path}"}}
        command = [sys.executable, "-m", "mcpx", "serve", "--socket", str(path), "--", *one.command]
        async with stage.mcpx(servers=servers, limits=limits, args=["--passthrough", "behind"]) as host:
            assert "There is no socket" in (await host.initialize(LATEST_LEGACY)).error["data"]["reason"]
            for number in (1, 2):
                async with stage.play(command, one) as behind:
                    await host.changes.until(lambda number=number: host.log.count("[behind] up") == number, "its start")
                    assert (await host.call("echo")).result["content"]
                    behind.signal(signal.SIGTERM)
                    await behind.wait()
                await host.changes.until(
                    lambda number=number: host.log.count("The server closed the connection.") == number, "its end"
                )
                assert (await host.call("echo")).error["data"]["server"] == "behind"
