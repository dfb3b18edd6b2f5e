"""SUB-07 for log messages, on the real wire: they reach the request that caused them, at the level that its host wants,
in every cell of eras and ways; and nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import LOG_LEVEL, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2024_11_05, V2025_06_18, is_modern
from tests.support.http_front import Front, fronted
from tests.support.http_hosts import http_host, serving_http
from tests.support.scripted import TOOL
from tests.support.socket_hosts import connected, serving
from tests.support.ways import WAYS, arriving

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

SET_LEVEL = "logging/setLevel"
MESSAGE = "notifications/message"
ERAS = [LATEST_LEGACY, LATEST_MODERN]
LOGS = {"tools": {}, "logging": {}}
TOOLS = [TOOL, {**TOOL, "name": "held"}]
SAYS = [{"log": ["debug", "low"]}, {"log": ["warning", "high"]}]
SCRIPT: dict[str, Any] = {
    "tools": TOOLS,
    "capabilities": LOGS,
    "calls": {
        "echo": [*SAYS, {"answer": True}],
        "held": [{"hold": "gate"}, {"log": ["error", "held"]}, {"answer": True}],
    },
}


def said(host: Host) -> list[str]:
    return [note.params["data"] for note in host.notifications if note.method == MESSAGE]


async def set_level(host: Host, level: str) -> None:
    assert (await host.request(SET_LEVEL, {"level": level})).result == {}


async def call(host: Host, revision: str, level: str | None) -> None:
    """A call with a level, as the host's revision says it."""
    if is_modern(revision):
        await host.call("one__echo", level=level)
    else:
        if level is not None:
            await set_level(host, level)
        await host.call("one__echo")


def levels_asked(one: Scripted, revision: str) -> list[str]:
    """The levels that an upstream was told, in its own way."""
    if is_modern(revision):
        metas = [line.frame["params"]["_meta"] for line in one.received("tools/call")]
        return [meta[LOG_LEVEL] for meta in metas if LOG_LEVEL in meta]
    return [line.frame["params"]["level"] for line in one.received(SET_LEVEL)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_sub_07_a_log_message_reaches_the_call_that_caused_it(
    stage: Stage, revision: str, upstream: str, way: str
) -> None:
    """Each era's way to ask for a level is said in the other's, and what comes is filtered again."""
    if way == "sse" and is_modern(revision):
        revision = V2024_11_05
    one = stage.upstream("one", upstream, **SCRIPT)
    async with arriving(stage, way, one) as (host, _):
        opened = await host.open(revision)
        assert opened.result["capabilities"]["logging"] == {}
        await host.names()
        await call(host, revision, "debug")
        assert said(host) == ["low", "high"]
        assert all(SUBSCRIPTION_ID not in note.params.get("_meta", {}) for note in host.notifications)
        await call(host, revision, "error")
        await call(host, revision, "warning")
        assert said(host) == ["low", "high", "high"]
    assert levels_asked(one, upstream) == ["debug", "error", "warning"]


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_sub_07_a_log_message_over_http_on_both_sides(stage: Stage, revision: str, upstream: str) -> None:
    """It comes on the stream of its call, and goes out on that of the host's."""
    one = stage.upstream("one", upstream, **SCRIPT)
    async with (
        fronted(one, Front) as url,
        serving_http(stage, servers={"one": {"url": url}}) as site,
        http_host(site) as host,
    ):
        await host.open(revision)
        await host.names()
        await call(host, revision, "info")
        assert said(host) == ["high"]
    assert levels_asked(one, upstream) == ["info"]


@pytest.mark.parametrize("upstream", ERAS)
async def test_sub_07_nothing_without_a_level_to_a_modern_host(stage: Stage, upstream: str) -> None:
    """Not even of a legacy server that sends what it likes."""
    one = stage.upstream("one", upstream, **SCRIPT)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        await host.call("one__echo")
        await host.fence()
    assert said(host) == []
    assert levels_asked(one, upstream) == []


@pytest.mark.parametrize("revision", LEGACY)
async def test_sub_07_a_legacy_host_that_set_none_gets_what_its_own_instance_sends(stage: Stage, revision: str) -> None:
    """During its calls, and between them."""
    one = stage.upstream("one", LATEST_LEGACY, **SCRIPT)
    async with stage.mcpx(one) as host:
        await host.open(revision)
        await host.call("one__echo")
        assert said(host) == ["low", "high"]
        await one.do({"log": ["info", "between"]})
        assert (await host.notified(MESSAGE, count=3)).params["data"] == "between"
        await set_level(host, "error")
        await one.got(SET_LEVEL)  # at once, as nobody knows when the next call comes
        await one.do({"notify": {"method": MESSAGE, "params": {"level": "info", "data": "too low"}}})
        await one.do({"log": ["alert", "on fire"]})
        assert (await host.notified(MESSAGE, count=4)).params["data"] == "on fire"
    assert said(host) == ["low", "high", "between", "on fire"]


async def test_sub_07_a_shared_instance_tells_nobody_what_may_be_anothers(stage: Stage) -> None:
    """While calls of two hosts are under way it is in mcpx's own log; with those of one alone it is that host's."""
    one = stage.upstream("one", LATEST_LEGACY, **SCRIPT)
    async with serving(stage, one) as served, connected(served) as a, connected(served) as b:
        for host in (a, b):
            await host.open(V2025_06_18)
            await host.names()
            await set_level(host, "debug")
        held = await b.start("tools/call", {"name": "one__held", "arguments": {}})
        await one.happened("held")
        await a.call("one__echo")
        assert said(a) == said(b) == []
        for what in ("low", "high"):
            await served.process.logged(f': "{what}"')
        await one.release("gate")
        await held.wait()
        assert said(b) == ["held"]
        await a.call("one__echo")
        assert said(a) == ["low", "high"]
        await one.do({"log": ["error", "of nobody"]})
        await a.fence()
        await b.fence()
        assert (said(a), said(b)) == (["low", "high"], ["held"])
    assert len(one.starts) == 1


async def test_sub_07_the_lowest_level_of_an_instances_hosts_is_set(stage: Stage) -> None:
    """Each host is told what reaches its own; when the one that wanted more has gone, the server is told so."""
    one = stage.upstream("one", LATEST_LEGACY, **SCRIPT)
    async with serving(stage, one) as served, connected(served) as a:
        await a.open(LATEST_LEGACY)
        await set_level(a, "warning")
        await a.call("one__echo")
        async with connected(served) as b:
            await b.open(LATEST_MODERN)
            await b.call("one__echo", level="debug")
            assert said(b) == ["low", "high"]
        async with connected(served) as c:
            await c.open(LATEST_LEGACY)
            await set_level(c, "info")
            await one.got(SET_LEVEL, 3)
        await one.got(SET_LEVEL, 4)
        await a.call("one__echo")
        assert said(a) == ["high", "high"]
    assert levels_asked(one, LATEST_LEGACY) == ["warning", "debug", "info", "warning"]


@pytest.mark.parametrize("revision", ERAS)
async def test_sub_07_an_unknown_level_is_refused(stage: Stage, revision: str) -> None:
    """In either era's way to ask for one, and no server is started for that."""
    one = stage.upstream("one", LATEST_LEGACY, **SCRIPT)
    async with stage.mcpx(one) as host:
        await host.open(revision)
        if is_modern(revision):
            answer = await host.call("one__echo", level="loud")
        else:
            answer = await host.request(SET_LEVEL, {"level": "loud"})
        assert answer.code == -32602
    assert one.starts == []


async def test_sub_07_a_server_that_starts_again_is_told_the_level_again(stage: Stage) -> None:
    """A new process knows nothing of what the one before was told."""
    one = stage.upstream("one", LATEST_LEGACY, **SCRIPT)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await set_level(host, "warning")
        await host.call("one__echo")
        await one.do({"exit": 1})
        await one.got(SET_LEVEL, 2)
        assert (await host.call("one__echo")).result["content"]
    assert said(host) == ["high", "high"]
    assert [(line.frame["params"]["level"]) for line in one.received(SET_LEVEL)] == ["warning", "warning"]
    assert len({line.pid for line in one.received(SET_LEVEL)}) == 2
