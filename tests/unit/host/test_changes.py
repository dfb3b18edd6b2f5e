"""What a legacy host is told unasked: changes of lists, if it was promised that, and updates of what it subscribed to;
merged while it is slow, and while they come faster than anybody needs them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.host.changes import MAX_INNER, QUIET
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY
from mcpx.upstream.call import Change, Identity, Interest
from tests.support.running import in_virtual_time
from tests.unit.host.talk import FakeGateway, open_talk

if TYPE_CHECKING:
    from tests.unit.host.talk import Talk

TOOLS, PROMPTS, RESOURCES = Change("one", "tools"), Change("one", "prompts"), Change("two", "resources")


def update(uri: str) -> Change:
    return Change("one", "resources", uri)


def told(kind: str) -> dict[str, str]:
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}


def updated(uri: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}


async def ask(talk: Talk, method: str, uri: Any = "a:/b") -> Any:
    await talk.ask("ask", method, {} if uri is None else {"uri": uri})
    return await talk.hear()


@pytest.mark.parametrize("revision", LEGACY)
@in_virtual_time
async def test_a_legacy_host_hears_of_changes_unasked(revision: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(revision)
        assert [watch.keep for watch in gateway.watching] == [False]  # no server is started for it
        gateway.change(TOOLS, RESOURCES, PROMPTS)
        assert await talk.hear_all() == [told("tools"), told("resources"), told("prompts")]
        await trio.sleep(QUIET)
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


async def test_the_update_of_a_resource_that_nobody_subscribed_to_is_not_told() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        gateway.change(update("file:///x"))
        assert await talk.hear_all() == []


@in_virtual_time
async def test_a_second_handshake_takes_over_and_a_second_initialized_does_nothing() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await ask(talk, "resources/subscribe")
        await talk.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        assert len(gateway.watching) == 2
        first = gateway.watching[0].asker
        await talk.shake(LATEST_LEGACY, capabilities={"roots": {}})
        assert len(gateway.watching) == 1  # what was subscribed to under the first went with it
        assert gateway.watching[0].asker is not first
        assert gateway.watching[0].asker.capabilities == {"roots": Raw(b"{}")}
        gateway.change(TOOLS, update("a:/b"))
        assert await talk.hear_all() == [told("tools")]


async def test_what_is_subscribed_to_before_initialized_outlives_it() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        await talk.hear()
        await ask(talk, "resources/subscribe")
        await talk.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        gateway.change(update("a:/b"))
        assert await talk.hear_all() == [updated("a:/b")]


@in_virtual_time
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


@in_virtual_time
async def test_a_storm_is_told_at_once_then_now_and_then_and_once_more_at_its_end() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        gateway.change(TOOLS)
        assert await talk.hear_all() == [told("tools")]  # at once
        gateway.change(PROMPTS, TOOLS)
        assert await talk.hear_all() == [told("prompts")]  # another kind does not wait for the first
        for _ in range(10_000):
            gateway.change(TOOLS)
            await trio.sleep(10 * QUIET / 10_000)
        heard = await talk.hear_all()
        assert 9 <= len(heard) <= 11
        gateway.change(TOOLS)
        await trio.sleep(QUIET)
        assert await talk.hear_all() == [told("tools")]  # the last one counts
        await trio.sleep(10 * QUIET)
        assert await talk.hear_all() == []


@pytest.mark.parametrize("revision", LEGACY)
@in_virtual_time
async def test_a_subscription_succeeds_and_lasts_until_it_is_ended(revision: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(revision)
        assert (await ask(talk, "resources/subscribe", "a:/b"))["result"] == {}
        assert (await ask(talk, "resources/subscribe", "a:/c"))["result"] == {}
        assert (await ask(talk, "resources/subscribe", "a:/b"))["result"] == {}  # twice is once
        _, watch = gateway.watching
        assert watch.keep
        assert watch.wanted == Interest(uris=frozenset({"a:/b", "a:/c"}))
        gateway.change(update("a:/b"), update("a:/b"), update("a:/b/inner"), update("a:/bb"))
        assert await talk.hear_all() == [updated("a:/b"), updated("a:/b/inner")]
        assert (await ask(talk, "resources/unsubscribe", "a:/b"))["result"] == {}
        gateway.change(update("a:/b"), update("a:/c"))
        assert await talk.hear_all() == [updated("a:/c")]
        assert (await ask(talk, "resources/unsubscribe", "a:/c"))["result"] == {}
        assert (await ask(talk, "resources/unsubscribe", "a:/never"))["result"] == {}
        assert [watch.keep for watch in gateway.watching] == [False]


async def test_what_is_unsubscribed_while_its_update_waits_is_not_told() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, listens=False) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        await talk.notify("notifications/initialized")
        await talk.ask(2, "resources/subscribe", {"uri": "a:/b"})
        await talk.ask(3, "resources/subscribe", {"uri": "a:/c"})
        await trio.testing.wait_all_tasks_blocked()
        gateway.change(update("a:/b"), update("a:/b/inner"), update("a:/c"))
        await talk.ask(4, "resources/unsubscribe", {"uri": "a:/b"})
        await trio.testing.wait_all_tasks_blocked()
        assert [frame for frame in await talk.catch_up() if "method" in frame] == [updated("a:/c")]


@in_virtual_time
async def test_a_subscription_waits_for_the_server_but_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    gateway = FakeGateway(list_timeout=3)
    gateway.settling = trio.Event()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        start = trio.current_time()
        assert (await ask(talk, "resources/subscribe"))["result"] == {}
        assert trio.current_time() - start == 3
        assert "delivered" not in caplog.text  # the server may yet agree


async def test_what_cannot_be_delivered_is_said_in_the_log_without_its_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = FakeGateway(max_subscriptions=2)
    gateway.delivers = lambda wanted: Interest()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        assert (await ask(talk, "resources/subscribe", "https://x/y?key=secret"))["result"] == {}
        assert "updates of 'https://x/y' cannot be delivered" in caplog.text
        assert "secret" not in caplog.text
        for uri in ("a:/1", "a:/2"):
            assert (await ask(talk, "resources/subscribe", uri))["result"] == {}
        assert "maxSubscriptions" in caplog.text
        assert len(gateway.watching[1].wanted.uris) == 2


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
@pytest.mark.parametrize("uri", [None, 7, ["a:/b"]])
async def test_a_subscription_to_nothing_is_an_error(method: str, uri: Any) -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.shake(LATEST_LEGACY)
        assert (await ask(talk, method, uri))["error"]["code"] == -32602


async def test_many_updates_inside_of_one_resource_become_its_own() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway, listens=False) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        await talk.notify("notifications/initialized")
        await talk.ask(2, "resources/subscribe", {"uri": "a:/b"})
        await trio.testing.wait_all_tasks_blocked()
        gateway.change(*(update(f"a:/b/{number}") for number in range(10_000)))
        await trio.testing.wait_all_tasks_blocked()
        heard = [frame["params"]["uri"] for frame in await talk.catch_up() if "method" in frame]
        assert len(heard) == MAX_INNER + 2  # one more for the resource itself, and as many as are subscribed to
        assert "a:/b" in heard
