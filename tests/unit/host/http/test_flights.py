"""Calls of POSTs that are under way without a task: what they come to, and when they take one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamGone
from mcpx.host.flights import MAX_FLIGHT
from mcpx.host.http.reply import STREAM_AFTER, TICK
from mcpx.spec.revisions import LATEST_LEGACY
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import CALL, HttpGateway, open_desk, progress, settled

if TYPE_CHECKING:
    from tests.unit.host.http.desk import Client, Desk, Sent

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


async def call(desk: Desk, client: Client | None, id: int = 1, **headers: Any) -> Sent:
    """A call that was sent, of a session or else a modern one."""
    sent = desk.start_modern(id, "tools/call", CALL, **headers) if client is None else client.call(id, **headers)
    await settled()
    return sent


async def client_of(desk: Desk, modern: bool) -> Client | None:
    return None if modern else await desk.open(LATEST_LEGACY)


@ERAS
@in_virtual_time
async def test_a_quick_call_takes_no_task(modern: bool) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await client_of(desk, modern)
        for id in (1, 2):
            sent = await call(desk, client, id)
            assert not sent.response.started
            gateway.calls[-1].reply()
            await sent.done.wait()
            assert sent.aloft is not None
            assert sent.aloft.landed is None
            assert (sent.status, sent.is_stream) == (200, False)
            assert sent.frame["id"] == id
            assert sent.frame["result"]


@ERAS
@pytest.mark.parametrize(
    ("failure", "code"),
    [(RpcError(-32602, "no"), -32602), (UpstreamGone("one", "it ended"), -32603), (ValueError("a bug"), -32603)],
)
@in_virtual_time
async def test_what_a_quick_call_fails_with(modern: bool, failure: Exception, code: int) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = await call(desk, await client_of(desk, modern))
        gateway.calls[0].put(failure)
        await sent.done.wait()
        assert sent.frame["error"]["code"] == code


@ERAS
@in_virtual_time
async def test_it_lands_after_a_while_with_the_same_request(modern: bool) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = await call(desk, await client_of(desk, modern))
        assert sent.aloft is not None
        await trio.sleep(MAX_FLIGHT * 0.9)
        assert sent.aloft.landed is None
        await trio.sleep(MAX_FLIGHT * 0.2)
        assert sent.aloft.landed is not None
        [one] = gateway.calls
        one.reply()
        await sent.done.wait()
        assert (sent.is_stream, len(gateway.calls)) == (False, 1)
        assert sent.frame["result"]


@ERAS
@in_virtual_time
async def test_it_becomes_a_stream_as_soon_as_if_it_had_had_a_task(modern: bool) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = await call(desk, await client_of(desk, modern))
        await trio.sleep(STREAM_AFTER + TICK + 0.01)
        assert sent.response.streaming
        gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.frame["result"]


@ERAS
@in_virtual_time
async def test_what_comes_before_the_answer_takes_a_task_at_once(modern: bool) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await client_of(desk, modern)
        if client is None:
            sent = desk.start_modern(1, "tools/call", CALL, meta={"progressToken": 7})
        else:
            sent = client.call(1, token=7)
        await settled()
        gateway.calls[0].put(progress(1))
        await settled()
        assert sent.is_stream
        gateway.calls[0].reply()
        await sent.done.wait()
        assert [frame.get("method") for frame in sent.frames] == ["notifications/progress", None]


@in_virtual_time
async def test_hanging_up_cancels_a_modern_call_at_once() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        for pause in (0.0, MAX_FLIGHT * 2):
            sent = await call(desk, None)
            await trio.sleep(pause)
            sent.hang_up()
            await settled()
            assert gateway.calls[-1].state == "cancelled"
            assert desk.service.conversations == []


@in_virtual_time
async def test_hanging_up_cancels_no_call_of_a_session() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await client_of(desk, modern=False)
        assert client is not None
        sent = await call(desk, client)
        sent.hang_up()
        await settled()
        assert gateway.calls[0].state == "open"
        assert client.session.conversation.in_flight == 1
        gateway.calls[0].reply()
        await settled()
        assert client.session.conversation.in_flight == 0
        assert client.session.idle_since == trio.current_time()


@in_virtual_time
async def test_a_cancelled_call_of_a_session_is_not_answered() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await client_of(desk, modern=False)
        assert client is not None
        sent = await call(desk, client)
        assert (await client.notify("notifications/cancelled", {"requestId": 1})).status == 202
        await sent.done.wait()
        assert gateway.calls[0].state == "cancelled"
        assert sent.frames == []


@in_virtual_time
async def test_the_end_of_a_session_ends_its_calls() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await client_of(desk, modern=False)
        assert client is not None
        sent = await call(desk, client)
        assert (await desk.ask("DELETE", headers=client.headers)).status == 204
        await sent.done.wait()
        assert gateway.calls[0].state == "cancelled"
        assert sent.frames == []


@ERAS
@in_virtual_time
async def test_the_end_waits_for_calls_and_cuts_them_short(modern: bool) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk, trio.open_nursery() as nursery:
        client = await client_of(desk, modern)
        soon, never = await call(desk, client), await call(desk, client, 2)
        nursery.start_soon(desk.endpoint.drain)
        await settled()
        assert not soon.done.is_set()
        gateway.calls[0].reply()
        await soon.done.wait()
        assert soon.frame["result"]
        await never.done.wait()
        assert "stopping" in never.frame["error"]["message"]
        late = await call(desk, client, 3)
        await late.done.wait()
        assert "stopping" in late.frame["error"]["message"]


@in_virtual_time
async def test_what_is_no_quick_call_is_left_to_handlers() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await client_of(desk, modern=False)
        assert client is not None
        for sent in (
            await client.ask(1, "tools/list"),
            await desk.modern(1, "tools/list"),
            await client.notify("notifications/initialized"),
            await desk.ask("POST", b"no json", client.headers),
            await desk.ask("POST", b"\xef\xbb\xbf{}", client.headers),
        ):
            assert sent.aloft is None
        assert gateway.calls == []
    events_only = HttpGateway()
    async with open_desk(events_only) as desk:
        sent = await call(desk, None, accept="text/event-stream")
        assert sent.aloft is None
        events_only.calls[0].reply(Raw(b'{"content":[]}'))
        await sent.done.wait()
        assert sent.is_stream


@in_virtual_time
async def test_where_calls_have_little_time_their_tasks_measure_it() -> None:
    gateway = HttpGateway(call_timeout=MAX_FLIGHT)
    async with open_desk(gateway) as desk:
        sent = await call(desk, None)
        assert sent.aloft is None
        gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.frame["result"]
