"""Word of changed lists: to legacy hosts that were promised it, merged while they are slow."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY
from mcpx.upstream.call import Change, Identity
from tests.unit.host.talk import FakeGateway, open_talk

TOOLS, PROMPTS, RESOURCES = Change("one", "tools"), Change("one", "prompts"), Change("two", "resources")


def told(kind: str) -> dict[str, str]:
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_legacy_host_hears_of_changes_unasked(revision: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(revision)
        gateway.change(TOOLS, RESOURCES, PROMPTS)
        assert await talk.hear_all() == [told("tools"), told("resources"), told("prompts")]
        gateway.change(TOOLS)
        assert await talk.hear_all() == [told("tools")]


async def test_nobody_hears_before_the_handshake_is_over() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.notify("notifications/initialized")  # of a handshake that never was
        await talk.ask(0, "tools/list")
        await talk.hear()
        gateway.change(TOOLS)
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        await talk.hear()
        gateway.change(TOOLS)
        assert await talk.hear_all() == []
        assert gateway.watching == []
        await talk.notify("initialized")
        await trio.testing.wait_all_tasks_blocked()
        gateway.change(TOOLS)
        assert await talk.hear_all() == [told("tools")]


async def test_a_modern_host_hears_nothing_unasked() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.ask(1, "server/discover", revision=LATEST_MODERN)
        await talk.hear()
        await talk.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        gateway.change(TOOLS, PROMPTS, RESOURCES)
        assert await talk.hear_all() == []


async def test_only_what_was_promised_is_told() -> None:
    gateway = FakeGateway(passthrough=True)
    gateway.said = Identity(None, {"tools": Raw(b'{"listChanged":true}'), "prompts": Raw(b'{"listChanged":false}')})
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        gateway.change(PROMPTS, RESOURCES, TOOLS, Change("one", "resources", "file:///x"))
        assert await talk.hear_all() == [told("tools")]


async def test_the_update_of_one_resource_is_not_told() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        gateway.change(Change("one", "resources", "file:///x"))
        assert await talk.hear_all() == []


async def test_a_second_handshake_takes_over_and_a_second_initialized_does_nothing() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await talk.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        assert len(gateway.watching) == 1
        first = gateway.watching[0][0]
        await talk.shake(LATEST_LEGACY, capabilities={"roots": {}})
        assert len(gateway.watching) == 1
        assert gateway.watching[0][0] is not first
        assert gateway.watching[0][0].capabilities == {"roots": Raw(b"{}")}
        gateway.change(TOOLS)
        assert await talk.hear_all() == [told("tools")]


async def test_a_thousand_changes_while_a_host_is_slow_are_one_of_each_kind() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, listens=False) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        await talk.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()  # the answer is in the pipe, and the host does not take it
        for _ in range(1000):
            gateway.change(TOOLS, RESOURCES)
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        assert (await talk.catch_up())[1:] == [told("tools"), told("resources")]
        gateway.change(TOOLS)  # and the last change is never lost
        assert [json.loads(message) for message in await talk.channel.receive()] == [told("tools")]  # type: ignore[arg-type]
