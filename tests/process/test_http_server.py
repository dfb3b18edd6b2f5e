"""``mcpx serve --http`` as a process: hosts of each kind at once, the token, status, and how it ends."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import h11
import pytest
import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05
from tests.support.certificate import make_certificate
from tests.support.http_hosts import (
    CALL,
    HELD,
    PING,
    open_session,
    post_call,
    serving_http,
    sse_host,
    sse_stream,
    status_of,
    ws_host,
    ws_socket,
)
from tests.support.socket_hosts import connected
from tests.support.waiting import BUSY, PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.stage import Stage

TOKEN = "s3cret-t0ken"


async def test_hosts_of_every_kind_at_once_keep_to_themselves(stage: Stage) -> None:
    """The same id on each; and a socket beside it, all in front of the same servers."""
    one = stage.upstream("one", **HELD)
    socket = stage.folder / "s"
    async with serving_http(stage, one, args=("--socket", str(socket))) as site, AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(kind(site)) for kind in (sse_host, ws_host)]
        hosts.append(await stack.enter_async_context(connected(socket)))
        await hosts[0].open(V2024_11_05)
        await hosts[1].open(LATEST_MODERN)
        await hosts[2].open(LATEST_LEGACY)
        asked = [await host.start("tools/call", CALL, id=7) for host in hosts]
        poster = await stack.enter_async_context(site.wired())
        await post_call(poster)
        await one.got("tools/call", 4)
        await one.release("it")
        for each in asked:
            assert (await each.wait()).result["content"]
        reply = await poster.answer()
        assert reply.status == 200
        for host in hosts:
            assert host.strays == []


@pytest.mark.parametrize("kind", [sse_host, ws_host])
async def test_a_host_that_leaves_mid_call_is_one_cancellation_upstream(stage: Stage, kind: Any) -> None:
    one = stage.upstream("one", **HELD)
    async with serving_http(stage, one) as site:
        async with kind(site) as host:
            await host.open(LATEST_MODERN)
            await host.start("tools/call", CALL)
            await one.got("tools/call")
        cancelled = await one.got("notifications/cancelled")
        assert cancelled.frame["params"]["requestId"] == one.received("tools/call")[0].frame["id"]


async def test_stdin_is_none_of_its_business(stage: Stage) -> None:
    async with serving_http(stage, stage.upstream("one")) as site, ws_host(site) as host:
        await site.process.send_raw(json.dumps(PING).encode() + b"\n")
        await site.process.close_stdin()
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]


async def test_tls(stage: Stage, tmp_path: Path) -> None:
    import ssl

    path = make_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(path))
    async with (
        serving_http(stage, stage.upstream("one"), args=("--cert", str(path), "--key", str(path))) as site,
        site.wired(tls=trusting) as wire,
    ):
        assert "listening on https://127.0.0.1:" in site.process.log
        assert (await wire.post("/mcp", PING)).json["result"] == {}


# -- the token


async def test_every_route_asks_for_the_token_which_is_in_no_log_and_in_no_server(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    how: dict[str, Any] = {"env": {"MCPX_TOKEN": TOKEN}, "args": ("--log-level", "debug"), "address": "0.0.0.0:0"}
    async with serving_http(stage, one, **how) as site, site.wired() as wire:
        for path in ("/mcp", "/sse", "/messages", "/ws", "/v1/status", "/v1/protocol", "/"):
            assert (await wire.ask("GET", path)).status == 401
            assert (await wire.ask("GET", path, Authorization="Bearer wrong")).status == 401
        assert (await wire.ask("GET", "/v1/health")).json == {"status": "ok"}
        reply = await wire.ask("GET", "/v1/status", Authorization=f"Bearer {TOKEN}")
        assert reply.status == 200
        assert TOKEN not in reply.body.decode()
        await post_call(wire, Authorization=f"Bearer {TOKEN}")
        await one.got("tools/call")
        for pid in one.pids:
            assert TOKEN not in environment(pid)
        await one.release("it")
        assert (await wire.answer()).status == 200
        assert TOKEN not in json.dumps([each.frame for each in one.received("tools/call")])
    assert TOKEN not in site.process.log


def environment(pid: int) -> str:
    from pathlib import Path

    return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")


async def test_the_token_of_a_file(stage: Stage) -> None:
    file = stage.folder / "token"
    file.write_text(f"{TOKEN}\n")
    how: dict[str, Any] = {"env": {"MCPX_TOKEN": "another"}, "args": ("--token-file", str(file))}
    async with serving_http(stage, stage.upstream("one"), **how) as site, site.wired() as wire:
        assert (await wire.post("/mcp", PING, Authorization="Bearer another")).status == 401
        assert (await wire.post("/mcp", PING, Authorization=f"Bearer {TOKEN}")).json["result"] == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--http", "0.0.0.0:8000"), "needs a token"),
        (("--http", "[::]:8000"), "needs a token"),
        (("--http", "box.lan:8000"), "needs a token"),
        (("--http", "8000"), "write HOST:PORT"),
        (("--http", "127.0.0.1:99999"), "write HOST:PORT"),
        (("--http", "127.0.0.1:0", "--token-file", "/nowhere/token"), "cannot be read"),
        (("--http", "127.0.0.1:0", "--token-file", "/dev/null"), "holds no token"),
        (("--http", "127.0.0.1:0", "--cert", "/nowhere/cert"), "--cert and --key belong together"),
        (("--http", "127.0.0.1:0", "--cert", "/nowhere/cert", "--key", "/nowhere/key"), "cannot be read"),
        (("--http", "127.0.0.1:0", "--allow-host", "*"), "--allow-host needs"),
        (("--http", "127.0.0.1:0", "--allow-origin", "null"), "--allow-origin needs"),
        (("--token-file", "x"), "--token-file is for --http"),
        (("--allow-host", "x"), "--allow-host is for --http"),
        (("--cert", "x", "--key", "x"), "--cert is for --http"),
    ],
)
async def test_what_is_refused_at_the_start(stage: Stage, args: tuple[str, ...], said: str) -> None:
    done = await trio.run_process(
        [sys.executable, "-m", "mcpx", "serve", *args],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=stage.env,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("mcpx: ")
    assert said in line


async def test_a_port_that_is_taken(stage: Stage) -> None:
    async with serving_http(stage, stage.upstream("one")) as site:
        command = [sys.executable, "-m", "mcpx", "serve", "--http", f"127.0.0.1:{site.port}"]
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False, env=stage.env)
        assert done.returncode == 1
        assert "cannot be listened on" in done.stderr.decode().splitlines()[-1]
        assert "Traceback" not in done.stderr.decode()


# -- status


async def test_status(stage: Stage) -> None:
    one = stage.upstream("one", LATEST_LEGACY, **HELD)
    two = stage.upstream("two", die=1)
    async with (
        serving_http(stage, one, two) as site,
        site.wired() as wire,
        ws_host(site) as host,
    ):
        await host.open(LATEST_MODERN)
        asked = await host.start("tools/call", CALL)
        await one.got("tools/call")
        said = await open_session(wire)
        told = await status_of(wire)
        first, second = told["upstreams"]
        assert (first["name"], first["state"], first["inFlight"], first["restarts"]) == ("one", "up", 1, 0)
        assert first["seconds"] >= 0
        assert first["instances"][0]["revision"] == LATEST_LEGACY
        assert (second["name"], second["state"]) == ("two", "idle")
        assert told["sessions"] == 1
        assert told["exchanges"] == 1
        hosts = {each["transport"]: each for each in told["hosts"]}
        assert hosts["websocket"]["client"] == {"name": "fake-down", "version": "3.2.1"}
        assert (hosts["websocket"]["revision"], hosts["websocket"]["inFlight"]) == (LATEST_MODERN, 1)
        [session_host] = [each for each in told["hosts"] if each is not hosts["websocket"]]
        assert session_host["client"] == {"name": "session", "version": "5"}
        assert said["Mcp-Session-Id"] not in json.dumps(told)
        protocol = (await wire.ask("GET", "/v1/protocol")).json
        assert protocol["supported"][0] == LATEST_MODERN
        assert protocol["upstreams"][0]["era"] == "legacy"
        assert protocol["upstreams"][0]["revision"] == LATEST_LEGACY
        assert protocol["upstreams"][0]["preference"] == "auto"
        assert protocol["methods"]
        await one.release("it")
        assert (await asked.wait()).result["content"]


# -- the end


async def test_what_does_not_come_within_the_budget_is_an_error_and_cancelled(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with (
        serving_http(stage, one, limits={"exitBudget": {"server": 3}}) as site,
        site.wired() as poster,
        sse_host(site) as sse,
        ws_host(site) as socket,
    ):
        for host in (sse, socket):
            await host.open(LATEST_LEGACY)
        asked = [await host.start("tools/call", CALL) for host in (sse, socket)]
        await post_call(poster)
        await one.got("tools/call", 3)
        site.process.signal(signal.SIGTERM)
        for each in asked:
            assert (await each.wait()).error["message"] == "mcpx is stopping"
        assert b"mcpx is stopping" in (await poster.answer()).body
        assert await site.process.wait() == 0
        assert site.process.took < 3 + BUSY
    assert len(one.cancelled) == 3


async def test_a_second_signal_forces(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with (
        serving_http(stage, one, limits={"exitBudget": {"server": 60}}) as site,
        site.wired() as poster,
        sse_host(site) as sse,
        ws_host(site) as socket,
    ):
        for host in (sse, socket):
            await host.open(LATEST_LEGACY)
            await host.start("tools/call", CALL)
        await post_call(poster)
        await one.got("tools/call", 3)
        site.process.signal(signal.SIGTERM)
        await site.process.logged("stopping")
        site.process.signal(signal.SIGINT)
        assert await site.process.wait() == 0
        assert site.process.took < BUSY


async def test_clients_that_do_nothing_hold_up_no_end(stage: Stage) -> None:
    """A connection without a request, half a head, half a body, streams that nobody reads."""
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(
            serving_http(stage, stage.upstream("one"), limits={"exitBudget": {"server": 3}})
        )
        for sent in (
            b"",
            b"POST /mcp HTTP/1.1\r\n",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        ):
            wire = await stack.enter_async_context(site.wired())
            await wire.stream.send_all(sent)
        await stack.enter_async_context(sse_stream(site))
        await stack.enter_async_context(ws_socket(site))
        site.process.signal(signal.SIGTERM)
        assert await site.process.wait() == 0
        assert site.process.took < 3 + BUSY


async def test_nobody_gets_in_any_more_once_it_stops(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with serving_http(stage, one) as site, ws_host(site) as host, site.wired() as idle:
        await host.open(LATEST_LEGACY)
        asked = await host.start("tools/call", CALL)
        await one.got("tools/call")
        assert (await idle.post("/mcp", PING)).status == 200
        site.process.signal(signal.SIGTERM)
        await site.process.logged("stopping")
        with suppress(h11.RemoteProtocolError, trio.BrokenResourceError):  # unless it has been closed already
            assert (await idle.post("/mcp", PING)).headers["connection"] == "close"
        assert not await can_connect(site.port)
        await one.release("it")
        assert (await asked.wait()).result["content"]


async def can_connect(port: int) -> bool:
    """Whether somebody still listens, once that has had time to be noticed."""
    with trio.move_on_after(PATIENCE):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                return False
            await trio.aclose_forcefully(stream)
    return True


async def test_mcpx_behind_mcpx_on_a_websocket(stage: Stage) -> None:
    one = stage.upstream("one", **HELD)
    async with serving_http(stage, one, env={"MCPX_TOKEN": TOKEN}) as site:
        front = {"behind": {"url": f"ws://127.0.0.1:{site.port}/ws", "headers": {"Authorization": f"Bearer {TOKEN}"}}}
        async with stage.mcpx(servers=front) as host:
            await host.open(LATEST_MODERN)
            assert await host.names() == ["behind__one__echo", "behind__one__held"]
            assert (await host.call("behind__one__echo")).result["content"]
            asked = await host.start("tools/call", {"name": "behind__one__held", "arguments": {}})
            await one.got("tools/call", 2)
            await host.cancel(asked)
            await one.got("notifications/cancelled")
