"""``subscriptions/listen`` over POST: a stream of events that opens at once, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.host.changes import QUIET
from mcpx.host.http.reply import TICK
from mcpx.host.http.sessions import SWEEP
from mcpx.spec.meta import SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2025_03_26, V2025_06_18
from mcpx.upstream.call import Change
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import HttpGateway, methods, open_desk, settled

if TYPE_CHECKING:
    from tests.unit.host.http.desk import Desk, Sent

TOOLS, PROMPTS = Change("one", "tools"), Change("one", "prompts")
LISTEN = "subscriptions/listen"
FILTER = {"notifications": {"toolsListChanged": True}}
ACKNOWLEDGED, CHANGED = "notifications/subscriptions/acknowledged", "notifications/tools/list_changed"


async def listen(desk: Desk, id: Any = 1) -> Sent:
    sent = desk.start_modern(id, LISTEN, FILTER)
    await settled()
    return sent


@in_virtual_time
async def test_a_stream_opens_with_its_acknowledgement_and_brings_what_changes() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        stream = await listen(desk)
        assert stream.is_stream
        assert stream.response.headers["x-accel-buffering"] == "no"
        assert methods(stream) == [ACKNOWLEDGED]
        gateway.change(TOOLS, PROMPTS)
        await settled()
        assert methods(stream) == [ACKNOWLEDGED, CHANGED]
        assert {frame["params"]["_meta"][SUBSCRIPTION_ID] for frame in stream.frames} == {1}
        assert stream.ids == [None, None]  # nobody resumes it
        [conversation] = desk.service.conversations
        assert (conversation.listening, conversation.subscriptions) == (1, 1)


@in_virtual_time
async def test_a_stream_is_kept_alive_while_it_waits_for_servers_and_after() -> None:
    gateway = HttpGateway(keep_alive=15, list_timeout=60)
    gateway.settling = trio.Event()
    async with open_desk(gateway) as desk:
        stream = await listen(desk)
        assert not stream.response.started
        await trio.sleep(30)
        assert stream.is_stream
        assert stream.comments >= 2
        assert stream.frames == []
        gateway.settling.set()
        await settled()
        assert methods(stream) == [ACKNOWLEDGED]
        before = stream.comments
        await trio.sleep(3 * (15 + TICK))
        assert stream.comments == before + 3


@in_virtual_time
async def test_hanging_up_ends_one_stream_and_no_other() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        goes, stays = await listen(desk), await listen(desk)
        assert len(gateway.watching) == 2
        goes.hang_up()
        await settled()
        assert len(gateway.watching) == 1
        gateway.change(TOOLS)
        await settled()
        assert (methods(goes), methods(stays)) == ([ACKNOWLEDGED], [ACKNOWLEDGED, CHANGED])


@in_virtual_time
async def test_the_graceful_end_is_the_result_and_nothing_behind_it() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        stream, other = await listen(desk, 1), await listen(desk, "1")
        await desk.endpoint.drain()
        await settled()
        for sent, id in ((stream, 1), (other, "1")):
            assert methods(sent) == [ACKNOWLEDGED, "answer"]
            end = sent.frames[-1]
            assert json.dumps(end["id"]) == json.dumps(end["result"]["_meta"][SUBSCRIPTION_ID]) == json.dumps(id)
            assert end["result"]["resultType"] == "complete"
            assert sent.done.is_set()
        assert trio.current_time() < 1  # nothing of the time for what is owed was needed


@in_virtual_time
async def test_what_is_being_written_at_the_end_is_written_whole() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk, trio.open_nursery() as nursery:
        stream = await listen(desk)
        stream.response.stuck = trio.Event()
        gateway.change(TOOLS)
        await settled()
        nursery.start_soon(desk.endpoint.drain)
        await trio.sleep(0.1)
        stream.response.stuck.set()
        await settled()
        assert methods(stream) == [ACKNOWLEDGED, CHANGED, "answer"]


@in_virtual_time
async def test_a_client_that_does_not_read_costs_a_set() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        slow, quick = await listen(desk), await listen(desk)
        slow.response.stuck = trio.Event()
        for _ in range(50):
            gateway.change(TOOLS)
            await trio.sleep(QUIET)
        assert methods(quick).count(CHANGED) >= 50
        slow.response.stuck.set()
        await trio.sleep(QUIET)
        assert methods(slow) == [ACKNOWLEDGED, CHANGED, CHANGED]  # what was on the way, and what changed since


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream;q=0"])
async def test_a_client_that_takes_no_stream_is_refused(accept: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        assert (await desk.modern(1, LISTEN, FILTER, accept=accept)).status == 406
        frame = {"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": FILTER}
        assert (await desk.ask("POST", frame, {"accept": accept})).status == 406
        assert desk.service.conversations == []


async def test_a_filter_that_is_none_is_an_error_in_json() -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.modern(1, LISTEN, {})
        assert (sent.is_stream, sent.frame["error"]["code"]) == (False, -32602)


@pytest.mark.parametrize("revision", LEGACY)
@in_virtual_time
async def test_a_host_with_a_session_may_listen_and_cancel(revision: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(revision)
        one, two = client.start(1, LISTEN, FILTER), client.start("1", LISTEN, FILTER)
        await settled()
        assert methods(one) == methods(two) == [ACKNOWLEDGED]
        gateway.change(TOOLS)
        await settled()
        await client.cancel(1)
        await trio.sleep(QUIET)
        gateway.change(TOOLS)
        await settled()
        assert one.done.is_set()
        assert (methods(one), methods(two)) == ([ACKNOWLEDGED, CHANGED], [ACKNOWLEDGED, CHANGED, CHANGED])
        await desk.endpoint.drain()
        await settled()
        assert two.frames[-1]["result"] == {"_meta": {SUBSCRIPTION_ID: "1"}}


@in_virtual_time
async def test_a_stream_that_nobody_views_does_not_keep_a_session() -> None:
    gateway = HttpGateway(session_idle=100)
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_06_18)  # whose streams stay open: later ones are polled
        stream = client.start(1, LISTEN, FILTER)
        await trio.sleep(500)
        assert desk.endpoint.session_count == 1  # it is in use
        stream.hang_up()
        await trio.sleep(100 + 2 * SWEEP)
        assert desk.endpoint.session_count == 0
        assert gateway.watching == []


@in_virtual_time
async def test_a_session_hears_of_what_it_subscribed_to_on_its_stream() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(LATEST_LEGACY)
        assert (await client.ask(1, "resources/subscribe", {"uri": "a:/b"})).frame["result"] == {}
        assert [conversation.subscriptions for conversation in desk.service.conversations] == [1]
        stream = client.get()
        await settled()
        gateway.change(Change("one", "resources", "a:/b"), Change("one", "resources", "a:/x"))
        await settled()
        assert [frame["params"] for frame in stream.frames] == [{"uri": "a:/b"}]
        await client.delete()
        await settled()
        assert gateway.watching == []


@in_virtual_time
async def test_a_host_without_a_session_may_listen_and_subscribes_in_vain(caplog: pytest.LogCaptureFixture) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        stream = desk.start("POST", {"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": FILTER})
        await settled()
        gateway.change(TOOLS)
        await settled()
        assert methods(stream) == [ACKNOWLEDGED, CHANGED]
        for method in ("resources/subscribe", "resources/unsubscribe"):
            sent = await desk.ask("POST", {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": "a:/b?s=1"}})
            assert sent.frame["result"] == {}
        assert "'a:/b' cannot be delivered" in caplog.text
        stream.hang_up()


async def test_a_stream_in_a_batch_is_refused() -> None:
    async with open_desk(HttpGateway()) as desk:
        asked = {"jsonrpc": "2.0", "id": 1, "method": LISTEN, "params": FILTER}
        sent = await desk.ask("POST", [asked, {"jsonrpc": "2.0", "id": 2, "method": "ping"}], revision=V2025_03_26)
        codes = {one["id"]: one.get("error", {}).get("code") for one in sent.frame}
        assert codes == {1: -32600, 2: None}


@pytest.mark.parametrize("revision", [LATEST_MODERN, LATEST_LEGACY])
async def test_once_the_end_has_begun_no_stream_is_let_in(revision: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        await desk.endpoint.drain()
        if revision == LATEST_MODERN:
            sent = await desk.modern(1, LISTEN, FILTER)
        else:
            sent = await client.ask(1, LISTEN, FILTER)
        assert "mcpx is stopping" in sent.frame["error"]["message"]
