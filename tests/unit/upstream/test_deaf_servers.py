"""Servers that do not read what they are sent: what is queued for them has bounds in time and in number."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from msgspec import Raw

from mcpx.errors import UpstreamTimeout
from mcpx.transports import MemoryChannel, memory_channel_pair
from mcpx.upstream.clock import CallClock
from mcpx.upstream.connection import MAX_ANSWERS, Connection, open_connection
from mcpx.upstream.pending import PendingCall
from mcpx.wire import frames
from tests.support.running import run_in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[Connection, MemoryChannel]]:
    """A connection whose server holds no more than a kilobyte unread."""

    async def ended() -> str:
        return "It ended."

    ours, theirs = memory_channel_pair(max_pending=1024)
    with theirs:
        async with open_connection("deaf", ours, ended) as connection:
            yield connection, theirs


def call(connection: Connection, idle: float = 300, total: float = 3600) -> PendingCall:
    return PendingCall(
        connection,
        lambda number: frames.encode(frames.request(Raw(b"%d" % number), "tools/call", {"x": "x" * 2000})),
        CallClock(idle, total),
    )


@pytest.mark.parametrize(("idle", "total", "waited"), [(5, 60, 5), (60, 7, 7)])
def test_a_request_that_the_server_does_not_take_times_out_and_is_never_sent(
    idle: float, total: float, waited: float
) -> None:
    async def test() -> None:
        async with connected() as (connection, server):
            with call(connection) as first, call(connection, idle, total) as second:
                await first.send()
                start = trio.current_time()
                with pytest.raises(UpstreamTimeout, match=f"did not read .* within {waited} s"):
                    await second.next_raw()
                assert trio.current_time() - start == waited
                assert connection.in_flight == 1
            assert connection.in_flight == 0
            said = [line for line in await server.receive() if isinstance(line, bytes)]
            assert [b"cancelled" in line for line in said] == [False, True]  # the first alone, and its cancellation

    run_in_virtual_time(test)


def test_what_a_server_can_do_without_is_not_kept_for_one_that_does_not_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with connected() as (connection, server):
            for number in range(1000):
                connection.offer("acme/told", {"number": number, "x": "x" * 500})
            said = await server.receive()
            assert len(said) == 2  # of 1024 bytes, and one more to fill them
            connection.offer("acme/told", {"number": "last"})
            assert [b"last" in line for line in await server.receive() if isinstance(line, bytes)] == [True]

    run_in_virtual_time(test)
    assert "was not told 'acme/told'" in caplog.text


def test_a_server_that_asks_without_end_and_reads_no_answer_is_given_up() -> None:
    async def test() -> None:
        async with connected() as (connection, server):
            for number in range(MAX_ANSWERS // 2):
                server.send_nowait(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number)
            await trio.sleep(1)
            assert not connection.closed.is_set()
            for number in range(2 * MAX_ANSWERS):
                server.send_nowait(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number)
            await trio.sleep(1)
            assert connection.closed.is_set()
            assert "does not read" in connection.end_reason

    run_in_virtual_time(test)


def test_every_question_of_a_server_that_reads_is_answered_in_order() -> None:
    async def test() -> None:
        async with connected() as (connection, server):
            answers: list[bytes] = []

            async def read() -> None:
                while len(answers) < 5 * MAX_ANSWERS:
                    answers.extend(line for line in await server.receive() if isinstance(line, bytes))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                for number in range(5 * MAX_ANSWERS):
                    await server.send(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number)
            assert not connection.closed.is_set()
            assert [frames.decode_frame(answer).id for answer in answers] == [
                Raw(b"%d" % number) for number in range(5 * MAX_ANSWERS)
            ]

    run_in_virtual_time(test)
