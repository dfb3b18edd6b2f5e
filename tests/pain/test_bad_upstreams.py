"""What a careless upstream says: understood where it can be, and otherwise the loss of what it was about, alone."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS
from tests.support.scripted import RESOURCE, TOOL

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

ERAS = [LATEST_LEGACY, LATEST_MODERN]
LISTS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]


def _through(stage: Stage, upstream: Scripted) -> AbstractAsyncContextManager[Host]:
    """One upstream in pass-through."""
    return stage.play([sys.executable, "-m", "mcpx", "serve", "--", *upstream.command], upstream)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("declared", "offered"),
    [
        ({"tools": True}, True),
        ({"tools": []}, True),  # how PHP writes an empty object
        ({"tools": {"listChanged": "yes"}, "prompts": 5, "resources": []}, True),
        ({"tools": {}, "experimental": [], "extensions": {"org.example/x": True}}, True),
        ({"tools": None, "prompts": False}, False),
        ([], False),
        (None, False),
    ],
)
async def test_bad_capabilities_harm_nobody(stage: Stage, revision: str, declared: Any, offered: bool) -> None:
    """A capability that is no object is declared all the same, unless it is null or false."""
    one = stage.upstream("one", revision, capabilities=declared)
    async with stage.mcpx(one, stage.upstream("two")) as host:
        await host.open(LATEST_LEGACY)
        for method in LISTS:
            assert (await host.request(method)).result
        assert await host.names() == (["one__echo"] if offered else []) + ["two__echo"]
        assert ("result" in (await host.call("one__echo")).frame) is offered


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    "said",
    [
        {"capabilities": {"tools": True, "prompts": None, "experimental": {"x": 1}}},
        {"capabilities": {"tools": {"listChanged": "yes"}}},
        {"capabilities": []},
        {"info": None},
        {"info": {"name": "nameless"}},
        {"info": "me"},
        {"info": {"name": "fake-one", "version": "1", "title": None, "icons": None}},
        {"instructions": None},
        {"instructions": ["do", "this"]},
    ],
    ids=str,
)
async def test_bad_identities_are_as_if_unsaid(stage: Stage, revision: str, said: dict[str, Any]) -> None:
    """What a server says of itself and makes no sense costs nothing but itself; mcpx's own name stands in."""
    one = stage.upstream("one", revision, **said)
    async with _through(stage, one) as host:
        answer = (await host.initialize(LATEST_LEGACY)).result
        useful = "info" not in said or "version" in (said["info"] or {})
        assert answer["serverInfo"]["name"] == ("fake-one" if useful else "mcpx")
        assert "instructions" not in answer
        discovered = (await host.request("server/discover", revision=LATEST_MODERN)).result
        assert discovered["_meta"][SERVER_INFO]["name"] == answer["serverInfo"]["name"]
        if "capabilities" not in said:
            assert await host.names() == ["echo"]


ONE = '{"name":"echo","inputSchema":{"type":"object"}}'


@pytest.mark.parametrize(
    "page",
    [
        f'{{"tools":[{ONE}],"ttlMs":1e999}}',
        f'{{"tools":[{ONE}],"ttlMs":{"9" * 400}}}',
        f'{{"tools":[{ONE}],"ttlMs":1e308,"cacheScope":"public"}}',
        f'{{"tools":[{ONE}],"ttlMs":true,"cacheScope":5,"nextCursor":[1e999]}}',
        f'{{"tools":[{ONE}],"ttlMs":-1,"nextCursor":null}}',
        f'{{"tools":[5,null,{{"name":5}},{{"name":""}},[],{ONE}]}}',
    ],
)
async def test_bad_members_of_a_list_cost_only_themselves(stage: Stage, page: str) -> None:
    """Whatever stands in the members of a page, its items are listed, and the process goes on."""
    one = stage.upstream("one", LATEST_MODERN, on={"tools/list": [{"raw": page}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        assert await host.names() == ["one__echo"]
        assert (await host.call("one__echo")).result["content"]


@pytest.mark.parametrize("payload", ["5", "null", "[]", '"x"', "{}", '{"tools":{}}', '{"tools":null}'])
@pytest.mark.parametrize("revision", ERAS)
async def test_bad_lists_are_that_servers_loss(stage: Stage, revision: str, payload: str) -> None:
    """A list that is none is left out, and the log says whose."""
    one = stage.upstream("one", revision, on={"tools/list": [{"raw": payload}]})
    async with stage.mcpx(one, stage.upstream("two")) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["two__echo"]
        assert "tools/list" in await host.logged("[one] its tools could not be listed")


SPOILT = {
    "not JSON": '{"content":[],"n":NaN}',
    "not UTF-8": '{"content":[],"n":"\ud800"}',
    "no object": "5",
    "null": "null",
    "a list": "[]",
    "a string": '"x"',
}


@pytest.mark.parametrize("revision", ERAS)
async def test_bad_answers_end_their_call_at_once(stage: Stage, revision: str) -> None:
    """An answer that cannot be read, or is none, is an error for its request at once, which names the server."""
    tools = [{**TOOL, "name": name} for name in ("echo", *SPOILT)]
    one = stage.upstream(
        "one", revision, tools=tools, calls={name: [{"raw": payload}] for name, payload in SPOILT.items()}
    )
    async with _through(stage, one) as host:
        for host_revision in ERAS:
            await host.open(host_revision)
            for name in SPOILT:
                error = (await host.call(name, within=3)).error
                assert error["code"] == -32603
                assert error["data"]["reason"]
            assert (await host.call("echo")).result["content"]
    assert len(one.starts) == 1


@pytest.mark.parametrize("revision", ERAS)
async def test_bad_noise_on_the_line_of_an_answer_is_cut_off(stage: Stage, revision: str) -> None:
    """A banner without a newline, before the first answer or a later one, costs nothing; it is shown as noise."""
    banner = {"stdout": "Welcome to {one}! "}
    opening = {method: [banner, {"answer": True}] for method in ("server/discover", "initialize")}
    one = stage.upstream("one", revision, on=opening, calls={"echo": [banner, {"answer": True}]})
    async with stage.mcpx(one, audit=False) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        assert (await host.call("one__echo", within=3)).result["content"]
        assert "[one]" in await host.logged("skipped: Welcome to {one}! ")


async def test_bad_answers_of_both_kinds_are_read_by_what_is_not_null(stage: Stage) -> None:
    """As JSON-RPC 1.0 had it: a null error beside the result, a null result beside the error."""
    calls = {
        "fine": [{"raw": '{"content":[]},"error":null'}],
        "failed": [{"raw": 'null,"error":{"code":-7,"message":"no"}'}],
        "both": [{"raw": '{"content":[]},"error":{"code":-7,"message":"no"}'}],
    }
    one = stage.upstream("one", tools=[{**TOOL, "name": name} for name in calls], calls=calls)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert (await host.call("one__fine", within=3)).result == {"content": []}
        assert (await host.call("one__failed", within=3)).error == {"code": -7, "message": "no"}
        assert (await host.call("one__both", within=3)).error["data"]["server"] == "one"


@pytest.mark.parametrize(
    "asking",
    [
        {"inputRequests": 5, "requestState": "s"},
        {"inputRequests": {}, "requestState": 5},
        {"inputRequests": [], "requestState": None},
        {},
    ],
    ids=str,
)
async def test_bad_questions_are_the_servers_fault(stage: Stage, asking: dict[str, Any]) -> None:
    """A malformed input_required is an error that names the server, at once; the host's request was not wrong."""
    ask = [{"raw": json.dumps({"resultType": "input_required", **asking})}]
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": ask})
    async with stage.mcpx(one) as host:
        for revision in ERAS:
            await host.open(revision)
            error = (await host.call("one__echo")).error
            assert error["code"] == -32603
            assert error["data"]["server"] == "one"
    assert len(one.received("tools/call")) == 2


async def test_bad_params_of_a_notification_may_be_null(stage: Stage) -> None:
    """A notification with null instead of params counts as any other."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        method = "notifications/tools/list_changed"
        await one.do({"stdout": json.dumps({"jsonrpc": "2.0", "method": method, "params": None}) + "\n"})
        await host.notified(method)


@pytest.mark.parametrize("params", [None, [], [1], "x", {}], ids=str)
async def test_bad_params_of_a_ping_get_an_answer(stage: Stage, params: Any) -> None:
    """An upstream's request is answered whatever its params are: else it would wait for ever."""
    one = stage.upstream("one", calls={"echo": [{"ask": {"method": "ping", "params": params}}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert (await host.call("one__echo", within=4)).result["content"]


async def test_bad_timing_of_a_ping_gets_an_answer(stage: Stage) -> None:
    """A server may ping before it answers the handshake, and wait for the pong (2025-11-25 lifecycle)."""
    one = stage.upstream("one", on={"initialize": [{"ask": {"method": "ping"}}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]


BAD_PROGRESS = [{"progress": None}, {"progress": "half"}, {"progress": True}, {"total": "many"}, {"message": 5}]


@pytest.mark.parametrize("host_revision", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_bad_progress_costs_no_call(stage: Stage, revision: str, host_revision: str) -> None:
    """Progress that the schema does not have is not passed on; odd metadata in it is dropped; the call goes on."""
    odd = [{"progress": {"params": params}} for params in [{"_meta": None}, {"_meta": 5}, *BAD_PROGRESS]]
    one = stage.upstream("one", revision, calls={"echo": [*odd, {"progress": {}}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(host_revision)
        asked = await host.start("tools/call", {"name": "one__echo"}, meta={"progressToken": "t"})
        assert (await asked.wait()).result["content"]
        assert [one.params["progress"] for one in asked.progress] == [1, 2, 8]


@pytest.mark.parametrize("revision", ERAS)
async def test_bad_errors_are_said_as_the_revision_has_them(stage: Stage, revision: str) -> None:
    """A code that the revision reserves comes only with what it asks for; otherwise it is -32603."""
    errors: dict[str, Any] = {
        "capability": {"code": -32021, "message": "no data"},
        "visit": {"code": -32042, "message": "no data"},
        "visits": {"code": -32042, "message": "odd data", "data": {"elicitations": 5}},
        "missing": {"code": -32002, "message": "not here"},
        "huge": '{"code":123456789012345678901234567890,"message":"m"}',
        "text": '"boom"',
        "null": "null",
    }
    one = stage.upstream(
        "one",
        revision,
        tools=[{**TOOL, "name": name} for name in errors],
        calls={name: [{"error": error}] for name, error in errors.items()},
    )
    async with stage.mcpx(one) as host:
        for host_revision in ERAS:
            await host.open(host_revision)
            codes = {name: (await host.call(f"one__{name}")).code for name in errors}
            assert codes["text"] == codes["null"] == codes["capability"] == codes["visit"] == codes["visits"] == -32603
            assert codes["missing"] == (-32603 if host_revision == LATEST_MODERN else -32002)


@pytest.mark.parametrize("revision", ERAS)
async def test_bad_hints_for_caches_are_made_good(stage: Stage, revision: str) -> None:
    """A modern host gets a ttlMs and a cacheScope that make sense, whatever the server wrote."""
    odd = [
        '"ttlMs":"x","cacheScope":5',
        '"ttlMs":-1',
        '"ttlMs":null,"cacheScope":null',
        '"ttlMs":1.5',
        '"ttlMs":1e999',
    ]
    good = '"ttlMs":7,"cacheScope":"public"'
    reads = {f"a:{n}": [{"raw": f'{{"contents":[],{hint}}}'}] for n, hint in enumerate([good, *odd])}
    one = stage.upstream("one", revision, resources=[{"uri": uri, "name": uri} for uri in reads], reads=reads)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        said = [(await host.request("resources/read", {"uri": f"mcpx://one/{uri}"})).result for uri in reads]
    kept = (7, "public") if revision == LATEST_MODERN else (0, "private")
    assert [(one["ttlMs"], one["cacheScope"]) for one in said] == [kept, *[(0, "private")] * len(odd)]


@pytest.mark.parametrize("host_revision", REVISIONS)
@pytest.mark.parametrize("revision", ERAS)
async def test_bad_reserved_keys_in_a_result_go_no_further(stage: Stage, revision: str, host_revision: str) -> None:
    """Keys in the metadata of a result that belong to other messages, or to another hop, are not passed on."""
    theirs = dict.fromkeys((SUBSCRIPTION_ID, SERVER_INFO, PROTOCOL_VERSION, CLIENT_INFO), "theirs")
    result: dict[str, Any] = {"content": [], "_meta": {**theirs, "mine": 1.0, "org.example/b": 2}}
    one = stage.upstream("one", revision, calls={"echo": [{"result": result}]})
    async with stage.mcpx(one) as host:
        await host.open(host_revision)
        said = (await host.call("one__echo")).result["_meta"]
    assert {key for key in said if key != SERVER_INFO} == {"mine", "org.example/b"}
    assert said.get(SERVER_INFO, {}).get("name") == ("mcpx" if host_revision == LATEST_MODERN else None)


async def test_bad_items_do_not_poison_the_list(stage: Stage) -> None:
    """What all revisions require is filled in, and null is as if unsaid: strict hosts take a list whole or not."""
    tools: list[dict[str, Any]] = [
        {"name": "bare"},
        {"name": "nulls", "title": None, "description": None, "inputSchema": None, "annotations": None, "icons": None},
        {"name": "untyped", "inputSchema": {"properties": {}}},
        {"name": "odd", "inputSchema": True, "outputSchema": None},
    ]
    resources = [{"uri": "a:/b"}, {**RESOURCE, "mimeType": None}]
    one = stage.upstream("one", tools=tools, resources=resources, templates=[{"uriTemplate": "a:/{x}"}])
    async with stage.mcpx(one, stage.upstream("two")) as host:
        for revision in ERAS:
            await host.open(revision)
            assert len(await host.all_items("tools/list", "tools")) == 5
            assert len(await host.all_items("resources/list", "resources")) == 2
            assert len(await host.all_items("resources/templates/list", "resourceTemplates")) == 1


async def test_bad_patience_is_no_unknown_tool(stage: Stage) -> None:
    """A call to a server that is still starting, when the wait for its list is over, says so instead of -32602."""
    slow = stage.upstream("slow", on={"server/discover": [{"hold": "never"}], "initialize": [{"hold": "never"}]})
    async with stage.mcpx(slow, stage.upstream("two"), limits={"listTimeout": 0.5}) as host:
        await host.open(LATEST_LEGACY)
        error = (await host.call("slow__echo")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "slow"
