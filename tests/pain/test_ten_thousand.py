"""Kind 10, in numbers: ten thousand cancels leave nothing behind. In one process, so that its tables can be counted."""

from __future__ import annotations

import gc
import json
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.gateway import open_gateway
from mcpx.host.connection import serve_channel
from mcpx.host.service import Service
from mcpx.settings import ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY
from mcpx.transports.memory import MemoryChannel, memory_channel_pair
from mcpx.wire.peer import Incoming, Outgoing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ROUNDS, AT_ONCE = 100, 100


class NeverAnswers:
    """An upstream within the process that lists one tool and never answers a call of it."""

    def __init__(self) -> None:
        self.called: list[int] = []
        self.cancelled: list[int] = []

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MemoryChannel]:
        ours, theirs = memory_channel_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve, theirs)
            yield ours
            nursery.cancel_scope.cancel()

    async def _serve(self, channel: MemoryChannel) -> None:
        while messages := await channel.receive():
            for message in messages:
                frame = json.loads(message)
                if frame["method"] == "tools/call":
                    self.called.append(frame["id"])
                elif frame["method"] == "notifications/cancelled":
                    self.cancelled.append(frame["params"]["requestId"])
                elif (answer := _ANSWERS.get(frame["method"])) is not None:
                    await channel.send(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **answer}).encode())


_ANSWERS: dict[str, Any] = {
    "server/discover": {"error": {"code": -32601, "message": "no"}},
    "initialize": {
        "result": {
            "protocolVersion": LATEST_LEGACY,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "n", "version": "1"},
        }
    },
    "tools/list": {"result": {"tools": [{"name": "never", "inputSchema": {"type": "object"}}]}},
}


def _census() -> tuple[Counter[str], int]:
    """How many objects of each type of mcpx there are, how full its tables of ids; and how many tasks."""
    gc.collect()
    # Not every type has a text there: what comes out of C may have a descriptor.
    ours = [one for one in gc.get_objects() if str(type(one).__module__).startswith("mcpx.")]
    found = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in ours)
    found.update({f"in {type(one).__name__}": len(one) for one in ours if isinstance(one, Incoming | Outgoing)})
    return found, trio.lowlevel.current_statistics().tasks_living


@pytest.mark.deadline(90)
async def test_pain_10_ten_thousand_cancels_leave_nothing() -> None:
    """Each cancel goes upstream once with the upstream's id, and afterwards every table is as full as before."""
    upstream = NeverAnswers()
    server = ServerSettings(name="one", builtin="demo")
    ours, theirs = memory_channel_pair()
    async with (
        open_gateway(Settings(servers=(server,)), builtins={"demo": upstream.open}, environ={}) as gateway,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(
            lambda: serve_channel(Service(gateway), theirs, host="h", transport="memory", drain=lambda: 0)
        )
        await ours.send(b'{"jsonrpc":"2.0","id":"list","method":"tools/list"}')
        assert b'"one__never"' in (await ours.receive())[0]
        await _round(ours, upstream, 0)
        before = _census()
        for number in range(1, ROUNDS + 1):
            await _round(ours, upstream, number)
        assert _census() == before
        nursery.cancel_scope.cancel()
    assert len(upstream.called) == len(set(upstream.called)) == (ROUNDS + 1) * AT_ONCE
    assert sorted(upstream.cancelled) == sorted(upstream.called)


async def _round(host: MemoryChannel, upstream: NeverAnswers, number: int) -> None:
    """A hundred calls, cancelled once they are all at the upstream."""
    for call in range(AT_ONCE):
        params = {"name": "one__never", "arguments": {"round": number}}
        frame = {"jsonrpc": "2.0", "id": f"c{call}", "method": "tools/call", "params": params}
        await host.send(json.dumps(frame).encode())
    await trio.testing.wait_all_tasks_blocked()
    assert len(upstream.called) == (number + 1) * AT_ONCE
    for call in range(AT_ONCE):
        frame = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"c{call}"}}
        await host.send(json.dumps(frame).encode())
    await trio.testing.wait_all_tasks_blocked()
    assert len(upstream.cancelled) == (number + 1) * AT_ONCE
