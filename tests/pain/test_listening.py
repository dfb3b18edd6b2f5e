"""Kind 17 and the near misses around it: modern upstreams that are listened to, and how that goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.http_up import Asked, Reply, discovered, modern, serving
from tests.support.scripted import RESOURCE, TELLS_ALL, TOOL

if TYPE_CHECKING:
    from tests.support.stage import Stage

LISTEN = "subscriptions/listen"
TOOLS_CHANGED = "notifications/tools/list_changed"
ITEMS: dict[str, Any] = {"resources": [RESOURCE], "capabilities": {**TELLS_ALL}}


async def test_pain_17_a_storm_on_a_listen_stream_is_few(stage: Stage) -> None:
    """Two hundred changes at once cost a few list calls, and the last one counts."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        await one.got(LISTEN)
        last = {"set": {"tools": [{**TOOL, "name": "after"}]}}
        await one.do({"cork": [*[{"changed": "tools"}] * 199, last, {"changed": "tools"}]})
        await host.notified(TOOLS_CHANGED)
        assert await host.names() == ["one__after"]
        await host.fence()
        assert len(one.received("tools/list")) <= 6
        assert len(host.notifications) <= 20


async def test_pain_17_many_subscriptions_at_once_are_few_streams(stage: Stage) -> None:
    """What comes and goes together is asked for together."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        uris = [f"mcpx://one/file:///{number}" for number in range(100)]
        for asked in [await host.start("resources/subscribe", {"uri": uri}) for uri in uris]:
            assert (await asked.wait()).result == {}
        assert len(one.received(LISTEN)[-1].frame["params"]["notifications"]["resourceSubscriptions"]) == 100
        assert len(one.received(LISTEN)) <= 10


async def test_near_a_listen_stream_that_is_dropped_at_once_is_not_asked_for_in_a_loop(stage: Stage) -> None:
    """It is accepted and ended every time: it is asked for ever more seldom, and calls are none the worse for it."""
    one = stage.upstream("one", LATEST_MODERN, on={LISTEN: [{"answer": True}, {"unlisten": None}]}, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await one.got(LISTEN, 2)
        await trio.sleep(0.5)
        assert (await host.call("one__echo")).result["content"]
        assert len(one.received(LISTEN)) <= 3


async def _accept_and_end(asked: Asked, reply: Reply) -> None:
    tag = {"io.modelcontextprotocol/subscriptionId": asked.frame["id"]}
    params = {"notifications": asked.frame["params"]["notifications"], "_meta": tag}
    await reply.events()
    await reply.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})


async def _accept_and_cut(asked: Asked, reply: Reply) -> None:
    await _accept_and_end(asked, reply)
    await reply.cut()


async def _accept_and_close(asked: Asked, reply: Reply) -> None:
    await _accept_and_end(asked, reply)
    await reply.end()


async def _fail(asked: Asked, reply: Reply) -> None:
    await reply.text(503)


async def _does_not_know(asked: Asked, reply: Reply) -> None:
    await reply.text(404, "no such thing")


async def _refuse(asked: Asked, reply: Reply) -> None:
    await reply.error(-32601, status=404)


async def _discover(asked: Asked, reply: Reply) -> None:
    await reply.result(discovered(capabilities=TELLS_ALL))


async def _call(asked: Asked, reply: Reply) -> None:
    await reply.result({"resultType": "complete", "content": []})


@pytest.mark.parametrize(
    ("answer", "least", "most"),
    [
        (_accept_and_cut, 2, 3),
        (_accept_and_close, 2, 3),
        (_fail, 2, 3),
        (_does_not_know, 1, 1),
        (_refuse, 1, 1),
    ],
)
async def test_near_a_listen_stream_over_http_that_does_not_last(
    stage: Stage, answer: Any, least: int, most: int
) -> None:
    """What breaks is asked for ever more seldom, and what is refused no more; the server is none the worse for it."""
    script = modern(server__discover=_discover, subscriptions__listen=answer, tools__call=_call)
    async with serving(script) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await up.got(LISTEN, least)
        await trio.sleep(0.5)
        assert (await host.call("one__echo")).result["content"] == []
        assert len(up.of(LISTEN)) <= most
        assert len(up.of("server/discover")) == 1
