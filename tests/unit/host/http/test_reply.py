"""The answer to one POST or GET: its forms, its pulse, and two who write to it at once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcpx.host.http.reply import EVENT_HEADERS, STREAM_AFTER, TICK, Reply, open_pulse
from mcpx.wire.sse import COMMENT
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import BOTH, FakeResponse, settled

KEEP_ALIVE = 5.0


def reply(response: FakeResponse, accept: str | None = BOTH, **how: Any) -> Reply:
    return Reply(response, accept, **how)  # type: ignore[arg-type]


async def test_a_stream_begins_once_with_what_it_begins_with() -> None:
    response, begun = FakeResponse(), []

    def begin() -> bytes:
        begun.append(1)
        return b"first "

    one = reply(response, begin=begin)
    await one.say(b"a ")
    await one.say(b"b ")
    await one.finish(b"message", lambda: b"c ")
    assert (response.body, begun) == (b"first a b c ", [1])
    assert response.headers == {name.lower(): value for name, value in EVENT_HEADERS.items()}


@pytest.mark.parametrize("streams", [True, False])
async def test_headers_go_with_either_form(streams: bool) -> None:
    response = FakeResponse()
    one = reply(response, "text/event-stream" if streams else BOTH)
    await one.finish(b"message", lambda: b"event", headers={"Mcp-Session-Id": "x"})
    assert response.body == (b"event" if streams else b"message")
    assert response.headers["mcp-session-id"] == "x"


async def test_nothing_to_say_invites_nobody_back() -> None:
    response = FakeResponse()
    await reply(response, begin=lambda: b"come back").finish_empty()
    assert response.body == COMMENT


@pytest.mark.parametrize("accept", [BOTH, "application/json"])
async def test_a_client_that_has_gone_is_no_failure(accept: str) -> None:
    response = FakeResponse()
    response.gone = True
    one = reply(response, accept)
    assert not one.gone
    await one.say(b"a")
    await one.finish(b"message", lambda: b"event")
    await one.beat()
    assert one.gone
    assert response.body == b""


@in_virtual_time
async def test_the_pulse_beats_after_the_first_second_and_then_now_and_then() -> None:
    response = FakeResponse()
    async with open_pulse(KEEP_ALIVE) as pulse:
        await trio.sleep(1000)  # with nobody to look after
        with pulse.keeping(reply(response)):
            await trio.sleep(STREAM_AFTER + TICK)
            assert response.body == COMMENT
            await trio.sleep(10 * (KEEP_ALIVE + TICK))
            assert 10 <= response.body.count(COMMENT) <= 13
        body = response.body
        await trio.sleep(1000)
        assert response.body == body


@in_virtual_time
async def test_who_says_something_needs_no_pulse() -> None:
    response = FakeResponse()
    async with open_pulse(KEEP_ALIVE) as pulse:
        one = reply(response)
        with pulse.keeping(one):
            for _ in range(100):
                await one.say(b".")
                await trio.sleep(STREAM_AFTER / 2)
        assert COMMENT not in response.body


@in_virtual_time
async def test_one_that_does_not_read_holds_up_no_other_and_gets_one_beat() -> None:
    slow, fast = FakeResponse(), FakeResponse()
    slow.stuck = trio.Event()
    async with open_pulse(KEEP_ALIVE) as pulse:
        with pulse.keeping(reply(slow)), pulse.keeping(reply(fast)):
            await trio.sleep(100)
            assert fast.body.count(COMMENT) >= 15
            slow.stuck.set()
            await settled()
            assert slow.body == COMMENT


@in_virtual_time
async def test_a_beat_that_is_being_written_when_the_answer_comes_is_written_whole_before_it() -> None:
    response = FakeResponse()
    response.stuck = trio.Event()
    async with open_pulse(KEEP_ALIVE) as pulse, trio.open_nursery() as nursery:
        one = reply(response)
        with pulse.keeping(one):
            await trio.sleep(STREAM_AFTER + TICK)
            nursery.start_soon(one.finish, b"message", lambda: b"event")
            await settled()
            assert response.body == b""
            response.stuck.set()
            await settled()
        assert response.body == COMMENT + b"event"


@in_virtual_time
async def test_no_beat_comes_behind_the_end() -> None:
    """A fake response refuses it, as what comes there would be part of the next answer on the connection."""
    response = FakeResponse()
    response.stuck = trio.Event()
    async with trio.open_nursery() as nursery:
        one = reply(response)
        nursery.start_soon(one.finish, b"message", lambda: b"event")
        await settled()
        nursery.start_soon(one.beat)  # decided on before the end, and waiting for its turn
        await settled()
        response.stuck.set()
        await settled()
        response.ended = True
        await one.beat()
    assert response.body == b"message"


@in_virtual_time
async def test_a_cancellation_that_came_before_a_write_does_not_cut_it() -> None:
    """Whoever writes next still can: a write that is cut off is the end of the connection."""
    response = FakeResponse()
    one = reply(response)
    await one.say(b"a ")
    with trio.CancelScope() as scope:
        scope.cancel()
        await one.say(b"never ")
    assert scope.cancelled_caught
    await one.finish(b"", lambda: b"b")
    assert response.body == b"a b"


@in_virtual_time
async def test_a_cancellation_in_the_very_turn_of_a_write_does_not_cut_it() -> None:
    for turns in range(8):
        response = FakeResponse()
        one = reply(response)
        await one.open()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, scope, turns)
                await one.say(b"a ")
        await one.finish(b"", lambda: b"b")
        assert response.body in (COMMENT + b"a b", COMMENT + b"b")


async def _cancel_after(scope: trio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await trio.lowlevel.cancel_shielded_checkpoint()
    scope.cancel()
