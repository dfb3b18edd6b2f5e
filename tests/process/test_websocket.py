"""``mcpx`` as a process in front of servers behind a WebSocket, with hosts and servers of both eras."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.demo import demo_app
from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.scripted import TOOL
from tests.support.waiting import BUSY
from tests.support.websockets import Port, listening, playing, serving
from tests.unit.upstream.fakes import initialized

if TYPE_CHECKING:
    from trio_websocket import WebSocketRequest

    from tests.support.stage import Stage
    from tests.unit.upstream.fakes import FakeServer

SAID: dict[str, Any] = {"content": [{"type": "text", "text": "said"}]}
REFUSED = {"code": -32601, "message": "no"}
TOKEN = {"Authorization": "Bearer ${TOKEN}"}


async def legacy(server: FakeServer) -> None:
    """Has one tool."""
    await server.open_legacy()
    while True:
        request = await server.take()
        if request["method"] == "tools/list":
            server.answer(request, {"tools": [TOOL]})
        elif request["method"] == "tools/call":
            server.answer(request, SAID)
        else:
            server.refuse(request, -32601)


async def echoes_until_it_closes(server: FakeServer) -> None:
    await server.open_legacy()
    server.answer(await server.expect("tools/list"), {"tools": [TOOL]})
    await server.expect("tools/call")


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_hosts_and_servers_of_both_eras(stage: Stage, revision: str) -> None:
    async with listening(playing(legacy)) as old, listening(serving(demo_app().open_channel)) as new:
        servers = {"old": {"url": old.url, "headers": TOKEN}, "new": {"type": "ws", "url": new.url}}
        async with stage.mcpx(servers=servers, env={"TOKEN": "very-secret"}, args=["--log-level", "debug"]) as host:
            await host.open(revision)
            names = await host.names()
            assert "old__echo" in names
            assert "new__echo" in names
            assert (await host.call("old__echo")).result["content"] == SAID["content"]
            assert (await host.call("new__echo", {"text": "hi"})).result["content"][0]["text"] == "hi"
        assert "secret" not in host.log
        assert all((b"authorization", b"Bearer very-secret") in request.headers for request in old.requests)
        assert all(socket.closed and socket.closed.code == 1000 for socket in (*old.sockets, *new.sockets))


async def test_one_that_goes_in_the_middle_of_a_call_comes_back(stage: Stage) -> None:
    async with listening(playing(echoes_until_it_closes, legacy)) as port:
        limits = {"restartBackoffStep": 0.1, "restartBackoffMax": 0.2}
        async with stage.mcpx(servers={"far": {"url": port.url}}, limits=limits) as host:
            await host.open(LATEST_LEGACY)
            assert await host.names() == ["far__echo"]
            error = (await host.call("far__echo")).error
            assert error["data"] == {"server": "far", "reason": "The server closed the connection."}
            await host.changes.until(lambda: host.log.count("[far] up") == 2, "its return")
            assert (await host.call("far__echo")).result["content"] == SAID["content"]


async def test_one_that_hangs_holds_up_no_exit(stage: Stage) -> None:
    """It reads nothing any more, so our close is not answered either."""
    hung = trio.Event()

    async def hangs(_: Port, request: WebSocketRequest) -> None:
        socket = await request.accept()
        opened = initialized(capabilities={"tools": {}, "prompts": {}, "resources": {}})
        for answer in ({"error": REFUSED}, {"result": opened}):
            asked = json.loads(await socket.get_message())
            await socket.send_message(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}))
        hung.set()
        await trio.sleep_forever()

    async with listening(hangs) as port, stage.mcpx(servers={"far": {"url": port.url}}) as host:
        await host.open(LATEST_LEGACY)
        for method in ("tools/list", "prompts/list", "resources/list"):
            await host.start(method)
        await hung.wait()
        await host.logged("[far] up")
        host.signal(signal.SIGTERM)
        assert await host.wait() == 0
        assert host.took < Limits().exit_budget_signal + BUSY


async def test_check_and_discover(stage: Stage) -> None:
    async with listening(serving(demo_app().open_channel)) as port:
        refused = {"url": f"{port.url.replace('ws:', 'wss:')}?key=very-secret"}
        stage.configure({"good": {"url": port.url}, "bad": refused})

        async def run(*args: str) -> tuple[int, str]:
            command = [sys.executable, "-m", "mcpx", *args]
            done = await trio.run_process(command, capture_stdout=True, check=False, env=stage.env, cwd=stage.folder)
            return done.returncode, done.stdout.decode()

        status, said = await run("check")
        assert status == 1
        assert "  ok      good: mcpx-demo" in said
        assert (
            f"  failed  bad (wss://127.0.0.1:{port.number}/mcp?***): 127.0.0.1:{port.number} does not speak TLS" in said
        )
        for target in ("good", port.url):
            status, said = await run("discover", target)
            assert status == 0
            assert f"revision:     {LATEST_MODERN}\n" in said
