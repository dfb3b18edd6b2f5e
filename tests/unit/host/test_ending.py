"""How a connection ends: what is owed gets a bounded time, and what cannot be had is said."""

from __future__ import annotations

import trio
import trio.testing

from mcpx.host.connection import serve_channel
from mcpx.host.service import Service
from mcpx.spec.revisions import LATEST_MODERN, V2025_11_25
from mcpx.transports.memory import memory_channel_pair
from mcpx.upstream.call import Reply
from tests.support.running import in_virtual_time
from tests.unit.host.talk import TEXT, FakeGateway, open_talk

STOPPING = {"code": -32603, "message": "mcpx is stopping", "data": {"reason": "mcpx is stopping"}}


@in_virtual_time
async def test_at_the_end_of_the_stream_answers_that_come_in_time_go_out() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, drain=2) as talk:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        talk.channel._outbox.end()  # the host's stdin ends; it still reads
        await trio.sleep(1.5)
        gateway.calls[0].reply()
        assert (await talk.hear())["id"] == 1
        await trio.sleep(0.25)
        assert not talk.ended.is_set()
        gateway.calls[1].reply()
        assert (await talk.hear())["id"] == 2
        await talk.ended.wait()
        assert trio.current_time() == start + 1.75  # and no longer


@in_virtual_time
async def test_what_does_not_come_in_time_is_cancelled_and_told() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, drain=2) as talk:
        await talk.call(1)
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        talk.channel._outbox.end()
        await talk.ended.wait()
        assert trio.current_time() == start + 2
        assert await talk.hear() == {"jsonrpc": "2.0", "id": 1, "error": STOPPING}
        assert [call.state for call in gateway.calls] == ["cancelled"]
        assert await talk.hear_all() == []


@in_virtual_time
async def test_an_answer_that_a_slow_host_has_not_taken_is_still_the_answer() -> None:
    gateway = FakeGateway(Reply(TEXT, LATEST_MODERN, "one"))
    async with open_talk(gateway, drain=1, listens=False, max_pending=1) as talk:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        talk.channel._outbox.end()
        await talk.ended.wait()
        messages = await talk.channel.receive()
        assert [b'"result"' in message for message in messages] == [True, True]  # type: ignore[operator]


@in_virtual_time
async def test_a_stop_lets_no_more_in_but_reading_goes_on() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, drain=2) as talk:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        talk.stop.set()
        await trio.testing.wait_all_tasks_blocked()
        await talk.call(3)
        assert await talk.hear() == {"jsonrpc": "2.0", "id": 3, "error": STOPPING}
        await talk.notify("notifications/cancelled", {"requestId": 1})
        await trio.testing.wait_all_tasks_blocked()
        assert [call.state for call in gateway.calls] == ["cancelled", "open"]
        gateway.calls[1].reply()
        assert (await talk.hear())["id"] == 2
        await talk.ended.wait()
        assert trio.current_time() < 1


@in_virtual_time
async def test_a_stop_hastens_an_end_that_has_begun() -> None:
    times = iter([100.0, 1.0])
    ours, theirs = memory_channel_pair()
    gateway, stop = FakeGateway(), trio.Event()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            with theirs:
                await serve_channel(
                    Service(gateway), theirs, host="h", transport="memory", drain=lambda: next(times), stop=stop
                )  # type: ignore[arg-type]

        nursery.start_soon(serve)
        await ours.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}')
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        ours._outbox.end()
        await trio.sleep(5)
        stop.set()
    assert trio.current_time() == start + 6


@in_virtual_time
async def test_an_idle_connection_ends_at_once() -> None:
    async with open_talk(FakeGateway(), drain=100) as talk:
        await talk.shake(V2025_11_25)
        talk.channel._outbox.end()
        await talk.ended.wait()
        assert trio.current_time() == 0


async def test_a_connection_that_breaks_ends() -> None:
    class Broken:
        sent: list[bytes] = []  # noqa: RUF012

        async def receive(self) -> list[bytes]:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError from ConnectionResetError("reset")

        async def send(self, message: bytes) -> None:
            raise AssertionError

    await serve_channel(Service(FakeGateway()), Broken(), host="h", transport="memory", drain=lambda: 0)  # type: ignore[arg-type]


async def test_cancelled_from_outside_it_says_farewell_and_lets_the_cancellation_through() -> None:
    ours, theirs = memory_channel_pair()
    gateway = FakeGateway()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await serve_channel(Service(gateway), theirs, host="h", transport="memory", drain=lambda: 100)  # type: ignore[arg-type]

            nursery.start_soon(serve)
            await ours.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}')
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert gateway.calls[0].state == "cancelled"
    assert [b"mcpx is stopping" in message for message in await ours.receive()] == [True]  # type: ignore[operator]
