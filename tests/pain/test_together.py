"""Kinds 19 and 24: many upstreams at once, slow, dead, stubborn and strange ones among them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, SUPPORTED, V2024_11_05, V2025_06_18
from tests.support.scripted import TOOL
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from tests.support.stage import Stage


def _refusal(code: int, *versions: str) -> list[dict[str, Any]]:
    data = {"data": {"supported": list(versions), "requested": LATEST_MODERN}} if versions else {}
    return [{"error": {"code": code, "message": "no", **data}}]


async def test_pain_19_all_kinds_of_servers_survive_the_probe(stage: Stage) -> None:
    """Eight servers that take the probe in eight ways are all there in one list, and each again in the next run."""
    discover = "server/discover"
    several = [
        stage.upstream("exits", on={discover: [{"exit": 1}]}),
        stage.upstream("silent", V2025_06_18, on={discover: []}),
        stage.upstream("unknown", on={discover: _refusal(-32601)}),
        stage.upstream("invalid", V2024_11_05, on={discover: _refusal(-32602)}),
        stage.upstream(
            "modern", LATEST_MODERN, on={discover: {"times": [_refusal(-32022, LATEST_MODERN), [{"answer": 1}]]}}
        ),
        stage.upstream("legacy", on={discover: _refusal(-32022, LATEST_LEGACY, V2024_11_05)}),
        stage.upstream("slow", SUPPORTED, onStart=[{"wait": 2}], lock=True),
        stage.upstream("loud", on={discover: [{"flood": 100 * 1024}, *_refusal(-32601)]}),
    ]
    expected = [f"{one.name}__echo" for one in several]
    for _ in range(2):
        async with stage.mcpx(*several, limits={"probeDelay": 1}) as host:
            await host.open(LATEST_LEGACY)
            assert await host.names() == expected
            for name in expected:
                assert (await host.call(name)).result["content"]
    for one in several:
        # One wrong verdict heals within a start; nothing is started more often than it must be.
        assert len(one.starts) == (3 if one.name == "exits" else 2), one.name


async def test_pain_24_the_healthy_ones_are_not_held_up(stage: Stage) -> None:
    """The handshake is answered at once, a list in its bounded time with what is there, and late ones are announced."""
    ok, modern = stage.upstream("ok"), stage.upstream("modern", LATEST_MODERN)
    never = stage.upstream("never", on={"server/discover": [], "initialize": []})
    dies = stage.upstream("dies", onStart=[{"stderr": "cannot find my keys\n"}, {"exit": 3}])
    slow = stage.upstream("slow", onStart=[{"hold": "slow"}])
    bound = 2.0
    async with stage.mcpx(ok, never, dies, slow, modern, limits={"listTimeout": bound}) as host:
        await host.fence()  # mcpx itself has started
        started = time.monotonic()
        await host.initialize(LATEST_LEGACY)
        assert time.monotonic() - started < bound
        assert not any(one.starts for one in (ok, never, dies, slow, modern))
        started = time.monotonic()
        assert await host.names() == ["ok__echo", "modern__echo"]
        assert time.monotonic() - started < bound + BUSY
        started = time.monotonic()
        assert (await host.call("ok__echo")).result["content"]
        assert await host.names() == ["ok__echo", "modern__echo"]
        assert time.monotonic() - started < bound  # nobody waits twice for the same one
        assert "dies" in await host.logged("cannot find my keys")
        await host.changes.until(
            lambda: any("never" in line or "slow" in line for line in host.log.splitlines() if "warning" in line),
            "a warning of who is late",
        )
        before = len(host.notifications)
        await slow.release("slow")
        await host.changes.until(lambda: len(host.notifications) > before, "list_changed for the late one")
        assert await host.names() == ["ok__echo", "slow__echo", "modern__echo"]
        assert (await host.call("slow__echo")).result["content"]


async def test_pain_24_a_call_to_a_dead_server_says_what_is_wrong(stage: Stage) -> None:
    """Calls for a server that cannot start get its name, its reason and its last words; the others work on."""
    dies = stage.upstream("dies", onStart=[{"stderr": "cannot find my keys\n"}, {"exit": 3}])
    async with stage.mcpx(dies, stage.upstream("ok")) as host:
        await host.open(LATEST_MODERN)
        assert await host.names() == ["ok__echo"]
        error = (await host.call("dies__echo")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "dies"
        assert "cannot find my keys" in error["data"]["reason"]
        assert (await host.call("ok__echo")).result["content"]


async def test_pain_24_a_stuck_call_holds_up_nothing_else(stage: Stage) -> None:
    """While one call hangs, other calls to the same server and to others, and lists, go on."""
    one = stage.upstream("one", tools=[TOOL, {**TOOL, "name": "stuck"}], calls={"stuck": []})
    async with stage.mcpx(one, stage.upstream("two")) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for _ in range(5):
            await host.start("tools/call", {"name": "one__stuck"})
        assert (await host.call("one__echo")).result["content"]
        assert (await host.call("two__echo")).result["content"]
        assert len(await host.names()) == 3


async def test_pain_24_nothing_starts_before_it_is_needed(stage: Stage) -> None:
    """Handshakes and discoveries start no server; a call starts the one it is for."""
    one, two = stage.upstream("one"), stage.upstream("two")
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_MODERN)
        await host.initialize(LATEST_LEGACY)
        await host.request("ping")
        assert (await host.call("two__echo")).result["content"]
    assert one.starts == []
    assert len(two.starts) == 1


async def test_near_a_second_upstream_empties_nothing(stage: Stage) -> None:
    """Adding a second server, of whatever era or state, leaves the first one's list as it was."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        alone = await host.all_items("tools/list", "tools")
    for second in (stage.upstream("two"), stage.upstream("three", LATEST_MODERN), stage.upstream("none", tools=[])):
        async with stage.mcpx(one, second) as host:
            await host.open(LATEST_LEGACY)
            assert (await host.all_items("tools/list", "tools"))[: len(alone)] == alone
