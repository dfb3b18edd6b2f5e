"""Kinds 14, 16 and 17: pages, schemas, storms of changes; and the near misses that concern lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS, is_modern
from tests.support.scripted import PROMPT, RESOURCE, TEMPLATE, TOOL

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

LISTS = [
    ("tools/list", "tools", "tools", [{**TOOL, "name": f"t{n}"} for n in range(10)]),
    ("prompts/list", "prompts", "prompts", [{**PROMPT, "name": f"p{n}"} for n in range(10)]),
    ("resources/list", "resources", "resources", [{**RESOURCE, "uri": f"file:///{n}"} for n in range(10)]),
    (
        "resources/templates/list",
        "resourceTemplates",
        "templates",
        [{**TEMPLATE, "uriTemplate": f"file:///{n}/{{x}}"} for n in range(10)],
    ),
]
EVERYTHING: dict[str, Any] = {key: items for _, _, key, items in LISTS}
CHANGED = {"notify": {"method": "notifications/tools/list_changed"}}


def tools(*names: str) -> list[dict[str, Any]]:
    return [{**TOOL, "name": name} for name in names]


@pytest.mark.parametrize("cursors", ["offset", "empty", "cycle"])
@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_pain_14_every_page_is_read_once(stage: Stage, revision: str, cursors: str) -> None:
    """All pages of all four lists are followed, behind an empty cursor too; a circle ends without doubles."""
    one = stage.upstream("one", revision, pageSize=3, cursors=cursors, **EVERYTHING)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        for method, member, _, items in LISTS:
            assert len(await host.all_items(method, member)) == len(items)
    for method, *_ in LISTS:
        asked = [line.frame.get("params", {}).get("cursor") for line in one.received(method)]
        assert len(asked) <= 6
        assert asked[:2] == [None, "" if cursors == "empty" else "3"]


async def test_pain_14_an_endless_list_has_an_end(stage: Stage) -> None:
    """A server that always has a next page is read up to maxPages; what was read is there, and the log says so."""
    one = stage.upstream("one", cursors="endless", entry={"limits": {"maxPages": 20}})
    async with stage.mcpx(one, stage.upstream("two")) as host:
        await host.open(LATEST_LEGACY)
        names = await host.names()
        assert len(names) == 21
        assert names[-1] == "two__echo"
        assert "one" in await host.logged("maxPages")
    assert len(one.received("tools/list")) == 20


async def test_pain_14_a_failing_page_costs_its_server_only(stage: Stage) -> None:
    """An error on the second page leaves that server's list out, and says so; the others are there."""
    failing = {"times": [[{"answer": True}], [{"error": {"code": -32603, "message": "no second page"}}]]}
    one = stage.upstream("one", pageSize=3, tools=LISTS[0][3], on={"tools/list": failing})
    async with stage.mcpx(one, stage.upstream("two")) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["two__echo"]
        assert "one" in await host.logged("no second page")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_pain_14_hosts_get_pages_of_their_own(stage: Stage, revision: str) -> None:
    """A merged list is cut by pageSize; opaque cursors lead through it, each item once, in the order there is."""
    one = stage.upstream("one", **EVERYTHING)
    two = stage.upstream("two", LATEST_MODERN, **EVERYTHING, pageSize=4)
    async with stage.mcpx(one, two, limits={"pageSize": 7}) as host:
        await host.open(revision)
        for method, member, _, items in LISTS:
            found = await host.all_items(method, member)
            assert len({json.dumps(item) for item in found}) == len(found) == 2 * len(items)
            first = (await host.request(method)).result
            assert len(first[member]) == 7
            assert found[:7] == first[member]
        assert await host.names() == [f"{server}__t{n}" for server in ("one", "two") for n in range(10)]


async def test_pain_14_cursors_stay_good_while_upstreams_change(stage: Stage) -> None:
    """Between two pages an upstream adds and removes tools; what stayed is neither given twice nor left out."""
    one = stage.upstream("one", tools=tools(*"abcdefgh"))
    two = stage.upstream("two", tools=tools(*"uvwxyz"))
    async with stage.mcpx(one, two, limits={"pageSize": 4}) as host:
        await host.open(LATEST_LEGACY)
        page = (await host.request("tools/list")).result
        assert [tool["name"] for tool in page["tools"]] == ["one__a", "one__b", "one__c", "one__d"]
        await one.set(tools=tools("new1", "a", "c", "d", "new2", *"efgh"))  # one before, one after; b is gone
        await one.do(CHANGED)
        await host.notified("notifications/tools/list_changed")
        await host.names()  # another host's refresh, so to speak: the catalogue is the new one now
        rest: list[str] = []
        while "nextCursor" in page:
            page = (await host.request("tools/list", {"cursor": page["nextCursor"]})).result
            rest += [tool["name"] for tool in page["tools"]]
        assert rest == [f"one__{name}" for name in ("new2", *"efgh")] + [f"two__{name}" for name in "uvwxyz"]


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_pain_14_a_bad_cursor_is_an_error(stage: Stage, revision: str) -> None:
    """A cursor that mcpx never gave out, of another list, altered, or no string, is -32602."""
    one = stage.upstream("one", **EVERYTHING)
    async with stage.mcpx(one, limits={"pageSize": 4}) as host:
        await host.open(revision)
        good = (await host.request("tools/list")).result["nextCursor"]
        of_another = (await host.request("prompts/list")).result["nextCursor"]
        for bad in ["", "3", "x" * 10_000, good + "x", good[:-1], of_another, 3, ["a"], {"a": 1}, True]:
            answer = await host.request("tools/list", {"cursor": bad})
            assert answer.code == -32602, bad
        assert (await host.request("tools/list", {"cursor": good})).result["tools"]


async def test_pain_14_the_cursors_of_an_upstream_stay_its_own(stage: Stage) -> None:
    """An upstream never gets a cursor that it did not give out, and a host never one of an upstream's."""
    one = stage.upstream("one", pageSize=3, tools=LISTS[0][3])
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert "nextCursor" not in (await host.request("tools/list")).result
        assert (await host.request("tools/list", {"cursor": "3"})).code == -32602
    assert {line.frame.get("params", {}).get("cursor") for line in one.received("tools/list")} == {None, "3", "6", "9"}


def _expanding(depth: int) -> dict[str, Any]:
    """Definitions that would expand to 2 ** depth copies."""
    levels = {f"l{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(depth)}
    return {**levels, f"l{depth}": {"type": "string"}}


async def test_pain_16_schemas_pass_as_they_are(stage: Stage) -> None:
    """References, cycles, dangling and remote ones, unions at the top, explosive definitions: relayed, none fetched."""
    fetched: list[str] = []

    async def fetch(stream: trio.SocketStream) -> None:
        fetched.append("connected")
        await stream.aclose()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    schemas: dict[str, dict[str, Any]] = {
        "defs": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "integer"}}},
        "cycle": {"type": "object", "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
        "dangling": {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        "remote": {"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{port}/schema.json"}}},
        "union": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "anyOf": [{}, True]},
        "loose": {"type": "object", "properties": {"list": {"type": "array"}, "any": {}}},
        "huge": {"type": "object", "$defs": _expanding(30), "properties": {"a": {"$ref": "#/$defs/l0"}}},
        "numbers": {"type": "object", "properties": {"a": {"minimum": 1.0, "maximum": 12345678901234567890}}},
        "dialect": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "id": "x"},
        "bare": {"type": "object"},
    }
    one = stage.upstream("one", tools=[{"name": name, "inputSchema": schema} for name, schema in schemas.items()])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, fetch, listeners)
        async with stage.mcpx(one) as host:
            for revision in REVISIONS:
                await host.open(revision)
                listed = await host.request("tools/list")
                found = {tool["name"].removeprefix("one__"): tool["inputSchema"] for tool in listed.result["tools"]}
                assert found == schemas
                assert b'"minimum": 1.0, "maximum": 12345678901234567890' in listed.raw
                for name in schemas:
                    assert (await host.call(f"one__{name}", {"a": 1})).result["content"]
        nursery.cancel_scope.cancel()
    assert fetched == []


async def test_pain_16_a_malformed_item_costs_itself_only(stage: Stage) -> None:
    """Items without a usable name, or that are no objects, are left out and told; the rest of the list stands."""
    odd = [{"inputSchema": {"type": "object"}}, {"name": 7, "inputSchema": {}}, {"name": ""}, "text", 5, None, [TOOL]]
    one = stage.upstream("one", tools=[TOOL, *odd, {**TOOL, "name": "last"}])
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo", "one__last"]
        assert "one" in await host.logged("no name")


async def test_pain_17_a_storm_of_changes_is_few(stage: Stage) -> None:
    """Two hundred notifications at once cost a few list calls and a few notifications, and the last one counts."""
    one = stage.upstream("one", tools=tools("before"), prompts=[PROMPT])
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__before"]
        await one.do({"cork": [*[CHANGED] * 199, {"set": {"tools": tools("after")}}, CHANGED]})
        await host.notified("notifications/tools/list_changed")
        assert await host.names() == ["one__after"]
        await host.fence()
        assert len(one.received("tools/list")) <= 6
        assert len(host.notifications) <= 20
        assert {note.method for note in host.notifications} == {"notifications/tools/list_changed"}


async def test_pain_17_a_server_that_notifies_while_it_lists(stage: Stage) -> None:
    """A notification from inside every list handler loops for ever nowhere, and hosts are not told of nothing."""
    one = stage.upstream("one", on={"tools/list": [CHANGED, {"answer": True}, CHANGED]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        for _ in range(5):
            assert await host.names() == ["one__echo"]
        await host.fence()
        assert len(one.received("tools/list")) <= 15
        assert len(host.notifications) <= 10


async def test_pain_17_the_last_change_is_never_lost(stage: Stage) -> None:
    """A change that comes together with the answer of the list before it is told, whatever came before it."""
    last = [{"answer": True}, {"set": {"tools": tools("new")}}, CHANGED]
    steps = {"times": [[CHANGED, {"answer": True}], [{"cork": last}], [{"answer": True}]]}
    one = stage.upstream("one", tools=tools("old"), on={"tools/list": steps})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await host.notified("notifications/tools/list_changed")
        assert await host.names() == ["one__new"]


async def test_pain_17_only_what_changed_is_told(stage: Stage) -> None:
    """Each kind of change is told by its own notification, to a legacy host that was promised it."""
    one = stage.upstream("one", prompts=[PROMPT], resources=[RESOURCE])
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for kind in ("prompts", "resources", "tools"):
            method = f"notifications/{kind}/list_changed"
            await one.do({"notify": {"method": method}})
            await host.notified(method)
        assert len(host.notifications) == 3


async def _read(host: Host, uri: str) -> str:
    return (await host.request("resources/read", {"uri": uri})).result["contents"][0]["text"]


async def test_near_resources_of_several_can_be_read(stage: Stage) -> None:
    """With a second upstream both can be read, by prefix, by their own URI, and through a template."""
    one = stage.upstream("one", resources=[RESOURCE], templates=[TEMPLATE])
    two = stage.upstream("two", LATEST_MODERN, resources=[{**RESOURCE, "uri": "other:/x"}])
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_LEGACY)
        listed = [item["uri"] for item in await host.all_items("resources/list", "resources")]
        assert listed == ["mcpx://one/file:///notes.txt", "mcpx://two/other:/x"]
        for uri in (*listed, "file:///notes.txt", "other:/x", "file:///logs/7.txt", "mcpx://one/file:///logs/7.txt"):
            assert (await _read(host, uri)).endswith(uri.removeprefix("mcpx://one/").removeprefix("mcpx://two/"))


DATA = {"requiredCapabilities": {"sampling": {}}, "supported": [LATEST_MODERN], "requested": "x"}  # fits every code


@pytest.mark.parametrize("host_revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_near_reserved_codes_are_not_passed_on(stage: Stage, host_revision: str) -> None:
    """A code that the specification reserves and does not define becomes -32603 for a modern host, with the code."""
    codes = [-32029, -32020, -32022, -32021, -32099, -32042, -32019, -32000, 5]
    one = stage.upstream(
        "one",
        LATEST_MODERN,
        tools=tools(*[f"c{-code}" for code in codes]),
        calls={f"c{-code}": [{"error": {"code": code, "message": f"m{code}", "data": DATA}}] for code in codes},
    )
    async with stage.mcpx(one) as host:
        await host.open(host_revision)
        await host.names()
        found = {code: (await host.call(f"one__c{-code}")).error for code in codes}
    modern = is_modern(host_revision)
    for code in (-32029, -32099):
        if modern:
            assert found[code]["code"] == -32603
            assert found[code]["data"]["upstreamCode"] == code
        else:
            assert found[code]["code"] == code
    for code in (-32020, -32022):  # about mcpx's own request
        assert found[code]["code"] == -32603
        assert "one" in json.dumps(found[code])
    assert found[-32021]["code"] == (-32021 if modern else -32603)
    assert found[-32021]["data"]["requiredCapabilities"] == DATA["requiredCapabilities"]
    for code in (-32019, -32000, 5):
        assert found[code] == {"code": code, "message": f"m{code}", "data": DATA}
