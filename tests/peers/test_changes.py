"""Hosts on the SDKs that listen for changes, in front of mcpx in front of servers on the SDKs that change."""

from __future__ import annotations

import functools
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import LATEST_MODERN
from tests.peers.over_http import listening, serving

if TYPE_CHECKING:
    from tests.peers.over_http import Site
    from tests.peers.running import Run

MOTTO = "mcpx://one/peer://motto"
HOSTS = {
    "ts2-modern": ("ts2_listening.mjs", LATEST_MODERN),
    "ts2-legacy": ("ts2_listening.mjs", "legacy"),
    "py2-modern": ("py2_listening.py", LATEST_MODERN),
}
# The servers, and whether they let anybody subscribe to a resource.
SERVERS: dict[str, tuple[tuple[str, ...], bool]] = {
    "ts2": (("ts2_changing.mjs",), True),
    "ts1-32": (("ts1_changing.mjs", "sdk-1-32"), True),
    "ts1-22": (("ts1_changing.mjs", "sdk-1-22"), True),
    "py2": (("py2_changing.py",), True),
    "py1": (("py1_changing.py",), False),  # FastMCP declares no subscriptions, whatever it is given
}


def command_of(run: Run, host: str, **plan: Any) -> list[str]:
    program, mode = HOSTS[host]
    return run.program(program, json.dumps({"mode": mode, "tool": "one__", "uri": "mcpx://one/", **plan}))


def expected(*, subscribes: bool) -> list[str]:
    return ["tools", MOTTO] if subscribes else ["tools"]


def check(report: dict[str, Any], host: str, *, subscribes: bool) -> None:
    """What a host must have heard of a server, that changed once."""
    # A legacy host that has subscribed is told what a server says all the same; a stream has what it agreed to.
    assert report["heard"] == expected(subscribes=subscribes or host == "ts2-legacy")
    assert report["tools"] == ["one__change", "one__die", "one__added_1"]  # the last list has what changed
    if host != "ts2-legacy":
        resources = {"resourceSubscriptions": [MOTTO]} if subscribes else {}
        assert report["honoured"] == {"toolsListChanged": True, **resources}
        assert report["ended"] == "local"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("host", HOSTS)
async def test_changes_over_pipes(run: Run, host: str, server: str) -> None:
    program, subscribes = SERVERS[server]
    command = run.mcpx({"one": run.entry(run.program(*program))})
    plan = command_of(run, host, expect=expected(subscribes=subscribes))
    check(json.loads(await run.run([*plan, *command])), host, subscribes=subscribes)
    assert bool(run.complaints()) == (host == "ts2-legacy" and not subscribes)  # what cannot be delivered is logged


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", ["ts2", "py2", "ts1-32"])
@pytest.mark.parametrize("host", HOSTS)
async def test_changes_over_http(run: Run, host: str, server: str) -> None:
    """On both sides. The server that is stateless has its changes in the era that has streams for them."""
    program, subscribes = SERVERS[server]
    with listening(run, [*run.program(*program), "http"]) as (_, address):
        async with run.clearing(), serving(run, run.mcpx({"one": {"url": f"{address}/mcp"}})) as site:
            plan = command_of(run, host, url=site.address("http"), expect=expected(subscribes=subscribes))
            report = json.loads(await run.output(plan))
    check(report, host, subscribes=subscribes)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("host", HOSTS)
async def test_a_server_that_is_restarted_under_an_open_stream(run: Run, host: str, server: str) -> None:
    """The host hears that everything may have changed, and of what changes from then on."""
    program, subscribes = SERVERS[server]
    command = run.mcpx({"one": run.entry(run.program(*program))}, limits={"restartBackoffMax": 0.2})
    plan = command_of(run, host, expect=expected(subscribes=subscribes), die=True)
    report = json.loads(await run.run([*plan, *command]))
    check(report, host, subscribes=subscribes)
    assert "one" in report["died"]
    assert "status 7" in report["died"]
    assert report["afterwards"] == ["one__change", "one__die", "one__added_1"]
    assert len(run.recorded("started")) == 2


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", ["ts2-modern", "py2-modern"])
async def test_mcpx_is_stopped_under_an_open_stream(run: Run, host: str) -> None:
    """The stream ends as one does that is ended on purpose, and not as one that broke off."""
    command = run.mcpx({"one": run.entry(run.program(*SERVERS["ts2"][0]))})
    async with run.clearing(), serving(run, command) as site:
        plan = command_of(run, host, url=site.address("http"), expect=["tools", MOTTO], stay=True)
        report = json.loads(await staying(run, plan, site))
    assert report["ended"] == "graceful"


async def staying(run: Run, command: list[str], site: Site) -> str:
    """Let a host stay until mcpx is stopped; what it reports."""
    output = bytearray()

    async def collect(stream: trio.abc.ReceiveStream) -> None:
        async for data in stream:
            output.extend(data)

    async with trio.open_nursery() as nursery:
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        start = functools.partial(trio.run_process, stdin=subprocess.DEVNULL, env=run.env, **pipes)
        host: trio.Process = await nursery.start(start, command)
        assert host.stdout is not None
        assert host.stderr is not None
        nursery.start_soon(collect, host.stdout)
        said = b""
        while b"staying" not in said:
            said += await host.stderr.receive_some()
        nursery.start_soon(collect, host.stderr)
        await site.stop()
    return output.decode().strip().splitlines()[-1]
