"""The rows on subscriptions, on the real wire and in each way that hosts have: SUB-01 to SUB-14, SUB-16 and SUB-18."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.host.changes import QUIET
from mcpx.spec.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2025_03_26
from tests.support.http_hosts import http_host, serving_http, status_of, until_quiet
from tests.support.posting import Poster
from tests.support.scripted import PROMPT, RESOURCE, TELLS_ALL, TOOL
from tests.support.socket_hosts import connected, serving
from tests.support.ways import WAYS, arriving

if TYPE_CHECKING:
    from tests.support.fake_down import Asked, Host, Incoming
    from tests.support.stage import Stage

NOTES, OTHER = "file:///notes.txt", "file:///other.txt"
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CANCELLED = "notifications/cancelled"
UPDATED = "notifications/resources/updated"
TOOLS_CHANGED, PROMPTS_CHANGED = "notifications/tools/list_changed", "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
TOOLS, ALL = (
    {"toolsListChanged": True},
    dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True),
)
ITEMS: dict[str, Any] = {"tools": [TOOL], "prompts": [PROMPT], "resources": [RESOURCE], "capabilities": TELLS_ALL}
DUPLEX = [way for way in WAYS if way != "http"]


META = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}}
DEAF = {"jsonrpc": "2.0", "id": "deaf", "method": LISTEN, "params": {"notifications": ALL, "_meta": META}}


def public(uri: str, server: str = "one") -> str:
    return f"mcpx://{server}/{uri}"


def tag(note: Incoming) -> Any:
    """The id that a notification bears, as JSON: ``1`` is not ``"1"``."""
    meta = note.params.get("_meta", {})
    return json.dumps(meta[SUBSCRIPTION_ID]) if SUBSCRIPTION_ID in meta else None


async def told(host: Host, method: str, id: Any, count: int = 1) -> Incoming:
    """A notification of a stream."""
    return await host.notified(method, lambda note: tag(note) == json.dumps(id), count=count)


async def listen(host: Host, id: Any, filter: dict[str, Any], **how: Any) -> tuple[Asked, dict[str, Any]]:
    """Open a stream; the request, and what was acknowledged."""
    asked = await host.start(LISTEN, {"notifications": filter}, id=id, **how)
    return asked, (await told(host, ACKNOWLEDGED, id)).params["notifications"]


def of_stream(host: Host, id: Any) -> list[str]:
    """What came on a stream, in order."""
    return [str(note.method) for note in host.notifications if tag(note) == json.dumps(id)]


@pytest.mark.parametrize("way", WAYS)
async def test_sub_01_a_stream_of_changes(stage: Stage, way: str) -> None:
    """In every way that hosts come: a request that stays open, and changes as they happen."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(LATEST_MODERN)
        asked, agreed = await listen(host, "s", {**ALL, "resourceSubscriptions": [public(NOTES)]})
        assert agreed == {**ALL, "resourceSubscriptions": [public(NOTES)]}
        await one.do(*({"changed": what} for what in ("tools", "prompts", "resources", NOTES, OTHER)))
        for method in (TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED, UPDATED):
            await told(host, method, "s")
        assert (await host.request("tools/list")).result["tools"]  # other requests go on beside it
        assert asked.answer is None
        assert [note.params["uri"] for note in host.notifications if note.method == UPDATED] == [public(NOTES)]


async def test_sub_02_the_four_fields_and_no_others(stage: Stage) -> None:
    """Unknown fields are ignored, and neither acknowledged; a filter of another form is an error."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        for id, filter, agreed in [
            ("a", {}, {}),
            ("b", {"promptsListChanged": True, "toolsListChanged": False}, {"promptsListChanged": True}),
            ("c", {"taskIds": ["t"], "own": 1, "resourcesListChanged": True}, {"resourcesListChanged": True}),
            ("d", {"resourceSubscriptions": []}, {}),
        ]:
            assert (await listen(host, id, filter))[1] == agreed
        for filter in ("all", {"toolsListChanged": 1}, {"resourceSubscriptions": [1]}):
            assert (await host.request(LISTEN, {"notifications": filter})).code == -32602
        assert (await host.request(LISTEN, {})).code == -32602


@pytest.mark.parametrize("way", WAYS)
async def test_sub_03_the_acknowledgement_is_first(stage: Stage, way: str) -> None:
    """Also where changes come all the time, and where two streams share one way."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(LATEST_MODERN)
        await listen(host, 1, TOOLS)
        await one.do({"changed": "tools"})
        asked = await host.start(LISTEN, {"notifications": TOOLS}, id=2)
        await one.do(*[{"changed": "tools"}] * 20)
        await told(host, ACKNOWLEDGED, 2)
        await one.do({"changed": "tools"})
        await told(host, TOOLS_CHANGED, 2)
        assert of_stream(host, 1)[0] == of_stream(host, 2)[0] == ACKNOWLEDGED
        assert of_stream(host, 2).count(ACKNOWLEDGED) == 1
        assert asked.answer is None


@pytest.mark.parametrize("upstream", [LATEST_MODERN, LATEST_LEGACY])
async def test_sub_04_only_what_will_be_delivered_is_acknowledged(stage: Stage, upstream: str) -> None:
    """Resources whose server tells no updates, that nobody has, or whose server does not run are left out."""
    silent: dict[str, Any] = {"resources": [RESOURCE], "capabilities": {"resources": {}}}
    servers = {"down": {"command": "false"}}
    one, two = stage.upstream("one", upstream, **ITEMS), stage.upstream("two", upstream, **silent)
    async with arriving(stage, "stdio", one, two, servers=servers) as (host, _):
        await host.open(LATEST_MODERN)
        asked = [public(NOTES), public(NOTES, "two"), public(NOTES, "down"), public(NOTES, "nobody"), "nobody:/x", ""]
        assert (await listen(host, 1, {"resourceSubscriptions": asked}))[1] == {
            "resourceSubscriptions": [public(NOTES)]
        }


async def test_sub_04_a_raw_uri_is_told_back_as_it_was_written(stage: Stage) -> None:
    """As a server lists it, or by one of its templates; and what is inside of it."""
    template = {"uriTemplate": "logs://{day}/all", "name": "logs"}
    one = stage.upstream("one", LATEST_LEGACY, templates=[template], **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        asked = [RESOURCE["uri"], "logs://monday/all", public(RESOURCE["uri"])]
        assert (await listen(host, 1, {"resourceSubscriptions": asked}))[1] == {"resourceSubscriptions": sorted(asked)}
        inner = RESOURCE["uri"] + "#end"
        for uri in (RESOURCE["uri"], "logs://monday/all", inner):
            await one.do({"notify": {"method": UPDATED, "params": {"uri": uri}}})
        for uri in (*asked, inner, public(inner)):
            await host.notified(UPDATED, lambda note, uri=uri: note.params["uri"] == uri)


@pytest.mark.parametrize("id", [0, -7, "0", "", "ä", 9007199254740991])
async def test_sub_05_every_frame_bears_the_id_in_its_type(stage: Stage, id: Any) -> None:
    """The acknowledgement, what follows, and the final result."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, process):
        await host.open(LATEST_MODERN)
        asked, _ = await listen(host, id, TOOLS)
        await one.do({"changed": "tools"})
        await told(host, TOOLS_CHANGED, id)
        process.signal(15)
        end = await asked.wait()
        assert json.dumps(end.result["_meta"][SUBSCRIPTION_ID]) == json.dumps(id)
        assert {tag(note) for note in host.notifications if note.method != CANCELLED} == {json.dumps(id)}


@pytest.mark.parametrize("way", WAYS)
async def test_sub_06_modern_hosts_hear_on_streams_alone_and_legacy_ones_unasked(stage: Stage, way: str) -> None:
    """What a filter does not ask for does not come; to a legacy host comes what was declared to it."""
    one = stage.upstream("one", LATEST_LEGACY, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(LATEST_MODERN)
        await host.names()
        await listen(host, 1, {"promptsListChanged": True})
        await one.do({"changed": "tools"}, {"changed": "resources"}, {"changed": "prompts"})
        await told(host, PROMPTS_CHANGED, 1)
        assert [note.method for note in host.notifications] == [ACKNOWLEDGED, PROMPTS_CHANGED]
    two = stage.upstream("two", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, two) as (host, _):
        declared = (await host.open(LATEST_LEGACY)).result["capabilities"]
        assert declared["tools"] == {"listChanged": True}
        assert declared["resources"] == {"listChanged": True, "subscribe": True}
        await host.names()
        await two.got(LISTEN)
        assert (await host.request("resources/subscribe", {"uri": public(NOTES, "two")})).result == {}
        await two.do(*({"changed": what} for what in ("tools", "prompts", "resources", NOTES, OTHER)))
        for method in (TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED):
            assert tag(await host.notified(method)) is None
        note = await host.notified(UPDATED)
        assert note.params == {"uri": public(NOTES, "two")}
        assert (await host.request("resources/unsubscribe", {"uri": public(NOTES, "two")})).result == {}


async def test_sub_07_progress_belongs_to_its_request(stage: Stage) -> None:
    """Never to a stream: it has no tag, and the stream has none of it."""
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": [{"progress": {}}, {"answer": True}]}, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        await listen(host, "s", ALL)
        await host.call("one__echo", meta={"progressToken": "s"})
        note = await host.notified("notifications/progress")
        assert tag(note) is None
        assert of_stream(host, "s") == [ACKNOWLEDGED]


@pytest.mark.parametrize("way", WAYS)
async def test_sub_08_any_number_at_once(stage: Stage, way: str) -> None:
    """Each with its own filter and id; an id in flight on the same way is refused, over HTTP there is none such."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(LATEST_MODERN)
        first, _ = await listen(host, 1, TOOLS)
        await listen(host, "1", {"promptsListChanged": True})
        await listen(host, 2, ALL)
        if way != "http":
            again = await host.start(LISTEN, {"notifications": {}}, id=1)
            assert (await first.wait()).code == -32600  # of two that have one id the first answer counts as the first's
            assert again.answer is None
        await one.do({"changed": "tools"}, {"changed": "prompts"})
        await told(host, TOOLS_CHANGED, 1)
        await told(host, PROMPTS_CHANGED, "1")
        await told(host, TOOLS_CHANGED, 2)
        await told(host, PROMPTS_CHANGED, 2)
        assert of_stream(host, 1) == [ACKNOWLEDGED, TOOLS_CHANGED]
        assert of_stream(host, "1") == [ACKNOWLEDGED, PROMPTS_CHANGED]


@pytest.mark.parametrize("revision", [LATEST_MODERN, LATEST_LEGACY])
@pytest.mark.parametrize("way", DUPLEX)
async def test_sub_09_a_cancelled_stream_says_nothing_more(stage: Stage, way: str, revision: str) -> None:
    """Of two it ends the one that is named, and its id is free again."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(revision)
        gone, _ = await listen(host, 1, TOOLS)
        await listen(host, "1", TOOLS)
        await host.cancel(gone)
        await host.fence()
        await one.do({"changed": "tools"})
        await told(host, TOOLS_CHANGED, "1")
        assert of_stream(host, 1) == [ACKNOWLEDGED]
        assert gone.answer is None
        await host.start(LISTEN, {"notifications": {}}, id=1)
        await told(host, ACKNOWLEDGED, 1, 2)


async def test_sub_09_over_http_hanging_up_ends_a_stream(stage: Stage) -> None:
    """The other goes on; a cancellation by a POST, which is a scope of its own, ends none."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with serving_http(stage, one) as site:
        host = Poster(site)
        asked = host.frame(1, LISTEN, {"notifications": TOOLS})
        async with host.started(asked) as stays:
            assert (await stays.head()).headers["content-type"] == "text/event-stream"
            assert await stays.event() is not None
            async with host.started(asked) as goes, site.wired() as wire:
                await goes.head()
                assert await goes.event() is not None
                assert (await status_of(wire))["subscriptions"] == 2
                cancel = {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": 1}}
                assert (await host.post(cancel)).status == 202
                await one.do({"changed": "tools"})
                for stream in (goes, stays):
                    event = await stream.event()
                    assert event is not None
                    host.check(json.loads(event.data), asked)
            async with site.wired() as wire:
                while (said := await status_of(wire))["subscriptions"] != 1:
                    pass
                assert said["exchanges"] == 0
            await trio.sleep(QUIET)
            await one.do({"changed": "tools"})
            assert await stays.event() is not None
        async with site.wired() as wire:
            assert (await until_quiet(wire))["subscriptions"] == 0


@pytest.mark.parametrize("way", DUPLEX)
async def test_sub_10_a_graceful_end_is_a_result_and_then_a_cancellation(stage: Stage, way: str) -> None:
    """For each stream, in this order, tagged; and then the end."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, one) as arrived:
        host = arrived.host
        await host.open(LATEST_MODERN)
        streams = [(await listen(host, id, TOOLS))[0] for id in (1, "1")]
        arrived.stop()
        for asked, id in zip(streams, (1, "1"), strict=True):
            end = await asked.wait()
            assert end.result.keys() == {"resultType", "_meta"}
            assert (end.result["resultType"], end.result["_meta"][SUBSCRIPTION_ID]) == ("complete", id)
            assert end.result["_meta"][SERVER_INFO]["name"] == "mcpx"
            farewell = await host.notified(CANCELLED, lambda note, id=id: note.params["requestId"] == id)
            assert host.received.index(end) < host.received.index(farewell)
        assert len([note for note in host.notifications if note.method == CANCELLED]) == 2
        assert await arrived.process.wait() == 0


async def test_sub_10_at_the_end_of_stdin_streams_end_gracefully(stage: Stage) -> None:
    """What is open there is no reason to wait."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        asked, _ = await listen(host, 1, TOOLS)
        assert await host.close() == 0
        assert asked.answer is not None
        assert asked.answer.result["_meta"][SUBSCRIPTION_ID] == 1
        assert [note.params["requestId"] for note in host.notifications if note.method == CANCELLED] == [1]


async def test_sub_11_over_http_the_stream_closes_after_the_result(stage: Stage) -> None:
    """Properly, with no cancellation behind it, for a modern host and for one in a legacy session."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with serving_http(stage, one) as site:
        new, old = Poster(site), Poster(site, LATEST_LEGACY)
        await old.open()
        asked = {host: host.frame("s", LISTEN, {"notifications": TOOLS}) for host in (new, old)}
        async with new.started(asked[new]) as first, old.started(asked[old]) as second:
            for wire in (first, second):
                assert (await wire.head()).headers["content-type"] == "text/event-stream"
                assert await wire.event() is not None
            site.process.signal(15)
            for host, wire in ((new, first), (old, second)):
                event = await wire.event()
                assert event is not None
                end = json.loads(event.data)
                host.check(end, asked[host])
                assert end["result"]["_meta"][SUBSCRIPTION_ID] == end["id"] == "s"
                assert ("resultType" in end["result"]) is (host is new)
                assert await wire.event() is None
        assert await site.process.wait() == 0


async def test_sub_12_over_http_a_stream_has_keep_alives(stage: Stage) -> None:
    """It opens at once, with the acknowledgement, and a comment comes whenever it has been quiet for long."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with serving_http(stage, one, limits={"keepAlive": 0.5}) as site:
        host = Poster(site)
        async with host.started(host.frame(1, LISTEN, {"notifications": TOOLS})) as wire:
            head = await wire.head()
            assert (head.status, head.headers["x-accel-buffering"]) == (200, "no")
            event = await wire.event()
            assert event is not None
            assert json.loads(event.data)["method"] == ACKNOWLEDGED
            for _ in range(2):
                assert await wire.chunk() == b":\n\n"
            await one.do({"changed": "tools"})
            assert await wire.event() is not None


async def test_sub_12_a_client_that_takes_no_stream_gets_none(stage: Stage) -> None:
    """It would wait for ever for what it could not be told."""
    async with serving_http(stage, stage.upstream("one", LATEST_MODERN, **ITEMS)) as site:
        host = Poster(site)
        said = await host.ask(1, LISTEN, {"notifications": TOOLS}, accept="application/json")
        assert said.status == 406


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("way", WAYS)
async def test_sub_13_a_legacy_host_may_listen(stage: Stage, way: str, revision: str) -> None:
    """With the modern acknowledgement, beside what it is told unasked."""
    one = stage.upstream("one", LATEST_LEGACY, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(revision)
        _, agreed = await listen(host, 7, {**TOOLS, "resourceSubscriptions": [public(NOTES)]})
        assert agreed == {**TOOLS, "resourceSubscriptions": [public(NOTES)]}
        await one.do({"changed": "tools"}, {"changed": NOTES})
        await told(host, TOOLS_CHANGED, 7)
        await told(host, UPDATED, 7)
        await host.notified(TOOLS_CHANGED, lambda note: tag(note) is None)
        assert [note for note in host.notifications if note.method == UPDATED and tag(note) is None] == []


async def test_sub_13_a_host_without_a_session_may_listen(stage: Stage) -> None:
    """Its POST is the stream; its subscription to a resource succeeds, and the log says that nothing comes of it."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with serving_http(stage, one) as site:
        host = Poster(site, V2025_03_26)
        async with host.started(host.frame(1, LISTEN, {"notifications": TOOLS})) as wire:
            await wire.head()
            assert await wire.event() is not None
            await one.do({"changed": "tools"})
            assert await wire.event() is not None
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert (await host.ask(2, method, {"uri": public(NOTES)})).frame["result"] == {}
        await site.process.logged("it has opened no session")


async def test_sub_14_nothing_outlives_a_connection(stage: Stage) -> None:
    """A host that comes again hears nothing before it asks again; the server is let go."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with serving_http(stage, one) as site:
        host = Poster(site)
        async with host.started(host.frame(1, LISTEN, {"notifications": TOOLS})) as wire:
            await wire.head()
            assert await wire.event() is not None
        await one.got(CANCELLED)
        async with site.wired() as wire:
            assert (await until_quiet(wire))["subscriptions"] == 0


@pytest.mark.parametrize("upstream", [LATEST_MODERN, LATEST_LEGACY])
async def test_sub_14_a_restart_upstream_ends_no_stream(stage: Stage, upstream: str) -> None:
    """mcpx listens again, says that everything may have changed, and changes come as before."""
    one = stage.upstream("one", upstream, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        asked, _ = await listen(host, 1, {**TOOLS, "resourceSubscriptions": [public(NOTES)]})
        await one.do({"exit": 1})
        await told(host, TOOLS_CHANGED, 1)
        await told(host, UPDATED, 1)
        assert len(one.starts) == 2
        before = of_stream(host, 1).count(UPDATED)
        await trio.sleep(QUIET)
        await one.do({"changed": NOTES})
        await told(host, UPDATED, 1, before + 1)
        assert asked.answer is None


@pytest.mark.parametrize("upstream", [LATEST_MODERN, LATEST_LEGACY])
async def test_sub_16_the_catalogue_follows(stage: Stage, upstream: str) -> None:
    """Whoever lists after the change sees what is new."""
    one = stage.upstream("one", upstream, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        assert await host.names() == ["one__echo"]
        await listen(host, 1, TOOLS)
        await one.set(tools=[TOOL, {**TOOL, "name": "new"}])
        await one.do({"changed": "tools"})
        await told(host, TOOLS_CHANGED, 1)
        assert await host.names() == ["one__echo", "one__new"]


@pytest.mark.parametrize("revision", [LATEST_MODERN, LATEST_LEGACY])
@pytest.mark.parametrize("way", WAYS)
async def test_sub_16_a_storm_becomes_few(stage: Stage, way: str, revision: str) -> None:
    """A thousand changes, with the last one told; the server is not asked for its lists by mcpx itself."""
    one = stage.upstream("one", LATEST_LEGACY, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(revision)
        await host.names()
        if revision == LATEST_MODERN:
            await listen(host, 1, TOOLS)
        begun = trio.current_time()
        await one.do(*[{"changed": "tools"}] * 1000)
        await one.set(tools=[TOOL, {**TOOL, "name": "last"}])
        await one.do({"changed": "tools"})
        while await host.names() != ["one__echo", "one__last"]:
            await host.notified(TOOLS_CHANGED)
        heard = [note for note in host.notifications if note.method == TOOLS_CHANGED]
        assert 1 <= len(heard) <= 2 + (trio.current_time() - begun) / QUIET
        assert len(one.received("tools/list")) <= 10


@pytest.mark.parametrize("upstream", [LATEST_MODERN, LATEST_LEGACY])
async def test_sub_16_a_server_that_notifies_while_it_lists_does_not_loop(stage: Stage, upstream: str) -> None:
    """Neither with mcpx nor with a host that lists whenever it is told to."""
    noisy = {"tools/list": [{"changed": "tools"}, {"answer": True}]}
    one = stage.upstream("one", upstream, on=noisy, **ITEMS)
    async with arriving(stage, "stdio", one) as (host, _):
        await host.open(LATEST_MODERN)
        await listen(host, 1, TOOLS)
        for _ in range(5):
            assert await host.names() == ["one__echo"]
        await host.fence()
        assert len(one.received("tools/list")) <= 10
        assert of_stream(host, 1).count(TOOLS_CHANGED) <= 5


async def test_sub_16_a_host_on_a_socket_that_does_not_read_holds_up_nobody(stage: Stage) -> None:
    """Others hear at once, and calls go on."""
    one = stage.upstream("one", LATEST_LEGACY, **ITEMS)
    async with serving(stage, one) as served, connected(served) as host:
        deaf = await trio.open_unix_socket(str(served.path))
        await deaf.send_all(json.dumps(DEAF).encode() + b"\n")
        await _hears(host, one)
        await trio.aclose_forcefully(deaf)


async def test_sub_16_a_host_by_http_that_does_not_read_holds_up_nobody(stage: Stage) -> None:
    """Others hear at once, and calls go on."""
    one = stage.upstream("one", LATEST_LEGACY, **ITEMS)
    async with serving_http(stage, one) as site, Poster(site).started(DEAF), http_host(site) as host:
        await _hears(host, one)


async def _hears(host: Host, one: Any) -> None:
    await host.open(LATEST_MODERN)
    await listen(host, 1, TOOLS)
    for number in range(1, 4):
        await one.do(*[{"changed": what} for what in ("tools", "prompts", "resources")] * 100)
        await told(host, TOOLS_CHANGED, 1, number)
        assert (await host.call("one__echo")).result["content"]


@pytest.mark.parametrize("way", WAYS)
async def test_sub_18_notifications_about_subscriptions_get_no_answer(stage: Stage, way: str) -> None:
    """Neither an acknowledgement from a host, nor an unknown stream's cancellation, nor a request without an id."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with arriving(stage, way, one) as (host, _):
        await host.open(LATEST_LEGACY)
        for method, params in [
            (ACKNOWLEDGED, {"notifications": {}}),
            (CANCELLED, {"requestId": "nobody's"}),
            (LISTEN, {"notifications": ALL}),
            (UPDATED, {"uri": NOTES}),
        ]:
            await host.notify(method, params)
        await host.fence()
        assert host.notifications == []
        assert host.strays == []
