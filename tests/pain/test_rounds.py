"""A server that asks, in each era, in front of a host of each: kind 21, by HTTP on both sides."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.meta import CLIENT_CAPABILITIES
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, is_modern
from mcpx.upstream.session_call import MAX_ROUNDS
from tests.support.http_front import fronted
from tests.support.http_hosts import http_host, serving_http
from tests.support.posting import Poster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.http_hosts import Site
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

ERAS = (LATEST_LEGACY, LATEST_MODERN)
ELICIT = "elicitation/create"
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}}
CALL: dict[str, Any] = {"name": "one__asks", "arguments": {"a": 1}}
ANSWERS: dict[str, Any] = {"name": {"action": "accept", "content": {"name": "x"}}, "age": {"action": "decline"}}
# The state of each round as the server writes it: no serializer would write it so again.
STATES = {"name": r'"\u0061 \/ ü \""', "age": r'"\u00fc\/"'}


def form(field: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return {"mode": "form", "message": f"Your {field}?", "requestedSchema": schema}


def answer_to(params: dict[str, Any]) -> Any:
    [field] = params["requestedSchema"]["properties"]
    return ANSWERS[field]


def requires(field: str) -> dict[str, Any]:
    """The step of a modern server that asks for a field."""
    asked = json.dumps({field: {"method": ELICIT, "params": form(field)}})
    return {"raw": f'{{"resultType":"input_required","inputRequests":{asked},"requestState":{STATES[field]}}}'}


def asking(stage: Stage, upstream: str, *fields: str, then: Any = None) -> Scripted:
    """A server whose one tool asks for these, one after the other; ``then`` is how a modern one takes it from there."""
    steps: Any = [*({"ask": {"id": one, "method": ELICIT, "params": form(one)}} for one in fields), {"told": True}]
    if is_modern(upstream):
        steps = {"times": [*([requires(one)] for one in fields), [{"told": True}], *(then or ())]}
    tools = [{"name": "asks", "inputSchema": {"type": "object"}}]
    return stage.upstream("one", upstream, tools=tools, calls={"asks": steps})


def learnt(one: Scripted) -> dict[str, Any]:
    """What the server was answered, by field."""
    found = {line.frame["id"]: line.frame["result"] for line in one.received() if "method" not in line.frame}
    for line in one.received("tools/call"):
        found |= line.frame["params"].get("inputResponses", {})
    return found


@asynccontextmanager
async def serving_asker(stage: Stage, one: Scripted, by: str = "http", **limits: Any) -> AsyncIterator[Site]:
    """mcpx by HTTP in front of the server, which is reached by HTTP as well, or by pipes."""
    async with AsyncExitStack() as stack:
        if by == "pipes":
            site = serving_http(stage, one, limits=limits)
        else:
            url = await stack.enter_async_context(fronted(one))
            site = serving_http(stage, servers={"one": {"url": url}}, limits=limits)
        yield await stack.enter_async_context(site)


@pytest.mark.parametrize("by", ["http", "pipes"])
@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_pain_21_two_rounds(stage: Stage, revision: str, upstream: str, by: str) -> None:
    """The first is accepted, the second declined; each retry has an id of its own, and the server's very state."""
    one = asking(stage, upstream, *ANSWERS)
    async with serving_asker(stage, one, by) as site, http_host(site) as host:
        await host.open(revision, CAPABILITIES)
        host.answers = {ELICIT: answer_to}
        answer = await host.converse("tools/call", CALL)
        assert answer.result["content"]
        assert learnt(one) == ANSWERS
        asked = [question.frame for question in host.requests]
        asked += [question for each in host.rounds for question in each.result["inputRequests"].values()]
        assert [(question["method"], question["params"]) for question in asked] == [
            (ELICIT, form(field)) for field in ANSWERS
        ]
        assert len(host.rounds) == (2 if is_modern(revision) else 0)
        calls = one.received("tools/call")
        if is_modern(upstream):
            assert len({json.dumps(call.frame["id"]) for call in calls}) == len(calls) == 3
            assert "requestState" not in calls[0].frame["params"]
            for call, state in zip(calls[1:], STATES.values(), strict=True):
                assert call.frame["params"]["requestState"] == json.loads(state)
                assert by == "http" or state in call.text  # the server by HTTP writes JSON anew
            assert all(call.frame["params"]["arguments"] == {"a": 1} for call in calls)
        else:
            assert len(calls) == 1


async def test_pain_21_a_server_that_never_stops_asking_is_left(stage: Stage) -> None:
    """Where mcpx makes the rounds itself, for a legacy host."""
    one = asking(stage, LATEST_MODERN, *["name"] * (MAX_ROUNDS + 5))
    async with serving_asker(stage, one) as site, http_host(site) as host:
        await host.open(LATEST_LEGACY, CAPABILITIES)
        host.answers = {ELICIT: answer_to}
        error = (await host.request("tools/call", CALL)).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"
        assert len(one.received("tools/call")) == MAX_ROUNDS
        assert len(host.requests) == MAX_ROUNDS - 1  # what it asks the last time is asked nobody


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_pain_21_nobody_answers(stage: Stage, revision: str, upstream: str) -> None:
    """A legacy host's question is withdrawn and the server's call goes on; a modern one comes back too late, and a
    legacy server's call has been cancelled by then.
    """
    one = asking(stage, upstream, "name")
    async with serving_asker(stage, one, questionTimeout=0.5) as site, http_host(site) as host:
        await host.open(revision, CAPABILITIES)
        started = await host.start("tools/call", CALL)
        if not is_modern(revision):
            question = await host.asked(ELICIT)
            note = await host.notified("notifications/cancelled")
            assert note.params["requestId"] == question.frame["id"]
            assert (await started.wait()).result["content"]
            assert learnt(one) == {"name": {"action": "cancel"}}
            return
        asked = await started.wait()
        if not is_modern(upstream):
            call, note = await one.got("tools/call"), await one.got("notifications/cancelled")
            assert note.frame["params"]["requestId"] == call.frame["id"]
        host.answers = {ELICIT: answer_to}
        await trio.sleep(0.5)  # the time itself is what is tested
        assert (await host.request("tools/call", {**CALL, **host.retry(asked)})).code == -32602
        assert len(one.received("tools/call")) == 1
        expected = {} if is_modern(upstream) else {"name": {"action": "cancel"}}
        await one.changes.until(lambda: learnt(one) == expected, "the end of its question")


@pytest.mark.parametrize("upstream", ERAS)
async def test_pain_21_a_state_that_was_used(stage: Stage, upstream: str) -> None:
    """It is refused: by mcpx where a call was parked, and otherwise by the server, whose own state it holds."""
    one = asking(stage, upstream, "name", then=[[{"error": {"code": -32602, "message": "used"}}]])
    async with serving_asker(stage, one) as site, http_host(site) as host:
        await host.open(LATEST_MODERN, CAPABILITIES)
        host.answers = {ELICIT: answer_to}
        asked = await host.request("tools/call", CALL)
        retry = {**CALL, **host.retry(asked)}
        assert (await host.request("tools/call", retry)).result["content"]
        assert (await host.request("tools/call", retry)).code == -32602
        states = [call.frame["params"].get("requestState") for call in one.received("tools/call")]
        assert states == ([None, *[json.loads(STATES["name"])] * 2] if is_modern(upstream) else [None])


@pytest.mark.parametrize("upstream", ERAS)
async def test_pain_21_a_state_of_somebody_else(stage: Stage, upstream: str) -> None:
    """It is good for who was given it and for that request, and an attempt of others leaves it so."""
    one = asking(stage, upstream, "name")
    async with serving_asker(stage, one) as site:
        poster = Poster(site)

        async def call(who: str | None, **params: Any) -> Any:
            token = None if who is None else f"Bearer {who}"
            meta = {CLIENT_CAPABILITIES: CAPABILITIES}
            said = await poster.ask(1, "tools/call", {**CALL, **params}, meta=meta, authorization=token)
            return said.frame

        asked = (await call("first"))["result"]
        [key], state = asked["inputRequests"], asked["requestState"]
        retry = {"requestState": state, "inputResponses": {key: ANSWERS["name"]}}
        for who, change in [
            ("second", {}),
            (None, {}),
            ("first", {"arguments": {"a": 2}}),
            ("first", {"requestState": state[:-2] + "xx"}),
        ]:
            assert (await call(who, **{**retry, **change}))["error"]["code"] == -32602
        assert len(one.received("tools/call")) == 1
        assert learnt(one) == {}
        assert (await call("first", **retry))["result"]["resultType"] == "complete"
        assert learnt(one) == {"name": ANSWERS["name"]}


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_pain_21_who_declared_nothing_is_not_asked(stage: Stage, revision: str, upstream: str) -> None:
    """A legacy server's question is refused, and its call goes on; from a modern one it is no answer at all."""
    one = asking(stage, upstream, "name")
    async with serving_asker(stage, one) as site, http_host(site) as host:
        await host.open(revision, {})
        answer = await host.request("tools/call", CALL)
        if is_modern(upstream):
            assert answer.code == -32603
            assert answer.error["data"]["server"] == "one"
        else:
            assert "input_required" not in json.dumps(answer.result)
            [refused] = [line.frame for line in one.received() if "method" not in line.frame]
            assert refused["id"] == "name"
            assert refused["error"]["code"] in (-32601, -32602)
        assert host.requests == []
        assert len(one.received("tools/call")) == 1


async def test_pain_21_what_the_server_needs_is_said_and_ends_no_connection(stage: Stage) -> None:
    """-32021 passes to a modern host with the status that it has by HTTP; the next request is served."""
    missing = {"code": -32021, "message": "No forms", "data": {"requiredCapabilities": CAPABILITIES}}
    tools = [{"name": "asks", "inputSchema": {"type": "object"}}]
    steps: Any = {"times": [[{"error": missing}], [{"answer": True}]]}
    one = stage.upstream("one", LATEST_MODERN, tools=tools, calls={"asks": steps})
    async with serving_asker(stage, one) as site:
        poster = Poster(site)
        said = await poster.ask(1, "tools/call", CALL)
        assert said.code == (400, -32021)
        assert said.frame["error"] == missing
        assert (await poster.ask(2, "tools/call", CALL)).frame["result"]["content"]
