"""The scripted peers are right: a scripted host speaks to a scripted upstream directly, with nothing between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpx.spec.meta import PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, REVISIONS, SUPPORTED, is_modern
from tests.support.audit import upstream_problems
from tests.support.fake_down import alive
from tests.support.scripted import PROMPT, RESOURCE, TEMPLATE, TOOL, noise

if TYPE_CHECKING:
    from tests.support.stage import Stage


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_fake_serves_every_revision_in_its_own_form(stage: Stage, revision: str) -> None:
    one = stage.upstream("one", revision, prompts=[PROMPT], resources=[RESOURCE], templates=[TEMPLATE], completes={})
    async with stage.play(one.command, one) as host:
        await host.open(revision)
        assert await host.names() == ["echo"]
        assert await host.all_items("prompts/list", "prompts") == [PROMPT]
        assert await host.all_items("resources/list", "resources") == [RESOURCE]
        assert await host.all_items("resources/templates/list", "resourceTemplates") == [TEMPLATE]
        called = (await host.call("echo", {"a": 1.0})).result
        assert called["content"] == [{"type": "text", "text": 'echo {"a": 1.0}'}]
        assert ("resultType" in called) is is_modern(revision)
        assert (await host.request("prompts/get", {"name": "greet"})).result["messages"]
        assert (await host.request("resources/read", {"uri": "file:///logs/1.txt"})).result["contents"]
        ref = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "a"}}
        assert (await host.request("completion/complete", ref)).result["completion"]["values"] == ["a1", "a2"]
        missing = await host.request("resources/read", {"uri": "other:/"})
        assert missing.code == (-32602 if is_modern(revision) else -32002)
    assert one.methods()[-1] == "resources/read"


async def test_a_fake_refuses_what_its_era_does_not_have(stage: Stage) -> None:
    legacy, modern = stage.upstream("legacy", LATEST_LEGACY), stage.upstream("modern", LATEST_MODERN)
    async with stage.play(legacy.command, legacy) as host:
        assert (await host.request("server/discover", revision=LATEST_MODERN)).code == -32601
        await host.initialize(LATEST_LEGACY)
    async with stage.play(modern.command, modern, audit=False) as host:
        params = {"protocolVersion": "1", "capabilities": {}, "clientInfo": host.info}
        refused = await host.request("initialize", params)
        assert refused.error["data"] == {"supported": [LATEST_MODERN], "requested": "1"}
        assert (await host.request("tools/list")).code == -32602
        old = await host.request("tools/list", meta={PROTOCOL_VERSION: "1"}, revision=LATEST_MODERN)
        assert old.code == -32022
        assert (await host.request("ping", revision=LATEST_MODERN)).code == -32601


async def test_the_audit_of_a_fake_notices_what_is_wrong(stage: Stage) -> None:
    one = stage.upstream("one", LATEST_LEGACY)
    async with stage.play(one.command, one, audit=False) as host:
        await host.request("tools/list", id=1)
        await host.request("ping", id=1)
    problems = upstream_problems(one)
    assert any("tools/list before the handshake" in problem for problem in problems)
    assert any("the id 1 of tools/list is used again" in problem for problem in problems)


async def test_a_dual_fake_answers_both_eras(stage: Stage) -> None:
    one = stage.upstream("one", SUPPORTED)
    async with stage.play(one.command, one) as host:
        answer = await host.open(LATEST_MODERN)
        assert answer.result["supportedVersions"] == list(SUPPORTED)
        assert (await host.initialize(LEGACY[2])).result["protocolVersion"] == LEGACY[2]


@pytest.mark.parametrize(("cursors", "count"), [("offset", 7), ("empty", 7), ("cycle", None), ("endless", None)])
async def test_a_fake_cuts_its_lists_into_pages(stage: Stage, cursors: str, count: int | None) -> None:
    tools = [{**TOOL, "name": f"t{n}"} for n in range(7)]
    one = stage.upstream("one", tools=tools, pageSize=3, cursors=cursors)
    async with stage.play(one.command, one) as host:
        await host.open(LATEST_LEGACY)
        if count:
            assert await host.names() == [f"t{n}" for n in range(7)]
        seen, cursor = [], None
        for _ in range(4):
            page = (await host.request("tools/list", {} if cursor is None else {"cursor": cursor})).result
            cursor = page.get("nextCursor")
            seen.append(cursor)
            if cursor is None:
                break
        assert seen == {"offset": ["3", "6", None], "empty": ["", "6", None], "cycle": ["3", "6", "3", "6"]}.get(
            cursors, ["3", "6", "9", "12"]
        )
        assert (await host.request("tools/list", {"cursor": "no cursor"})).code == -32602


async def test_a_fake_follows_its_steps(stage: Stage) -> None:
    """Raw results, progress, questions, holding, odd ids, noise, floods, restarts."""
    steps = {
        "raw": [{"raw": '{"content": [],  "x":1.0}'}],
        "busy": [{"progress": {"times": 3, "total": 3}}, {"answer": True}],
        "held": [{"hold": "gate"}, {"answer": True}],
        "odd": [{"spell": "float"}, {"answer": True}],
        "noisy": [{"stdout": noise("hällo".encode() + b"\xff")}, {"stdout": "\n"}, {"flood": 70_000}, {"answer": True}],
        "asks": [{"ask": {"method": "ping"}}, {"answer": True}],
        "twice": {"times": [[{"error": {"code": 5, "message": "no"}}], [{"answer": True}]]},
        "dies": [{"stderr": "last words\n"}, {"exit": 3}],
    }
    one = stage.upstream("one", tools=[{**TOOL, "name": name} for name in steps], calls=steps)
    async with stage.play(one.command, one, status=3, audit=False) as host:
        await host.open(LATEST_LEGACY)
        assert b'"result":{"content": [],  "x":1.0}' in (await host.call("raw")).raw
        busy = await host.start("tools/call", {"name": "busy"}, meta={"progressToken": "t"})
        await busy.wait()
        assert [one.params["progress"] for one in busy.progress] == [1, 2, 3]
        held = await host.start("tools/call", {"name": "held"})
        await one.happened("held")
        assert held.answer is None
        await one.release("gate")
        await held.wait()
        asks = await host.start("tools/call", {"name": "asks"})
        await host.changes.until(lambda: host.requests, "a ping")
        await host.send({"jsonrpc": "2.0", "id": host.requests[0].frame["id"], "result": {}})
        await asks.wait()
        assert (await host.call("twice")).code == 5
        assert (await host.call("twice")).result
        await host.call("noisy")
        assert host.noise == ["hällo".encode() + b"\xff"]
        await one.do({"notify": {"method": "notifications/tools/list_changed"}})
        await host.notified("notifications/tools/list_changed")
        odd = await host.start("tools/call", {"name": "odd"}, id=70)
        await host.changes.until(lambda: host.strays or odd.answer, "an oddly spelt id")
        assert b'"id":70.0' in (host.strays[-1] if host.strays else odd.answer).raw
        await host.start("tools/call", {"name": "dies"})
        assert await host.wait() == 3
        assert host.log.endswith("last words\n")
    assert not alive(one.pids[0])


async def test_a_fake_may_differ_from_start_to_start(stage: Stage) -> None:
    one = stage.upstream("one", starts=[{"onStart": [{"exit": 4}]}, {}])
    async with stage.play(one.command, one, status=4):
        pass
    async with stage.play(one.command, one) as host:
        await host.open(LATEST_LEGACY)
    assert [event.value["start"] for event in one.starts] == [0, 1]
