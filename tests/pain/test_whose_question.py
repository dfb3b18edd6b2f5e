"""Whose question it is, where nothing says who a host is: kind 12, for modern hosts by HTTP and a legacy server that is
one process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.http_hosts import http_host, serving_http

if TYPE_CHECKING:
    from tests.support.fake_down import Host, Incoming
    from tests.support.stage import Stage

CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "roots": {}}
ELICIT, ROOTS = "elicitation/create", "roots/list"
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "asks")]
ASKS = [{"ask": {"method": ELICIT, "params": FORM}}, {"told": True}]


def accept(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


async def asking(host: Host) -> Incoming:
    """The result that asks the host."""
    answer = await host.request("tools/call", {"name": "one__asks", "arguments": {}})
    assert answer.result["resultType"] == "input_required"
    return answer


async def told(host: Host, asked: Incoming) -> list[Any]:
    """What the server was told, once the host has answered."""
    params = {"name": "one__asks", "arguments": {}, **host.retry(asked)}
    answer = await host.request("tools/call", params)
    return list(json.loads(answer.result["content"][0]["text"]).values())


async def test_pain_12_calls_one_after_the_other_meet_one_process(stage: Stage) -> None:
    one = stage.upstream("one", LATEST_LEGACY, tools=TOOLS)
    async with serving_http(stage, one) as site, http_host(site) as host:
        await host.open(LATEST_MODERN, CAPABILITIES)
        for _ in range(10):
            assert (await host.call("one__echo")).result["content"]
        assert await host.names() == ["one__echo", "one__asks"]
    assert len(one.starts) == 1


async def test_pain_12_two_at_once_are_each_asked_their_own(stage: Stage) -> None:
    one = stage.upstream("one", LATEST_LEGACY, tools=TOOLS, calls={"asks": ASKS})
    async with serving_http(stage, one) as site, http_host(site) as first, http_host(site) as second:
        for host, name in ((first, "first"), (second, "second")):
            await host.open(LATEST_MODERN, CAPABILITIES)
            host.answers = {ELICIT: accept(name)}
        asked = [await asking(first), await asking(second)]
        assert len(one.starts) == 2
        assert await told(second, asked[1]) == [accept("second")]
        assert await told(first, asked[0]) == [accept("first")]
        for _ in range(3):  # nothing stale is used
            for host, name in ((second, "second"), (first, "first")):
                assert (await told(host, await asking(host)))[-1] == accept(name)
    assert len(one.starts) == 2


async def test_pain_12_a_question_right_after_the_handshake_is_for_the_first_call(stage: Stage) -> None:
    roots = {"roots": [{"uri": "file:///a", "name": "a"}]}
    one = stage.upstream(
        "one",
        LATEST_LEGACY,
        tools=TOOLS,
        onInitialized=[{"ask": {"method": ROOTS, "id": "early"}}],
        calls={"echo": [{"answered": "early"}, {"told": True}]},
    )
    async with serving_http(stage, one) as site, http_host(site) as host:
        await host.open(LATEST_MODERN, CAPABILITIES)
        host.answers = {ROOTS: roots}
        answer = await host.converse("tools/call", {"name": "one__echo", "arguments": {}})
        assert json.loads(answer.result["content"][0]["text"]) == {"early": roots}
        [asked] = host.rounds
        assert [one["method"] for one in asked.result["inputRequests"].values()] == [ROOTS]
