"""The rows that say something of connections, on a socket with several of them: LV-33, LV-37, LV-38."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.scripted import STUBBORN, TOOL
from tests.support.socket_hosts import connected, serving
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from tests.support.stage import Stage


async def test_lv_33_one_hosts_era_is_not_anothers(stage: Stage) -> None:
    """A handshake on one connection opens nothing on another, and each request of either era is answered in its own."""
    async with serving(stage, stage.upstream("one")) as served, connected(served) as old, connected(served) as new:
        await old.open(LATEST_LEGACY)
        assert "resultType" not in (await old.request("tools/list")).result
        assert (await new.request("tools/list", revision=LATEST_MODERN)).result["resultType"] == "complete"
        assert "resultType" not in (await new.request("tools/list")).result
        assert (await old.request("tools/list", revision=LATEST_MODERN)).result["resultType"] == "complete"


async def test_lv_37_an_id_is_in_flight_on_its_own_connection_only(stage: Stage) -> None:
    """Two connections may use one id at once; on each of them a second use is refused."""
    one = stage.upstream("one", tools=[{**TOOL, "name": "held"}], calls={"held": [{"hold": "it"}, {"answer": True}]})
    call = {"name": "one__held", "arguments": {}}
    async with serving(stage, one) as served, connected(served) as first, connected(served) as second:
        await first.open(LATEST_LEGACY)
        await second.open(LATEST_MODERN)
        asked = [await host.start("tools/call", call, id="same") for host in (first, second)]
        await one.got("tools/call", 2)
        numbers = {line.frame["id"] for line in one.received("tools/call")}
        assert len(numbers) == 2
        await first.send({"jsonrpc": "2.0", "id": "same", "method": "ping"})
        refusal = await asked[0].wait()
        assert refusal.code == -32600
        assert asked[1].answer is None
        again = first.expect({"id": "same", "method": "tools/call"}, LATEST_LEGACY)
        await one.release("it")
        assert (await again.wait()).result["content"]
        assert (await asked[1].wait()).result["content"]


async def test_lv_38_a_socket_has_a_budget_of_its_own(stage: Stage) -> None:
    """At a signal an upstream that ignores everything is gone within it; the end of a host ends nothing."""
    one = stage.upstream("one", **STUBBORN)
    async with serving(stage, one) as served:
        async with connected(served) as host:
            await host.open(LATEST_LEGACY)
            await host.names()
        async with connected(served) as host:
            await host.open(LATEST_MODERN)
            assert await host.names() == ["one__echo"]
        served.process.signal(signal.SIGTERM)
        assert await served.process.wait() == 0
        assert served.process.took < Limits().exit_budget_server + BUSY
    assert len(one.starts) == 1
