"""``subscriptions/listen`` on a duplex: the acknowledgement, what follows it, and how a stream ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.host.changes import QUIET
from mcpx.spec.meta import SERVER_INFO, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2025_03_26
from mcpx.upstream.call import Change, Interest
from tests.support.running import in_virtual_time
from tests.unit.host.talk import FakeGateway, open_talk

if TYPE_CHECKING:
    from tests.unit.host.talk import Talk

TOOLS, PROMPTS, RESOURCES = Change("one", "tools"), Change("one", "prompts"), Change("two", "resources")
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
CANCELLED = "notifications/cancelled"


def update(uri: str) -> Change:
    return Change("one", "resources", uri)


async def listen(talk: Talk, id: Any, filter: Any, revision: str | None = LATEST_MODERN) -> None:
    params = {} if filter is None else {"notifications": filter}
    await talk.ask(id, "subscriptions/listen", params, revision=revision)


def notice(method: str, id: Any, **params: Any) -> dict[str, Any]:
    """A notification of a stream, with the stream's id in its metadata."""
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {"_meta": {SUBSCRIPTION_ID: id}, **params}}


def acknowledged(id: Any, filter: Any) -> dict[str, Any]:
    return notice("subscriptions/acknowledged", id, notifications=filter)


def is_end(frame: dict[str, Any], id: Any) -> bool:
    """Whether it is the graceful end of a stream of a modern host."""
    meta = frame["result"]["_meta"]
    assert meta.keys() == {SUBSCRIPTION_ID, SERVER_INFO}
    return frame["id"] == meta[SUBSCRIPTION_ID] == id and frame["result"]["resultType"] == "complete"


@in_virtual_time
async def test_the_acknowledgement_comes_first_and_everything_bears_the_id() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await listen(talk, 1, {**ALL, "resourceSubscriptions": ["a:/b", "a:/b"]})
        assert await talk.hear() == acknowledged(1, {**ALL, "resourceSubscriptions": ["a:/b"]})
        [watch] = gateway.watching
        assert watch.keep
        gateway.change(TOOLS, PROMPTS, RESOURCES, update("a:/b"), update("a:/b/c"), update("a:/x"))
        assert await talk.hear_all() == [
            notice("tools/list_changed", 1),
            notice("prompts/list_changed", 1),
            notice("resources/list_changed", 1),
            notice("resources/updated", 1, uri="a:/b"),
            notice("resources/updated", 1, uri="a:/b/c"),
        ]


@pytest.mark.parametrize(
    ("asked", "lists"),
    [
        ({}, set()),
        ({"toolsListChanged": True}, {"tools"}),
        ({"promptsListChanged": True, "toolsListChanged": False}, {"prompts"}),
        ({"resourcesListChanged": True, "toolsListChanged": None}, {"resources"}),
        ({"taskIds": ["t"], "x": 1, "toolsListChanged": True}, {"tools"}),
    ],
)
@in_virtual_time
async def test_nothing_comes_that_was_not_asked_for(asked: dict[str, Any], lists: set[str]) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await listen(talk, "s", asked)
        assert await talk.hear() == acknowledged("s", {f"{kind}ListChanged": True for kind in lists})
        gateway.change(TOOLS, PROMPTS, RESOURCES, update("a:/b"))
        assert await talk.hear_all() == [notice(f"{kind}/list_changed", "s") for kind in lists]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "tools",
        [],
        {"toolsListChanged": "yes"},
        {"promptsListChanged": 1},
        {"resourceSubscriptions": "a:/b"},
        {"resourceSubscriptions": ["a:/b", 7]},
    ],
)
async def test_a_filter_that_is_none_is_an_error(wrong: Any) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await listen(talk, 1, wrong)
        assert (await talk.hear())["error"]["code"] == -32602
        assert gateway.watching == []


@in_virtual_time
async def test_only_what_will_be_delivered_is_acknowledged_and_told() -> None:
    gateway = FakeGateway(max_subscriptions=3)
    gateway.delivers = lambda wanted: wanted & Interest(frozenset({"tools"}), frozenset({"a:/2", "a:/9"}))
    async with open_talk(gateway) as talk:
        await listen(talk, 1, {**ALL, "resourceSubscriptions": [f"a:/{number}" for number in range(10)]})
        assert await talk.hear() == acknowledged(1, {"toolsListChanged": True, "resourceSubscriptions": ["a:/2"]})
        assert gateway.watching[0].wanted == Interest(frozenset({"tools"}), frozenset({"a:/2"}))
        gateway.watching[0].notify(PROMPTS)
        gateway.watching[0].notify(update("a:/1"))
        gateway.watching[0].notify(update("a:/2"))
        assert await talk.hear_all() == [notice("resources/updated", 1, uri="a:/2")]


@in_virtual_time
async def test_servers_are_waited_for_and_what_changes_meanwhile_follows_the_acknowledgement() -> None:
    gateway = FakeGateway(list_timeout=3)
    gateway.settling = trio.Event()
    async with open_talk(gateway) as talk:
        start = trio.current_time()
        await listen(talk, 1, ALL)
        assert await talk.hear_all() == []
        gateway.change(TOOLS)
        assert await talk.hear_all() == []
        assert await talk.hear() == acknowledged(1, ALL)
        assert trio.current_time() - start == 3
        assert await talk.hear() == notice("tools/list_changed", 1)


@in_virtual_time
async def test_any_number_at_once_also_with_ids_that_differ_in_type_alone() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await listen(talk, 1, {"toolsListChanged": True})
        await listen(talk, "1", {"toolsListChanged": True, "promptsListChanged": True})
        await listen(talk, 2, {"toolsListChanged": True})
        assert len(await talk.hear_all()) == 3
        await listen(talk, 1, {})
        assert (await talk.hear())["error"]["code"] == -32600  # in flight
        gateway.change(TOOLS, PROMPTS)
        heard = await talk.hear_all()
        tags = sorted(f"{json.dumps(one['params']['_meta'][SUBSCRIPTION_ID])} {one['method'][14:19]}" for one in heard)
        assert tags == ['"1" promp', '"1" tools', "1 tools", "2 tools"]
        await talk.notify(CANCELLED, {"requestId": 1})
        await trio.sleep(QUIET)
        gateway.change(TOOLS)
        heard = await talk.hear_all()
        assert sorted(json.dumps(one["params"]["_meta"][SUBSCRIPTION_ID]) for one in heard) == ['"1"', "2"]
        assert len(gateway.watching) == 2


@pytest.mark.parametrize("written", [b"7", b'"\\u0061"', b"9007199254740993"])
async def test_the_id_comes_back_as_it_was_written(written: bytes) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.write(
            b'{"jsonrpc":"2.0","id":%b,"method":"subscriptions/listen","params":{"notifications":{}}}' % written
        )
        await trio.testing.wait_all_tasks_blocked()
        assert b'"%b":%b}' % (SUBSCRIPTION_ID.encode(), written) in talk.heard[-1]


async def test_a_cancelled_stream_ends_with_nothing_more() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await listen(talk, 1, ALL)
        await talk.hear()
        await talk.notify(CANCELLED, {"requestId": 1})
        assert await talk.hear_all() == []
        assert gateway.watching == []
        await listen(talk, 1, {})  # its id is free again
        assert await talk.hear() == acknowledged(1, {})


@in_virtual_time
async def test_a_graceful_end_is_the_tagged_result_and_then_the_cancellation() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, drain=1) as talk:
        await listen(talk, 1, ALL)
        await listen(talk, "1", {})
        await talk.hear_all()
        talk.stop.set()
        heard = await talk.hear_all()
        assert [one.get("method", "end") for one in heard] == ["end", CANCELLED] * 2
        for end, cancelled in (heard[:2], heard[2:]):
            assert is_end(end, end["id"])
            assert cancelled["params"]["requestId"] == end["id"]
        assert {json.dumps(one["id"]) for one in heard[::2]} == {"1", '"1"'}
        assert talk.ended.is_set()  # nothing more was owed


@in_virtual_time
async def test_a_stream_that_is_still_being_agreed_on_ends_gracefully_as_well() -> None:
    gateway = FakeGateway(list_timeout=1000)
    gateway.settling = trio.Event()
    async with open_talk(gateway, drain=1) as talk:
        await listen(talk, 1, ALL)
        await talk.hear_all()
        talk.stop.set()
        heard = await talk.hear_all()
        assert heard[0] == acknowledged(1, ALL)
        assert is_end(heard[1], 1)
        assert heard[2]["method"] == CANCELLED


@in_virtual_time
async def test_a_storm_becomes_a_few() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await listen(talk, 1, {"toolsListChanged": True, "resourceSubscriptions": ["a:/b"]})
        await talk.hear_all()
        for _ in range(10_000):
            gateway.change(TOOLS, update("a:/b"))
            await trio.sleep(10 * QUIET / 10_000)
        await trio.sleep(QUIET)
        heard = [one["method"] for one in await talk.hear_all()]
        assert 10 <= heard.count("notifications/tools/list_changed") <= 12
        assert 10 <= heard.count("notifications/resources/updated") <= 12


@in_virtual_time
async def test_a_host_that_does_not_read_costs_a_set() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, listens=False) as slow:
        await listen(slow, 1, {"toolsListChanged": True, "resourceSubscriptions": ["a:/b"]})
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(100):
            gateway.change(TOOLS, update("a:/b"))
            await trio.sleep(QUIET)
        heard = await slow.catch_up()
        # What it had not read when the storm began, and one of each.
        assert [one["method"][14:] for one in heard] == [
            "subscriptions/acknowledged",
            "tools/list_changed",
            "resources/updated",
        ]


@pytest.mark.parametrize("revision", LEGACY)
@in_virtual_time
async def test_a_legacy_host_may_listen_too(revision: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, drain=1) as talk:
        await talk.shake(revision)
        await talk.ask(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert await talk.hear() == acknowledged(1, {"toolsListChanged": True})
        gateway.change(TOOLS)
        heard = await talk.hear_all()
        assert notice("tools/list_changed", 1) in heard
        assert {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"} in heard  # as it was promised
        talk.stop.set()
        end, cancelled = await talk.hear_all()
        assert end == {"jsonrpc": "2.0", "id": 1, "result": {"_meta": {SUBSCRIPTION_ID: 1}}}
        assert cancelled["params"]["requestId"] == 1


async def test_a_stream_in_a_batch_is_refused_as_it_would_keep_the_other_answers() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_03_26)
        asked = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": {}}}
        await talk.say([asked, {"jsonrpc": "2.0", "id": 2, "method": "ping"}])
        codes = {one["id"]: one.get("error", {}).get("code") for one in await talk.hear()}
        assert codes == {1: -32600, 2: None}


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_a_connection_that_breaks_takes_its_streams_with_it(revision: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        if revision == LATEST_LEGACY:
            await talk.shake(revision)
        await listen(talk, 1, ALL, revision)
        await talk.hear()
        assert gateway.watching
    assert gateway.watching == []


async def test_a_listen_stream_in_pass_through_is_mcpxs_own_affair() -> None:
    gateway = FakeGateway(passthrough=True)
    gateway.said = type(gateway.said)(Raw(b'{"name":"up","version":"1"}'), {"tools": Raw(b'{"listChanged":true}')})
    async with open_talk(gateway, drain=1) as talk:
        await listen(talk, 1, ALL)
        await talk.hear()
        assert gateway.calls == []
        talk.stop.set()
        assert (await talk.hear())["result"]["_meta"][SERVER_INFO] == {"name": "up", "version": "1"}
