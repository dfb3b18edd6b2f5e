"""What every channel promises, held against each kind of them."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcpx.transports.memory import memory_channel_pair
from mcpx.transports.streams import open_line_channel
from tests.support.running import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from mcpx.transports.channel import Channel
    from mcpx.transports.memory import MemoryChannel
    from mcpx.transports.streams import LineChannel

    End = LineChannel | MemoryChannel
    Opener = Callable[..., AbstractAsyncContextManager[tuple[End, End]]]

BOUND = 100
BIG = b"[" + b"7," * 200_000 + b"7]"


@asynccontextmanager
async def over_streams() -> AsyncGenerator[tuple[End, End]]:
    """Two line channels over streams that pass on a write only once it is being read."""
    left, right = trio.testing.lockstep_stream_pair()
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(open_line_channel(left, left, max_frame=10**6, max_pending=BOUND)),
            await stack.enter_async_context(open_line_channel(right, right, max_frame=10**6, max_pending=BOUND)),
        )


@asynccontextmanager
async def in_memory() -> AsyncGenerator[tuple[End, End]]:
    left, right = memory_channel_pair(max_pending=BOUND)
    with left, right:
        yield left, right


kinds = pytest.mark.parametrize("pair", [over_streams, in_memory], ids=["streams", "memory"])


async def close(channel: End) -> None:
    closing = channel.close()
    if closing is not None:
        await closing


async def receive(channel: Channel, count: int) -> list[object]:
    received: list[object] = []
    while len(received) < count:
        batch = await channel.receive()
        assert batch, "the stream ended"
        received += batch
    assert len(received) == count
    return received


@kinds
@in_virtual_time
async def test_messages_arrive_whole_and_in_order_both_ways(pair: Opener) -> None:
    messages = [b'{"n":%d}' % number for number in range(1000)] + [BIG, b"{}"]
    async with pair() as (left, right), trio.open_nursery() as nursery:

        async def talk(channel: Channel) -> None:
            for message in messages:
                await channel.send(message)

        nursery.start_soon(talk, left)
        nursery.start_soon(talk, right)
        assert await receive(right, len(messages)) == messages
        assert await receive(left, len(messages)) == messages


@kinds
@in_virtual_time
async def test_send_waits_while_more_than_the_bound_is_pending_and_in_turn(pair: Opener) -> None:
    async with pair() as (left, right), trio.open_nursery() as nursery:
        left.send_nowait(b"1" * (BOUND + 1))
        sent: list[bytes] = []

        async def send(message: bytes) -> None:
            await left.send(message)
            sent.append(message)

        for number in range(5):
            nursery.start_soon(send, b"%d" % number)
            await trio.testing.wait_all_tasks_blocked()
        assert sent == []
        assert await receive(right, 6) == [b"1" * (BOUND + 1), b"0", b"1", b"2", b"3", b"4"]
        await trio.testing.wait_all_tasks_blocked()
        assert sent == [b"0", b"1", b"2", b"3", b"4"]


@kinds
@in_virtual_time
async def test_a_send_cancelled_while_it_waits_sends_nothing(pair: Opener) -> None:
    async with pair() as (left, right):
        left.send_nowait(b"1" * (BOUND + 1))
        with trio.move_on_after(1) as scope:
            await left.send(b"2")
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            scope.cancel()
            await left.send(b"3")
        assert scope.cancelled_caught
        left.send_nowait(b"4")
        assert await receive(right, 2) == [b"1" * (BOUND + 1), b"4"]


@kinds
@in_virtual_time
async def test_what_was_queued_is_sent_whole_though_its_sender_is_cancelled(pair: Opener) -> None:
    async with pair() as (left, right):
        with trio.CancelScope() as scope:
            await left.send(BIG)
            scope.cancel()
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert await receive(right, 1) == [BIG]


@kinds
@in_virtual_time
async def test_send_nowait_goes_over_the_bound(pair: Opener) -> None:
    async with pair() as (left, right):
        for _ in range(10):
            left.send_nowait(b"1" * BOUND)
        assert await receive(right, 10) == [b"1" * BOUND] * 10


@kinds
@in_virtual_time
async def test_flush_waits_for_what_is_queued_and_no_more(pair: Opener) -> None:
    async with pair() as (left, right), trio.open_nursery() as nursery:
        await left.flush()
        left.send_nowait(b"1")
        flushed = trio.Event()

        async def flush() -> None:
            await left.flush()
            flushed.set()

        nursery.start_soon(flush)
        await trio.testing.wait_all_tasks_blocked()
        assert not flushed.is_set()
        left.send_nowait(b"2")
        await right.receive()
        await trio.testing.wait_all_tasks_blocked()
        assert flushed.is_set()


@kinds
@in_virtual_time
async def test_a_peer_that_goes_lets_go_whoever_waits_for_it(pair: Opener) -> None:
    ended: list[str] = []
    async with pair() as (left, right), trio.open_nursery() as nursery:
        left.send_nowait(b"1" * (BOUND + 1))

        async def run(name: str) -> None:
            await (left.flush() if name == "flush" else left.send(b"2"))
            ended.append(name)

        for name in ("flush", "send", "send"):
            nursery.start_soon(run, name)
        await trio.testing.wait_all_tasks_blocked()
        assert ended == []
        await close(right)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(ended) == ["flush", "send", "send"]
        left.send_nowait(b"3")
        await left.send(b"4")
        await left.flush()


@kinds
@in_virtual_time
async def test_the_end_comes_after_the_last_message_and_stays(pair: Opener) -> None:
    async with pair() as (left, right):
        async with trio.open_nursery() as nursery:
            left.send_nowait(b"1")

            async def leave() -> None:
                await left.flush()
                await close(left)

            nursery.start_soon(leave)
            assert await receive(right, 1) == [b"1"]
        assert await right.receive() == []
        assert await right.receive() == []
