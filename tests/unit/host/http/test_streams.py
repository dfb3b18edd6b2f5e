"""The streams of legacy sessions: what each shows, to whom, and how a client comes back to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.host.changes import QUIET
from mcpx.host.http.endpoint import POLL_AFTER
from mcpx.host.http.outlet import MAX_UNSEEN
from mcpx.host.http.reply import STREAM_AFTER, TICK
from mcpx.host.http.sessions import SWEEP
from mcpx.spec.revisions import (
    LEGACY,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
)
from mcpx.upstream.call import Change
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import HttpGateway, methods, open_desk, progress, settled

if TYPE_CHECKING:
    from tests.unit.host.http.desk import Client, Sent

TOOLS, PROMPTS = Change("one", "tools"), Change("one", "prompts")


# -- connections that break, and clients that come back


async def _dropped(client: Client, gateway: HttpGateway, **headers: Any) -> str:
    """A call whose stream breaks after some progress; the last event id that its client has."""
    sent = client.call(1, token=1, **headers)
    await settled()
    gateway.calls[-1].put(progress(1))
    await settled()
    sent.hang_up()
    await settled()
    assert gateway.calls[-1].state == "open"
    return sent.ids[-1] or ""


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("when", ["before", "after"])
@in_virtual_time
async def test_a_dropped_connection_cancels_nothing_and_its_answer_can_be_fetched(revision: str, when: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(revision)
        last = await _dropped(client, gateway)
        gateway.calls[0].put(progress(2))
        if when == "before":
            gateway.calls[0].reply()
            await settled()
        back = client.resume(last)
        await settled()
        if when == "after":
            gateway.calls[0].reply()
        await back.done.wait()
        assert methods(back) == ["notifications/progress", "answer"]
        assert back.frames[0]["params"]["progress"] == 2
        assert back.frames[1]["id"] == 1
        again = client.resume(last)
        await again.done.wait()
        assert again.frames == back.frames  # should the connection have dropped once more


@in_virtual_time
async def test_an_answer_that_nobody_could_come_back_for_is_not_kept() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        sent = client.call(1)
        await settled()
        sent.hang_up()
        await settled()
        assert gateway.calls[0].state == "open"
        gateway.calls[0].reply()
        await settled()
        assert gateway.calls[0].state == "done"
        assert list(client.session._outlets) == [0]


@in_virtual_time
async def test_only_the_stream_that_is_named_is_replayed_and_only_in_its_session() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client, other = await desk.open(V2025_03_26), await desk.open(V2025_03_26)
        last = await _dropped(client, gateway)
        gateway.calls[0].reply()
        gateway.change(TOOLS)
        await settled()
        wrong = other.resume(last)
        await wrong.done.wait()
        assert wrong.status == 400
        back = client.resume(last)
        await back.done.wait()
        assert methods(back) == ["answer"]
        stream = client.get()
        await settled()
        assert methods(stream) == ["notifications/tools/list_changed"]


@pytest.mark.parametrize("last", ["99-1", "1-1"])
@in_virtual_time
async def test_what_is_not_kept_any_more_cannot_be_resumed(last: str) -> None:
    gateway = HttpGateway(replay_time=60.0)
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_03_26)
        assert await _dropped(client, gateway) == "1-1"
        gateway.calls[0].reply()
        await trio.sleep(60 + SWEEP + 1)
        back = client.resume(last)
        await back.done.wait()
        assert back.status == 400
        assert list(client.session._outlets) == [0]
        assert (await client.ask(1, "ping")).status == 200


@pytest.mark.parametrize("last", ["", "x", "1", "0-0", "0-99"])
@in_virtual_time
async def test_any_other_last_event_id_opens_the_stream_of_what_is_said_unasked(last: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_03_26)
        stream = client.resume(last)
        await settled()
        gateway.change(TOOLS)
        await settled()
        assert methods(stream) == ["notifications/tools/list_changed"]


@in_virtual_time
async def test_the_replay_is_bounded_in_bytes() -> None:
    gateway = HttpGateway(replay_bytes=10_000)
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_03_26)
        last = await _dropped(client, gateway)
        for number in range(2, 1000):
            gateway.calls[0].put(progress(number, pad=100))
        gateway.calls[0].reply()
        await settled()
        assert client.session._replay._size <= 10_000
        back = client.resume(last)
        await back.done.wait()
        numbers = [frame["params"]["progress"] for frame in back.frames[:-1]]
        assert numbers == list(range(numbers[0], 1000))
        assert back.frames[-1]["id"] == 1


@in_virtual_time
async def test_a_client_that_comes_back_is_given_the_rest_of_what_an_old_connection_was() -> None:
    """The old one may seem to be open for long; it gets nothing more, and ends with the stream."""
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_03_26)
        old = client.call(1, token=1)
        await settled()
        gateway.calls[0].put(progress(1))
        await settled()
        back = client.resume(old.ids[-1])
        await settled()
        gateway.calls[0].put(progress(2))
        gateway.calls[0].reply()
        await back.done.wait()
        await old.done.wait()
        assert methods(old) == ["notifications/progress"]
        assert methods(back) == ["notifications/progress", "answer"]


@in_virtual_time
async def test_a_long_stream_is_closed_for_clients_that_poll_and_for_no_others() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        polling, older = await desk.open(V2025_11_25), await desk.open(V2025_06_18)
        sent = polling.call(1)
        await settled()
        stays = older.call(1)
        await settled()
        plain = polling.call(2, accept="application/json")
        await settled()
        stream = polling.get()
        await trio.sleep(POLL_AFTER + 2)
        assert sent.done.is_set()
        assert stream.done.is_set()
        assert not stays.done.is_set()
        assert not plain.response.started
        assert sent.ids[-1] in ("1-0", "2-0")  # it and the plain one took tasks at the same time, in whatever order
        assert (sent.events[-1].retry, sent.frames) == (1000, [])
        back = polling.resume(sent.ids[-1])
        await settled()
        for call in gateway.calls:
            call.reply()
        for one in (back, stays, plain):
            await one.done.wait()
            assert one.frame["result"]


# -- what is said unasked


@in_virtual_time
async def test_changes_wait_for_a_stream_and_for_the_handshake() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(initialized=False)
        stream = client.get()
        await settled()
        gateway.change(TOOLS)
        await settled()
        assert stream.frames == []
        await client.notify("notifications/initialized")
        stream.hang_up()
        await settled()
        gateway.change(TOOLS, PROMPTS, TOOLS)
        call = client.call(1)  # no place for what is said unasked
        await settled()
        gateway.calls[0].reply()
        await call.done.wait()
        assert methods(call) == ["answer"]
        await trio.sleep(1000)
        stream = client.get()
        await settled()
        assert methods(stream) == ["notifications/tools/list_changed", "notifications/prompts/list_changed"]
        await trio.sleep(QUIET)
        gateway.change(PROMPTS)
        await settled()
        assert methods(stream)[2:] == ["notifications/prompts/list_changed"]


@in_virtual_time
async def test_of_several_streams_the_newest_has_each_message_alone() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        first = client.get()
        await settled()
        gateway.change(TOOLS)
        await settled()
        second = client.get()
        await settled()
        gateway.change(PROMPTS)
        await settled()
        second.hang_up()
        await trio.sleep(QUIET)
        gateway.change(TOOLS)
        await settled()
        tools, prompts = ("notifications/tools/list_changed", "notifications/prompts/list_changed")
        assert methods(first) == [tools, tools]
        assert methods(second) == [prompts]
        # what was lost with the connection can be had
        assert methods(await _looked(client.resume("0-1")))[:1] == [prompts]


async def _looked(stream: Sent) -> Sent:
    await settled()
    return stream


@in_virtual_time
async def test_a_client_that_has_gone_takes_no_change_with_it() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        gateway.change(TOOLS)
        await settled()
        gone = client.get()
        gone.response.gone = True  # which shows when it is written to
        await gone.done.wait()
        assert methods(await _looked(client.get())) == ["notifications/tools/list_changed"]


@in_virtual_time
async def test_a_get_that_takes_no_events_is_refused() -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = (await desk.open()).get(accept="application/json")
        await sent.done.wait()
        assert sent.status == 406


@pytest.mark.parametrize("revision", [V2024_11_05, V2025_11_25])
@in_virtual_time
async def test_every_stream_is_kept_alive(revision: str) -> None:
    gateway = HttpGateway(keep_alive=10.0)
    async with open_desk(gateway) as desk:
        client = await desk.open(revision)
        stream, call = client.get(), client.call(1)
        await trio.sleep(STREAM_AFTER + TICK)
        assert (stream.comments, call.comments) == (1, 1)
        await trio.sleep(10 * (10 + TICK))
        assert 10 <= stream.comments <= 12
        assert 10 <= call.comments <= 12


# -- clients that do not read


@in_virtual_time
async def test_a_client_that_does_not_read_one_stream_holds_up_that_one_alone() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        slow = client.call(1, token=1)
        await settled()
        slow.response.stuck = trio.Event()
        for number in range(1, 1001):
            gateway.calls[0].put(progress(number, pad=1000))
        await settled()
        session = client.session
        assert sum(len(said.message) for said in session.find(1)._said) < 2 * MAX_UNSEEN + 2000  # type: ignore[union-attr]
        assert session._replay._size < 2 * MAX_UNSEEN
        fast, stream = client.call(2, token=2), client.get()
        await settled()
        for number in range(1000):
            gateway.calls[1].put(progress(number))
        gateway.calls[1].reply()
        gateway.change(TOOLS)
        await fast.done.wait()
        assert len(fast.frames) == 1001
        await settled()
        assert len(stream.frames) == 1
        slow.response.stuck.set()
        gateway.calls[0].reply()
        await slow.done.wait()
        assert len(slow.frames) == 1001


@in_virtual_time
async def test_what_a_client_does_not_fetch_keeps_nothing_else() -> None:
    """A change waits for a stream; meanwhile the session is used a lot, and what it keeps stays bounded."""
    gateway = HttpGateway(replay_bytes=10_000)
    async with open_desk(gateway) as desk:
        client = await desk.open()
        stream = client.get()
        await settled()
        stream.hang_up()
        await settled()
        gateway.change(TOOLS)
        for id in range(200):
            sent = client.call(id, token=1)
            await settled()
            gateway.calls[-1].put(progress(1, pad=1000))
            gateway.calls[-1].reply()
            await sent.done.wait()
        assert client.session._replay._size <= 10_000
        await trio.sleep(SWEEP + 1)
        assert len(client.session._outlets) < 15
        assert methods(await _looked(client.get())) == ["notifications/tools/list_changed"]
