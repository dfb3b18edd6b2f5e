"""LV-19, LV-20, LV-24 to LV-26, LV-33 to LV-37 and SUB-18: single requests, of one era or the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    REVISIONS,
    SUPPORTED,
    V2024_11_05,
    V2025_06_18,
    is_modern,
)
from tests.support.scripted import EVERY_REQUEST, PROMPT, RESOURCE, TOOL

if TYPE_CHECKING:
    from tests.support.fake_down import Host, Incoming
    from tests.support.stage import Stage

UI = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}


async def _raw(
    host: Host, method: str, params: dict[str, Any], ident: Any = "raw", revision: str | None = LATEST_MODERN
) -> Incoming:
    """A request with exactly these params."""
    frame = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
    asked = host.expect(frame, revision)
    await host.send(frame)
    return await asked.wait()


@pytest.mark.parametrize("version", ["2026-07-29", "1999-01-01", "", "draft"])
async def test_lv_19_an_unsupported_version_is_refused_on_its_request_alone(stage: Stage, version: str) -> None:
    """A modern request with a version that mcpx lacks is -32022 with both lists; the next one is served."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.open(LATEST_MODERN)
        error = (await host.request("tools/list", meta={PROTOCOL_VERSION: version})).error
        assert error["code"] == -32022
        assert error["data"] == {"supported": list(SUPPORTED), "requested": version}
        assert await host.names() == ["one__echo"]


async def test_lv_20_capabilities_are_never_carried_over(stage: Stage) -> None:
    """Each request goes upstream with what it declared itself, whatever came before it or beside it."""
    one = stage.upstream("one", LATEST_MODERN)
    declared = [{"extensions": UI}, {}, {"extensions": {"org.example/x": {"a": 1.0}}}, {}]
    async with stage.mcpx(one) as host:
        await host.initialize(LATEST_LEGACY, {"experimental": {"x": {}}})
        await host.request("tools/list", revision=LATEST_MODERN, capabilities={})
        for capabilities in declared:
            await host.call("one__echo", revision=LATEST_MODERN, capabilities=capabilities)
        await host.call("one__echo", revision=LATEST_LEGACY)
    told = [line.frame["params"]["_meta"][CLIENT_CAPABILITIES] for line in one.received("tools/call")]
    assert told == [*declared, {}]


async def test_lv_20_what_lets_a_server_ask_is_what_the_host_declared(stage: Stage) -> None:
    """A modern upstream is told on each request what its host declared, a legacy one once, and then by itself."""
    new, old = stage.upstream("new", LATEST_MODERN), stage.upstream("old")
    forms = {"elicitation": {"form": {}}, "roots": {"listChanged": True}}
    visits = {"elicitation": {"url": {}}, "sampling": {"tools": {}, "context": {}}}
    async with stage.mcpx(new, old) as host:
        for capabilities in (forms, visits, {}):
            for server in ("new", "old"):
                await host.call(f"{server}__echo", revision=LATEST_MODERN, capabilities=capabilities)
        await host.initialize(LATEST_LEGACY, forms)
        for server in ("new", "old"):
            await host.call(f"{server}__echo")
    told = [line.frame["params"]["_meta"][CLIENT_CAPABILITIES] for line in new.received("tools/call")]
    # What a modern host has no use for is not told of: it cannot say that its roots have changed.
    modern = {**forms, "roots": {}}
    assert told == [modern, visits, {}, modern]
    shaken = [line.frame["params"]["capabilities"] for line in old.received("initialize")]
    assert sorted(shaken, key=str) == sorted([forms, visits, {}], key=str)


ENVELOPE = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}}


@pytest.mark.parametrize(
    "meta",
    [
        {PROTOCOL_VERSION: LATEST_MODERN},
        {CLIENT_CAPABILITIES: {}},
        {CLIENT_INFO: {"name": "n", "version": "1"}},
        {LOG_LEVEL: "info"},
        {PROTOCOL_VERSION: 20260728, CLIENT_CAPABILITIES: {}},
        {PROTOCOL_VERSION: None, CLIENT_CAPABILITIES: {}},
        {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: []},
        {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: None},
        {**ENVELOPE, CLIENT_INFO: "me"},
        {**ENVELOPE, LOG_LEVEL: 3},
    ],
)
async def test_lv_24_incomplete_metadata_is_refused(stage: Stage, meta: dict[str, Any]) -> None:
    """A request with one reserved key is modern; without both required ones, or a wrong type, it is -32602."""
    async with stage.mcpx(stage.upstream("one")) as host:
        for handshake in (None, LATEST_LEGACY):
            if handshake:
                await host.initialize(handshake)
            answer = await _raw(host, "tools/list", {"_meta": meta}, f"after {handshake}")
            assert answer.code == -32602
        await host.fence()


async def test_lv_24_other_metadata_makes_no_request_modern(stage: Stage) -> None:
    """A progress token, a foreign key, or a reserved key that is none of a request's, leaves a request legacy."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(LATEST_LEGACY)
        for number, meta in enumerate(
            [
                {"progressToken": 1},
                {"example.org/x": 1},
                {"io.modelcontextprotocol/related-task": {"taskId": "t"}},
                {SERVER_INFO: {"name": "n", "version": "1"}},
            ]
        ):
            answer = await _raw(host, "tools/list", {"_meta": meta}, number, LATEST_LEGACY)
            assert "resultType" not in answer.result


async def test_lv_24_a_legacy_date_in_the_metadata_is_unsupported(stage: Stage) -> None:
    """A legacy revision in _meta is -32022, with the list of what is spoken."""
    async with stage.mcpx(stage.upstream("one")) as host:
        for number, revision in enumerate(LEGACY):
            meta = {PROTOCOL_VERSION: revision, CLIENT_CAPABILITIES: {}}
            error = (await _raw(host, "tools/list", {"_meta": meta}, number)).error
            assert error["code"] == -32022
            assert error["data"] == {"supported": list(SUPPORTED), "requested": revision}


async def test_lv_24_initialize_with_modern_metadata_is_unknown(stage: Stage) -> None:
    """initialize in a modern envelope is -32601, as the revision has no such method (on HTTP: with HTTP)."""
    async with stage.mcpx(stage.upstream("one")) as host:
        params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": host.info, "_meta": ENVELOPE}
        assert (await _raw(host, "initialize", params)).code == -32601


async def test_lv_25_discover_always_answers(stage: Stage) -> None:
    """server/discover is answered first of all, after a handshake, bare or in its envelope, without an upstream."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        bare = [await _raw(host, "server/discover", {}, "bare first", None)]
        modern = [await host.request("server/discover", revision=LATEST_MODERN)]
        await host.initialize(V2024_11_05)
        bare.append(await _raw(host, "server/discover", {}, "bare later", V2024_11_05))
        modern.append(await host.request("server/discover", revision=LATEST_MODERN))
        for answer in bare + modern:
            assert answer.result["supportedVersions"] == list(SUPPORTED)
            assert {"prompts", "resources", "tools"} <= answer.result["capabilities"].keys()
        for answer in modern:
            assert answer.result["resultType"] == "complete"
            assert answer.result["ttlMs"] >= 0
            assert answer.result["cacheScope"] in ("public", "private")
            assert answer.result["_meta"][SERVER_INFO]["name"] == "mcpx"
    assert one.starts == []


async def test_lv_26_the_versions_are_listed_alike_everywhere(stage: Stage) -> None:
    """supportedVersions, the modern version and then the legacy ones, newest first, is also what -32022 carries."""
    async with stage.mcpx(stage.upstream("one")) as host:
        result = (await host.open(LATEST_MODERN)).result
        refused = await host.request("server/discover", meta={PROTOCOL_VERSION: "2030-01-01"})
        assert result["supportedVersions"] == refused.error["data"]["supported"] == [LATEST_MODERN, *LEGACY]
        assert "protocolVersions" not in result


async def test_lv_33_the_era_is_chosen_per_request(stage: Stage) -> None:
    """On one pipe legacy and modern requests are served beside each other, each in its own form."""
    hold = [{"hold": "gate"}, {"result": {"content": [], "structuredContent": [1]}}]
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": hold})
    async with stage.mcpx(one) as host:
        await host.request("tools/list", revision=LATEST_MODERN)
        early = await host.start("tools/call", {"name": "one__echo"}, revision=LATEST_MODERN)
        await host.initialize(V2025_06_18)
        legacy = await host.start("tools/call", {"name": "one__echo"})
        modern = await host.start("tools/call", {"name": "one__echo"}, revision=LATEST_MODERN)
        await one.happened("held", 3)
        await one.release("gate")
        for asked in (early, modern):
            result = (await asked.wait()).result
            assert result["resultType"] == "complete"
            assert result["structuredContent"] == [1]
        assert (await legacy.wait()).result == {"content": [{"type": "text", "text": "[1]"}]}
        assert "resultType" not in (await host.request("tools/list")).result


async def test_lv_34_ping_is_answered_to_legacy_peers_only(stage: Stage) -> None:
    """ping gets {} from a host of any legacy revision or none, and -32601 in a modern envelope."""
    async with stage.mcpx(stage.upstream("one")) as host:
        assert (await host.request("ping")).result == {}
        for revision in LEGACY:
            await host.initialize(revision)
            assert (await host.request("ping")).result == {}
            assert (await host.request("ping", revision=LATEST_MODERN)).code == -32601


async def test_lv_34_ping_of_an_upstream_is_answered(stage: Stage) -> None:
    """A legacy upstream that pings, at once after the handshake and within a call, gets {}; its call goes on."""
    ping = {"ask": {"method": "ping", "id": "p"}}
    one = stage.upstream("one", calls={"echo": [ping, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        assert (await host.call("one__echo")).result["content"]
    answers = [line.frame for line in one.received() if "method" not in line.frame]
    assert answers == [{"jsonrpc": "2.0", "id": "p", "result": {}}]


async def test_lv_35_neither_modern_nor_idle_upstreams_are_pinged(stage: Stage) -> None:
    """A modern upstream gets no ping while it is busy or idle, a legacy one none while it is idle."""
    old = stage.upstream("old")
    new = stage.upstream("new", LATEST_MODERN, calls={"echo": [{"hold": "gate"}, {"answer": True}]})
    async with stage.mcpx(old, new) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        busy = await host.start("tools/call", {"name": "new__echo"})
        await new.happened("held")
        await trio.sleep(1)  # the time in which nothing may happen
        await new.release("gate")
        await busy.wait()
    assert "ping" not in old.methods() + new.methods()


@pytest.mark.parametrize("upstream", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_36_result_type_is_on_every_modern_result_and_no_other(stage: Stage, upstream: str) -> None:
    """Every result to a modern host says complete, whatever the upstream's era; no legacy host sees the field."""
    one = stage.upstream("one", upstream, prompts=[PROMPT], resources=[RESOURCE], completes={})
    async with stage.mcpx(one) as host:
        for revision in REVISIONS:
            await host.open(revision)
            for method, params in EVERY_REQUEST:
                result = (await host.request(method, params)).result
                assert result.get("resultType") == ("complete" if is_modern(revision) else None), method


async def test_lv_36_an_absent_result_type_means_complete(stage: Stage) -> None:
    """A modern upstream that forgets resultType is understood."""
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": [{"raw": '{"content":[]}'}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        assert (await host.call("one__echo")).result["resultType"] == "complete"
        assert (await host.call("one__echo", revision=None)).result == {"content": []}


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_36_a_question_of_a_kind_that_was_not_declared_is_an_error(stage: Stage, revision: str) -> None:
    """input_required with what the host did not declare is invalid: the host gets an error, and is asked nothing."""
    questions = {"q": {"method": "roots/list"}}
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": [{"require": {"questions": questions, "state": "s"}}]})
    async with stage.mcpx(one) as host:
        await host.open(revision, {"elicitation": {}})
        await host.names()
        error = (await host.call("one__echo")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"
        assert "roots/list" in error["data"]["reason"]
    assert host.requests == []
    assert len(one.received("tools/call")) == 1


@pytest.mark.parametrize("value", ['"task"', '"Complete"', '""', "7"])
async def test_lv_36_an_unknown_result_type_is_an_error(stage: Stage, value: str) -> None:
    """A result whose resultType mcpx does not know reaches no host; the error names the server and the value."""
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": [{"raw": f'{{"content":[],"resultType":{value}}}'}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        for revision in (LATEST_LEGACY, LATEST_MODERN):
            error = (await host.call("one__echo", revision=revision)).error
            assert error["code"] == -32603
            assert error["data"]["server"] == "one"
            assert value.strip('"') in error["data"]["reason"]


async def test_lv_36_input_is_required_by_three_methods_only(stage: Stage) -> None:
    """input_required on a list or a completion is invalid: an error for the completion, a list without that server."""
    needs = [{"raw": '{"resultType":"input_required","requestState":"s"}'}]
    bad = stage.upstream(
        "bad", LATEST_MODERN, prompts=[PROMPT], completes={}, on={"completion/complete": needs, "tools/list": needs}
    )
    good = stage.upstream("good")
    ref = {"ref": {"type": "ref/prompt", "name": "bad__greet"}, "argument": {"name": "who", "value": "a"}}
    async with stage.mcpx(bad, good) as host:
        await host.open(LATEST_MODERN)
        assert await host.names() == ["good__echo"]
        await host.all_items("prompts/list", "prompts")
        error = (await host.request("completion/complete", ref)).error
        assert error["code"] == -32603
        assert "completion/complete" in error["data"]["reason"]


async def test_lv_37_ids_are_never_reused_upstream(stage: Stage) -> None:
    """Over many calls, cancelled ones among them, each request of a connection has an integer id of its own."""
    one = stage.upstream("one", tools=[TOOL, {**TOOL, "name": "slow"}], calls={"slow": []})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for number in range(20):
            slow = await host.start("tools/call", {"name": "one__slow"}, id="same id")
            await one.got("tools/call", 2 * number + 1)
            await host.cancel(slow)
            await host.call("one__echo", id="same id, too")
    ids = [line.frame["id"] for line in one.received() if "id" in line.frame]
    assert len(set(ids)) == len(ids) >= 40
    assert all(type(ident) is int for ident in ids)


SPELLINGS = ["0", '"0"', "-1", "9007199254740993", "123456789012345678901234567890", '""', '"é"', '"\\u00e9x"', '"1"']


async def test_lv_37_ids_are_echoed_exactly(stage: Stage) -> None:
    """A host's id comes back in its JSON type and its very spelling, on results and errors, from mcpx and upstreams."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(LATEST_LEGACY)
        await host.names()
        for method, params in [
            ("ping", "{}"),
            ("no/such", "{}"),
            ("tools/call", '{"name":"one__echo"}'),
            ("tools/call", '{"name":"nobody"}'),
        ]:
            for spelt in SPELLINGS:
                frame = f'{{"jsonrpc":"2.0","id":{spelt},"method":"{method}","params":{params}}}'
                asked = host.expect(json.loads(frame), LATEST_LEGACY)
                await host.send_raw(frame.encode() + b"\n")
                assert f'"id":{spelt},'.encode() in (await asked.wait()).raw


async def test_lv_37_a_number_and_a_string_are_two_requests(stage: Stage) -> None:
    """1 and "1" may be in flight at once, and each gets its own answer."""
    one = stage.upstream("one", calls={"echo": [{"hold": "gate"}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.initialize(LATEST_LEGACY, id=0)
        await host.names(id=0)
        first = await host.start("tools/call", {"name": "one__echo", "arguments": {"n": 1}}, id=1)
        second = await host.start("tools/call", {"name": "one__echo", "arguments": {"n": "1"}}, id="1")
        await one.happened("held", 2)
        await one.release("gate")
        assert (await first.wait()).result["content"][0]["text"] == 'echo {"n": 1}'
        assert (await second.wait()).result["content"][0]["text"] == 'echo {"n": "1"}'


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_37_an_id_in_flight_is_refused(stage: Stage, revision: str) -> None:
    """A second request with an id in flight is -32600, and the first is answered all the same (HTTP: with HTTP)."""
    one = stage.upstream("one", calls={"echo": [{"hold": "gate"}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(revision)
        await host.names()
        refused, second = host.prepare("tools/list", id="twice")
        called, first = host.prepare("tools/call", {"name": "one__echo"}, id="twice")
        await host.send(first)
        await one.happened("held")
        await host.send(second)
        assert (await refused.wait()).code == -32600
        await one.release("gate")
        assert (await called.wait()).result["content"]
        assert (await host.request("tools/list", id="twice")).result["tools"]


async def test_lv_37_requests_to_a_host_cannot_be_taken_for_its_own(stage: Stage) -> None:
    """What mcpx asks has ids of its own, strings that are the same neither as the host's in flight nor as the server's,
    and the server gets its answers under the ids that it gave, with their type.
    """
    ask = [{"ask": {"method": "roots/list", "id": id}} for id in (1, "1", "mcpx-1")]
    one = stage.upstream("one", calls={"echo": [*ask, {"told": True}]})
    async with stage.mcpx(one) as host:
        host.answers["roots/list"] = {"roots": []}
        await host.initialize(LATEST_LEGACY, {"roots": {}})
        await host.names()
        for id in (1, "mcpx-1", "1"):
            await host.call("one__echo", id=id)
            await host.request("ping", id=1)
    ids = [question.frame["id"] for question in host.requests]
    assert len(ids) == len(set(ids)) >= 3
    assert all(isinstance(id, str) for id in ids)
    answered = [line.frame["id"] for line in one.received() if "method" not in line.frame]
    assert answered[:3] == [1, "1", "mcpx-1"]
    assert host.strays == []


NOTIFICATIONS: list[dict[str, Any]] = [
    {"method": "notifications/roots/list_changed"},
    {"method": "notifications/progress", "params": {"progressToken": "no one's", "progress": 1}},
    {"method": "notifications/cancelled", "params": {"requestId": "no one's"}},
    {"method": "notifications/cancelled", "params": {}},
    {"method": "notifications/cancelled"},
    {"method": "notifications/cancelled", "params": []},
    {"method": "notifications/no/such"},
    {"method": "no/such"},
    {"method": "tools/call", "params": {"name": "one__echo"}},
    {"method": "tools/list"},
    {"method": "initialize", "params": {"protocolVersion": LATEST_LEGACY}},
    {"method": "ping"},
    {"method": "x", "params": 7},
    {"method": "x", "params": None},
    {"method": "notifications/x", "params": {"_meta": {PROTOCOL_VERSION: LATEST_MODERN}}},
    {"method": ""},
]


@pytest.mark.parametrize("revision", [None, *REVISIONS])
async def test_sub_18_a_notification_never_gets_a_response(stage: Stage, revision: str | None) -> None:
    """Whatever a notification says, known or not, well formed or not, no frame answers it (on HTTP 202: with HTTP)."""
    async with stage.mcpx(stage.upstream("one")) as host:
        if revision is not None:
            await host.open(revision)
        before = len(host.received)
        for notification in NOTIFICATIONS:
            await host.send({"jsonrpc": "2.0", **notification})
        await host.fence()
    assert len(host.received) == before + 1


async def test_sub_18_a_notification_of_an_upstream_gets_none_either(stage: Stage) -> None:
    """Unknown and malformed notifications of an upstream are neither answered nor in the way."""
    notes = [{"notify": {"method": "notifications/no/such"}}, {"notify": {"method": "x", "params": {"a": 1}}}]
    raw = [{"stdout": '{"jsonrpc":"2.0","method":"notifications/progress","params":7}\n'}]
    one = stage.upstream("one", calls={"echo": [*notes, *raw, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        assert (await host.call("one__echo")).result["content"]
    assert "(answer)" not in one.methods()
