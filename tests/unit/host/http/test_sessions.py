"""Legacy sessions: what they own, who sees what of it, and how they end."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import trio
from msgspec import Raw

from mcpx.errors import UpstreamStartError
from mcpx.host.http.sessions import EVICTABLE, SWEEP
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    POLLING,
    V2025_03_26,
    V2025_06_18,
)
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import CALL, Desk, HttpGateway, code, initialize, methods, open_desk, progress, settled

# -- opening one


@pytest.mark.parametrize("revision", LEGACY)
@in_virtual_time
async def test_initialize_opens_a_session_that_is_found_by_its_id_alone(revision: str) -> None:
    async with open_desk(HttpGateway()) as desk:
        client, other = await desk.open(revision), await desk.open(revision)
        assert client.id != other.id
        assert len(client.id) >= 43
        assert client.id.isascii()
        assert client.id.isprintable()
        assert desk.endpoint.session_count == 2
        assert (await client.ask(1, "ping")).frame["result"] == {}
        for wrong in ("", "x", client.id[:-1], client.id + "A", client.id.lower() + "=", "é"):
            assert (await client.ask(1, "ping", mcp_session_id=wrong)).status == 404


@pytest.mark.parametrize("version", ["1.0", "2099-01-01", "", LATEST_MODERN])
@in_virtual_time
async def test_any_version_that_is_not_spoken_is_counter_offered(version: str) -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", initialize(version))
        assert sent.frame["result"]["protocolVersion"] == LATEST_LEGACY
        assert "mcp-session-id" in sent.response.headers


@pytest.mark.parametrize(
    ("accept", "stream"), [(None, False), ("application/json", False), ("text/event-stream", True), ("*/*", False)]
)
@in_virtual_time
async def test_the_session_is_named_in_whatever_form_the_answer_has(accept: str | None, stream: bool) -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", initialize(), {"accept": accept})
        assert sent.is_stream == stream
        assert sent.frame["result"]["protocolVersion"] == LATEST_LEGACY
        assert sent.response.headers["mcp-session-id"]


@pytest.mark.parametrize(
    "body",
    [
        initialize(7),
        initialize([LATEST_LEGACY]),
        [initialize()],
        initialize(id=None),
        initialize(id=1.5),
        {"jsonrpc": "2.0", "method": "initialize", "params": {}},
    ],
    ids=str,
)
@in_virtual_time
async def test_what_fails_opens_none(body: Any) -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", body)
        assert "mcp-session-id" not in sent.response.headers
        assert desk.endpoint.session_count == 0
        await settled()
        assert desk.service.conversations == []


@in_virtual_time
async def test_a_server_that_shines_through_and_does_not_come_up_opens_none() -> None:
    gateway = HttpGateway(passthrough=True)
    gateway.identity_error = UpstreamStartError("one", "it does not start")
    async with open_desk(gateway) as desk:
        sent = await desk.ask("POST", initialize())
        assert code(sent) == (200, -32603)
        assert "mcp-session-id" not in sent.response.headers
        assert desk.endpoint.session_count == 0


class Slow(HttpGateway):
    """A gateway that says who it is when it is told to."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.known = trio.Event()

    async def identity(self, asker: Any) -> Any:
        await self.known.wait()
        return await super().identity(asker)


@in_virtual_time
async def test_a_client_that_goes_before_it_is_answered_leaves_nothing() -> None:
    gateway = Slow()
    async with open_desk(gateway) as desk:
        sent = desk.start("POST", initialize())
        await settled()
        assert len(desk.service.conversations) == 1
        sent.hang_up()
        await settled()
        assert desk.service.conversations == []
        sent = desk.start("POST", initialize())
        await settled()
        sent.response.gone = True  # which shows when the answer is written
        gateway.known.set()
        await sent.done.wait()
        await settled()
        assert desk.service.conversations == []
        assert desk.endpoint.session_count == 0


@in_virtual_time
async def test_there_are_so_many_and_those_being_opened_count() -> None:
    gateway = Slow(max_sessions=3)
    async with open_desk(gateway) as desk:
        sents = [desk.start("POST", initialize()) for _ in range(5)]
        await settled()
        assert [sent.status for sent in sents].count(503) == 2
        gateway.known.set()
        for sent in sents:
            await sent.done.wait()
        assert desk.endpoint.session_count == 3
        assert (await desk.ask("POST", initialize())).status == 503
        [taken, *_] = [sent for sent in sents if sent.status == 200]
        session = {"mcp-session-id": taken.response.headers["mcp-session-id"]}
        assert (await desk.ask("DELETE", b"", session)).status == 204
        assert (await desk.ask("POST", initialize())).status == 200


@pytest.mark.parametrize(("idle", "after"), [(SWEEP + 10, SWEEP + 10), (1800.0, EVICTABLE)], ids=["expired", "idlest"])
@in_virtual_time
async def test_one_that_nobody_uses_any_more_makes_room(idle: float, after: float) -> None:
    """One that has expired, before the next look at them all; else the one that was idle for longest."""
    async with open_desk(HttpGateway(max_sessions=2, session_idle=idle)) as desk:
        await trio.sleep(SWEEP / 2)
        client = await desk.open()
        await trio.sleep(1)
        other = await desk.open()
        other.get()
        await trio.sleep(after - 2)
        assert (await desk.ask("POST", initialize())).status == 503
        await trio.sleep(2)
        assert (await desk.ask("POST", initialize())).status == 200
        assert (await client.ask(1, "ping")).status == 404
        assert (await desk.ask("POST", initialize())).status == 503  # the other one has a stream open


# -- a session and its methods


@in_virtual_time
async def test_an_ended_session_is_not_found() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client, other = await desk.open(), await desk.open()
        call, stream = client.call(1), client.get()
        await settled()
        assert (await client.delete()).status == 204
        await settled()
        assert gateway.calls[0].state == "cancelled"
        assert call.done.is_set()
        assert call.frames == []
        assert stream.done.is_set()
        assert [(await client.ask(1, "ping")).status, (await client.delete()).status] == [404, 404]
        again = client.get()
        await again.done.wait()
        assert again.status == 404
        assert (await client.notify("notifications/initialized")).status == 404
        assert (await other.ask(1, "ping")).status == 200
        assert desk.endpoint.session_count == 1


@pytest.mark.parametrize("header", [None, *LEGACY])
@in_virtual_time
async def test_the_handshake_says_the_revision_whatever_the_header(header: str | None) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_06_18)
        sent = client.call(1, mcp_protocol_version=header)
        await settled()
        assert gateway.calls[0].request.revision == V2025_06_18
        gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.frame["result"]


@in_virtual_time
async def test_a_second_initialize_replaces_the_first() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_03_26)
        before = client.call(1)
        await settled()
        again = client.post(initialize(V2025_06_18, id=2))
        await again.done.wait()
        assert again.frame["result"]["protocolVersion"] == V2025_06_18
        assert desk.endpoint.session_count == 1
        client.revision = V2025_06_18
        assert code(await client.ask(3, "no/such")) == (200, -32601)
        batch = client.post([{"jsonrpc": "2.0", "id": 4, "method": "ping"}])
        await batch.done.wait()
        assert code(batch) == (400, -32600)
        gateway.calls[0].reply()
        await before.done.wait()
        assert before.frame["result"]


# -- exchanges


@in_virtual_time
async def test_an_answer_that_comes_soon_is_json() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        sent = client.call(0)
        await settled()
        gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.response.headers == {"content-type": "application/json"}
        assert sent.frame["id"] == 0
        assert list(client.session._outlets) == [0]


@pytest.mark.parametrize("revision", LEGACY)
@in_virtual_time
async def test_a_stream_is_primed_for_clients_that_know_of_it_alone(revision: str) -> None:
    """Older ones take the empty event for a message."""
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(revision)
        sent, stream = client.call(1, token=1), client.get()
        await settled()
        gateway.calls[0].put(progress(1))
        gateway.calls[0].reply()
        await sent.done.wait()
        primed = revision in POLLING
        assert methods(sent) == ["notifications/progress", "answer"]
        assert sent.ids == [*(["1-0"] if primed else []), "1-1", "1-2"]
        assert [event.retry for event in sent.events][:1] == [1000 if primed else None]
        assert stream.ids == (["0-0"] if primed else [])
        assert stream.comments == 1  # at once


@in_virtual_time
async def test_a_cancelled_request_ends_without_an_answer() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        quiet = client.call(1)
        await settled()
        json_only = client.call("1", accept="application/json")
        await settled()
        streaming = client.call(2, token=1)
        await settled()
        gateway.calls[2].put(progress(1))
        await settled()
        for id in (1, "1", 2, 3, None):
            await client.cancel(id)
        for sent in (quiet, json_only, streaming):
            await sent.done.wait()
        assert [call.state for call in gateway.calls] == ["cancelled"] * 3
        assert (quiet.status, quiet.is_stream, quiet.frames, quiet.ids) == (200, True, [], [])
        assert (json_only.status, json_only.response.body) == (202, b"")
        assert methods(streaming) == ["notifications/progress"]
        assert (await client.ask(1, "ping")).frame["result"] == {}  # the id is free


@in_virtual_time
async def test_an_initialize_cannot_be_cancelled_nor_another_sessions_request() -> None:
    gateway = Slow()
    gateway.known.set()
    async with open_desk(gateway) as desk:
        client, other = await desk.open(), await desk.open()
        gateway.known = trio.Event()
        again = client.post(initialize(id=5))
        call = client.call(6)
        await settled()
        await client.cancel(5)
        await other.cancel(6)
        gateway.known.set()
        gateway.calls[0].reply()
        await again.done.wait()
        await call.done.wait()
        assert again.frame["result"]
        assert call.frame["result"]


@in_virtual_time
async def test_an_id_that_is_in_flight_cannot_be_used_again() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client, other = await desk.open(), await desk.open()
        first = client.call("a")
        await settled()
        assert code(await client.ask("a", "ping")) == (400, -32600)
        assert (await other.ask("a", "ping")).frame["result"] == {}
        first.hang_up()  # it is in flight all the same
        await settled()
        assert code(await client.ask("a", "ping")) == (400, -32600)
        gateway.calls[0].reply()
        await settled()
        assert (await client.ask("a", "ping")).frame["result"] == {}


@in_virtual_time
async def test_a_batch_is_answered_as_one() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_03_26)
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": CALL}
        sent = client.post([{**call, "id": 1}, {**call, "id": 1}, {**call, "id": 2}, initialize(id=3)])
        await settled()
        await client.cancel(2)
        gateway.calls[0].reply()
        gateway.calls[1].reply()
        await sent.done.wait()
        assert sent.response.headers == {"content-type": "application/json"}
        got = [(one["id"], one.get("error", {}).get("code")) for one in sent.frame]
        assert sorted(map(str, got)) == ["(1, -32600)", "(1, None)", "(3, -32600)"]
        empty = client.post([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}])
        await empty.done.wait()
        assert (empty.status, empty.response.body) == (202, b"")
        bad = client.post([7])
        await bad.done.wait()
        assert (bad.status, [one["error"]["code"] for one in bad.frame]) == (400, [-32600])


@in_virtual_time
async def test_so_many_are_in_flight_at_once_and_a_cancelled_one_makes_room() -> None:
    gateway = HttpGateway(max_in_flight=2)
    async with open_desk(gateway) as desk:
        client = await desk.open()
        calls = [client.call(id) for id in (1, 2)]
        await settled()
        assert code(await client.ask(3, "ping")) == (200, -32603)
        await client.cancel(1)
        assert (await client.ask(3, "ping")).frame["result"] == {}
        gateway.calls[0].reply()
        gateway.calls[1].reply()
        for call in calls:
            await call.done.wait()


@in_virtual_time
async def test_a_session_that_ends_while_a_post_waits_for_room_ends_nothing_else() -> None:
    gateway = HttpGateway(max_in_flight=1)
    async with open_desk(gateway) as desk:
        client = await desk.open()
        call = client.call(1)
        await settled()
        client.session.conversation._incoming.cancel(Raw(b"1"))  # its task has not ended yet
        late = client.start(2, "ping")
        await settled()
        assert not late.response.started
        assert (await client.delete()).status == 204
        await late.done.wait()
        await call.done.wait()
        assert late.status == 404
        assert (await desk.ask("POST", initialize())).status == 200


@in_virtual_time
async def test_a_thousand_in_flight_in_one_session() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        sents = [client.call(id, token=id) for id in range(1000)]
        await settled()
        for call in gateway.calls:
            call.put(progress(1))
        await settled()
        for call in gateway.calls:
            call.reply()
        for sent in sents:
            await sent.done.wait()
        assert {len(sent.frames) for sent in sents} == {2}
        assert client.session.conversation.in_flight == 0


# -- their end


@in_virtual_time
async def test_idle_sessions_end_and_those_in_use_do_not() -> None:
    gateway = HttpGateway(session_idle=100.0)
    async with open_desk(gateway) as desk:
        idle, streaming, calling, dropped = [await desk.open() for _ in range(4)]
        stream = streaming.get()
        call, gone = calling.call(1), dropped.call(1)
        await settled()
        gone.hang_up()
        await trio.sleep(100 + SWEEP + 1)
        assert (await idle.ask(1, "ping")).status == 404
        assert desk.endpoint.session_count == 3
        stream.hang_up()
        for one in gateway.calls:
            one.reply()
        await call.done.wait()
        await trio.sleep(90)
        for client in (streaming, calling, dropped):  # the last of them may come for an answer that it has missed
            assert (await client.ask(2, "ping")).status == 200
        await trio.sleep(100 + SWEEP + 1)
        assert desk.endpoint.session_count == 0


@in_virtual_time
async def test_pain_23_ten_thousand_sessions_come_and_go() -> None:
    """Ended by DELETE, by idling, by a client that never learnt of it: nothing remains of any."""
    gateway = HttpGateway(session_idle=100.0, max_sessions=20_000)
    async with open_desk(gateway) as desk:
        first = await desk.open()
        sessions = weakref.WeakSet[Any]()
        tasks = trio.lowlevel.current_statistics().tasks_living
        for number in range(10_000):
            client = await desk.open()
            sessions.add(client.session)
            if number % 3 == 0:
                assert (await client.delete()).status == 204
            elif number % 3 == 1:
                client.call(1).hang_up()
                client.get().hang_up()
            if number % 1000 == 0:
                assert (await first.ask(1, "ping")).status == 200
                await trio.sleep(100 + SWEEP + 1) if number % 5000 == 0 else None
                first = await desk.open()
        del client
        await trio.sleep(2 * (100 + SWEEP))
        for call in gateway.calls:
            call.reply()
        await trio.sleep(2 * (100 + SWEEP))
        assert desk.endpoint.session_count == 0
        assert desk.service.conversations == []
        assert gateway.watching == []
        assert trio.lowlevel.current_statistics().tasks_living <= tasks
        gc.collect()
        assert len(sessions) == 0


async def _drain(desk: Desk) -> None:
    await desk.endpoint.drain()


@in_virtual_time
async def test_at_the_end_what_is_owed_gets_its_time_and_then_a_farewell() -> None:
    gateway = Slow()
    gateway.known.set()
    async with open_desk(gateway) as desk, trio.open_nursery() as nursery:
        client = await desk.open(V2025_03_26)
        soon = client.call(1)
        await settled()
        never = client.call(2, token=1)
        await settled()
        batch = client.post([{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": CALL} for id in (3, 4)])
        stream = client.get()
        await settled()
        gateway.calls[1].put(progress(1))
        gateway.known = trio.Event()
        opening = desk.start("POST", initialize())
        await settled()
        nursery.start_soon(_drain, desk)
        await settled()
        assert stream.done.is_set()
        assert (await desk.ask("POST", initialize())).status == 503
        again = client.get()
        await again.done.wait()
        assert again.status == 503
        assert (await client.ask(9, "ping")).frame["error"]["code"] == -32603
        gateway.known.set()
        await opening.done.wait()
        opened = {"mcp-session-id": opening.response.headers["mcp-session-id"]}
        ping = await desk.ask("POST", {"jsonrpc": "2.0", "id": 9, "method": "ping"}, opened)
        assert ping.frame["error"]["code"] == -32603
        await client.cancel(99)
        gateway.calls[0].reply()
        gateway.calls[2].reply()
        await soon.done.wait()
        assert soon.frame["result"]
        await never.done.wait()
        await batch.done.wait()
        assert methods(never) == ["notifications/progress", "answer"]
        assert never.frames[-1]["error"]["code"] == -32603
        assert sorted("error" in one for one in batch.frame) == [False, True]


@in_virtual_time
async def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        slow = client.call(1, token=1)
        await settled()
        slow.response.stuck = trio.Event()
        for number in range(1, 1000):
            gateway.calls[0].put(progress(number, pad=1000))
        await settled()
        began = trio.current_time()
        await desk.endpoint.drain()
        assert trio.current_time() - began < 5
        assert gateway.calls[0].state == "cancelled"


class Broken(Exception):
    """A bug."""


@in_virtual_time
async def test_a_bug_in_what_a_session_runs_is_not_silent() -> None:
    gateway = HttpGateway()

    def broken(*_: Any) -> Any:
        raise Broken

    async def serve() -> None:
        async with open_desk(gateway) as desk:
            client = await desk.open()
            client.session.conversation.end = broken  # type: ignore[method-assign]
            client.call(1)
            await settled()
            gateway.calls[0].reply()
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await serve()
    assert caught.group_contains(Broken)
