"""JSON-RPC batches, which one revision has (LV-12)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from mcpx.spec.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_MODERN, LEGACY, V2025_03_26
from tests.support.running import in_virtual_time
from tests.unit.host.talk import FakeGateway, open_talk

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(id: Any, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "x", **params}}


async def test_answers_come_back_as_one_batch() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_03_26)
        await talk.say([PING, NOTE, call("a"), call("b")])
        assert await talk.hear_all() == []
        for one in gateway.calls:
            one.reply()
        batch = await talk.hear()
        assert {frame["id"] for frame in batch} == {1, "a", "b"}
        assert all("result" in frame for frame in batch)
        assert await talk.hear_all() == []


async def test_what_is_wrong_in_a_batch_is_answered_in_it() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.shake(V2025_03_26)
        meta = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}}
        await talk.say(
            [
                {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {}},
                7,
                call(None),
                call("m", _meta=meta),
                PING,
                PING,
                {"jsonrpc": "2.0", "id": "u", "method": "no/such"},
                {"jsonrpc": "2.0", "id": 5, "result": {}},
            ]
        )
        batch = await talk.hear()
        told = sorted((str(frame["id"]), frame.get("error", {}).get("code")) for frame in batch if "error" in frame)
        assert told == [("1", -32600), ("None", -32600), ("None", -32600), ("i", -32600), ("m", -32600), ("u", -32601)]
        assert [frame["id"] for frame in batch if "result" in frame] == [1]
        await talk.ask(9, "no/such")  # the initialize in it has changed nothing
        await talk.write(b"noise")
        assert {frame["id"] for frame in await talk.hear_all()} == {9, None}


async def test_a_batch_that_owes_nothing_gets_nothing() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.shake(V2025_03_26)
        await talk.say([NOTE, NOTE, {"jsonrpc": "2.0", "id": 1, "result": {}}])
        assert await talk.hear_all() == []


async def test_a_batch_of_refusals_alone_is_a_batch() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.shake(V2025_03_26)
        await talk.say([1, 2])
        assert [frame["error"]["code"] for frame in await talk.hear()] == [-32600, -32600]


async def test_a_cancelled_member_is_left_out() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_03_26)
        await talk.say([call(1), call(2)])
        await trio.testing.wait_all_tasks_blocked()
        await talk.notify("notifications/cancelled", {"requestId": 1})
        await trio.testing.wait_all_tasks_blocked()
        next(one for one in gateway.calls if one.state == "open").reply()
        assert [frame["id"] for frame in await talk.hear()] == [2]
        await talk.say([call(3)])
        await talk.notify("notifications/cancelled", {"requestId": 3})
        assert await talk.hear_all() == []


@pytest.mark.parametrize("line", [b"[]", b"[1", b"[1]"])
async def test_a_batch_that_is_none(line: bytes) -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.shake(V2025_03_26)
        await talk.write(line)
        frame = await talk.hear()
        expected = {b"[]": -32600, b"[1": -32700}
        if line in expected:
            assert frame["error"]["code"] == expected[line]
            assert frame["id"] is None
        else:
            assert [one["error"]["code"] for one in frame] == [-32600]


@pytest.mark.parametrize("revision", [None, *(one for one in LEGACY if one != V2025_03_26)])
async def test_a_batch_in_any_other_revision_is_refused_whole(revision: str | None) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        if revision is not None:
            await talk.shake(revision)
        await talk.say([PING, call(2)])
        frame = await talk.hear()
        assert frame["error"]["code"] == -32600
        assert frame.get("id") is None
        assert await talk.hear_all() == []
        assert not gateway.calls


@in_virtual_time
async def test_a_batch_that_the_end_cuts_short_is_told_whole() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, drain=1) as talk:
        await talk.shake(V2025_03_26)
        await talk.say([PING, call(2)])
        await trio.testing.wait_all_tasks_blocked()
        talk.channel._outbox.end()
        await talk.ended.wait()
        batch = await talk.hear()
        assert {frame["id"]: "error" in frame for frame in batch} == {1: False, 2: True}
