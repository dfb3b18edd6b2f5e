"""Servers that say nothing for a while: nothing of what they said is held meanwhile."""

from __future__ import annotations

import sys

import trio.testing

from mcpx.transports import memory_channel_pair
from mcpx.upstream.clock import CallClock
from mcpx.upstream.connection import open_connection
from mcpx.upstream.pending import PendingCall


async def test_of_an_idle_server_no_message_is_held() -> None:
    """Its last answer may be large, and nobody may ask it anything again."""

    async def ended() -> str:
        return "It ended."

    ours, theirs = memory_channel_pair()
    with theirs:
        async with open_connection("idle", ours, ended) as connection:
            line = b'{"jsonrpc":"2.0","id":1,"result":{"x":"%b"}}' % (b"x" * 100_000)
            held = sys.getrefcount(line)
            with PendingCall(connection, lambda number: b"{}", CallClock(60, 60)) as call:
                await call.send()
                await theirs.send(line)
                assert await call.next_raw()
            del call
            await trio.testing.wait_all_tasks_blocked()
            assert sys.getrefcount(line) == held
