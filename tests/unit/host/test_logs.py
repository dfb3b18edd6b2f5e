"""Log messages for a host: at the level that it set, or asked for on the request, and to whoever it is for alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio.testing
from msgspec import Raw

from mcpx.host.changes import MAX_FOREIGN
from mcpx.spec.levels import LEVELS
from mcpx.spec.meta import LOG_LEVEL, SERVER_INFO
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2025_11_25, is_modern
from mcpx.upstream.call import LogMessage
from tests.unit.host.talk import FakeGateway, open_talk, raw

if TYPE_CHECKING:
    from tests.unit.host.talk import Talk

SET_LEVEL = "logging/setLevel"


def message(level: Any, data: Any = "said", **more: Any) -> LogMessage:
    return LogMessage({"level": raw(level), "data": raw(data), **{key: raw(value) for key, value in more.items()}})


ALL = [message(level) for level in LEVELS]


async def set_level(talk: Talk, level: Any, id: Any = "set") -> Any:
    await talk.ask(id, SET_LEVEL, {"level": level})
    return await talk.hear()


async def levels_told(talk: Talk) -> list[str]:
    return [frame["params"]["level"] for frame in await talk.hear_all() if frame.get("method")]


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("level", LEVELS)
async def test_a_legacy_host_hears_of_its_calls_what_reaches_its_level(revision: str, level: str) -> None:
    gateway = FakeGateway(*ALL)
    async with open_talk(gateway) as talk:
        assert "logging" in (await talk.shake(revision))["capabilities"]
        assert (await set_level(talk, level))["result"] == {}
        assert gateway.levels == {"test": level}
        await talk.call(1)
        assert await levels_told(talk) == list(LEVELS[LEVELS.index(level) :])
        assert gateway.calls[0].request.asker.log_level == level
        assert gateway.calls[0].request.asker.host == "test"
    assert gateway.levels == {}  # it has gone, so that nobody wants it any more


async def test_a_legacy_host_that_set_none_hears_what_comes() -> None:
    """The gateway passes on what is for it: what the server sends by itself, if it has it for itself."""
    gateway = FakeGateway(*ALL)
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await talk.call(1)
        assert await levels_told(talk) == list(LEVELS)
        assert gateway.calls[0].request.asker.log_level is None


async def test_the_level_may_change_while_a_call_is_under_way() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await set_level(talk, "error", 1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(message("info"))
        assert await levels_told(talk) == []
        await set_level(talk, "debug", 3)
        gateway.calls[0].put(message("info"))
        assert await levels_told(talk) == ["info"]


@pytest.mark.parametrize("level", ["DEBUG", "verbose", "", None, 7, {}])
async def test_what_is_no_level_is_refused(level: Any) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        error = (await set_level(talk, level))["error"]
        assert error["code"] == -32602
        assert "emergency" in error["message"]
        assert gateway.levels == {}


async def test_modern_hosts_have_no_such_method() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.ask(1, SET_LEVEL, {"level": "info"}, revision=LATEST_MODERN)
        assert (await talk.hear())["error"]["code"] == -32601


@pytest.mark.parametrize("level", [None, *LEVELS])
async def test_a_modern_host_hears_what_it_asked_for_on_the_request(level: str | None) -> None:
    """Without a level nothing, whatever the server says (2026-07-28 server/utilities/logging)."""
    gateway = FakeGateway(*ALL)
    async with open_talk(gateway) as talk:
        await talk.call(1, LATEST_MODERN, **({} if level is None else {LOG_LEVEL: level}))
        assert await levels_told(talk) == ([] if level is None else list(LEVELS[LEVELS.index(level) :]))
        assert gateway.calls[0].request.asker.log_level == level


async def test_a_level_that_was_set_is_for_legacy_requests_alone() -> None:
    gateway = FakeGateway(message("info"))
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await set_level(talk, "debug")
        await talk.call(1, LATEST_MODERN)
        await talk.call(2, LATEST_MODERN, **{LOG_LEVEL: "error"})
        assert await levels_told(talk) == []
        await talk.call(3)
        assert await levels_told(talk) == ["info"]


async def test_a_new_handshake_begins_without_a_level() -> None:
    gateway = FakeGateway(message("info"))
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await set_level(talk, "error")
        await talk.shake(LATEST_LEGACY)
        assert gateway.levels == {}
        await talk.call(1)
        assert await levels_told(talk) == ["info"]


async def test_a_level_comes_before_any_handshake_as_well() -> None:
    gateway = FakeGateway(*ALL)
    async with open_talk(gateway) as talk:
        await set_level(talk, "alert")
        await talk.call(1)
        assert await levels_told(talk) == ["alert", "emergency"]


async def test_without_a_handshake_and_a_level_a_host_hears_nothing() -> None:
    """It was never told that there are any."""
    gateway = FakeGateway(*ALL)
    async with open_talk(gateway) as talk:
        await talk.call(1)
        assert await levels_told(talk) == []


async def test_setting_a_level_keeps_subscriptions() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await talk.ask(1, "resources/subscribe", {"uri": "a:/b"})
        await talk.hear()
        await set_level(talk, "info")
        await talk.ask(2, "resources/subscribe", {"uri": "a:/c"})
        await talk.hear()
        assert {"a:/b", "a:/c"} in [set(watch.wanted.uris) for watch in gateway.watching]


@pytest.mark.parametrize("revision", [*LEGACY, LATEST_MODERN])
async def test_a_message_passes_as_it_was_written(revision: str) -> None:
    written = LogMessage(
        {
            "level": Raw(b'"info"'),
            "logger": Raw(b'"x"'),
            "data": Raw(b'{"a":1.0,"b":[null,1E5]}'),
            "own": Raw(b"12345678901234567890"),
            "_meta": raw({SERVER_INFO: {}, "x.org/y": 2}),
        }
    )
    gateway = FakeGateway(written)
    async with open_talk(gateway) as talk:
        if is_modern(revision):
            await talk.call(1, revision, **{LOG_LEVEL: "info"})
        else:
            await talk.shake(revision)
            await talk.call(1)
        await talk.hear()
        assert talk.heard[-1] == (
            b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"x",'
            b'"data":{"a":1.0,"b":[null,1E5]},"own":12345678901234567890,"_meta":{"x.org/y":2}}}'
        )


async def test_a_null_that_no_revision_has_is_left_out_and_the_data_may_be_null() -> None:
    gateway = FakeGateway(message("info", None, logger=None))
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_11_25)
        await talk.call(1)
        assert (await talk.hear())["params"] == {"level": "info", "data": None}


@pytest.mark.parametrize(
    "odd",
    [
        LogMessage({}),
        LogMessage({"level": Raw(b'"info"')}),
        message("loud"),
        message(5),
        message("info", logger=7),
    ],
)
async def test_what_is_no_log_message_is_not_told(odd: LogMessage) -> None:
    gateway = FakeGateway(odd, message("info"))
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_11_25)
        await talk.call(1)
        assert [frame["params"]["data"] for frame in await talk.hear_all()] == ["said"]


# -- between calls


async def test_a_legacy_host_hears_between_its_calls_what_is_for_it() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        gateway.remark(message("info", "before"))
        await talk.shake(LATEST_LEGACY)
        gateway.remark(message("info", "first"))
        gateway.remark(message("info", "another's"), host="other")
        assert [frame["params"]["data"] for frame in await talk.hear_all()] == ["first"]
        await set_level(talk, "error")
        gateway.remark(message("info", "too low"))
        gateway.remark(message("error", "second"))
        assert [frame["params"]["data"] for frame in await talk.hear_all()] == ["second"]


async def test_a_modern_host_hears_nothing_between_its_calls() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.ask(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, revision=LATEST_MODERN)
        assert (await talk.hear())["method"] == "notifications/subscriptions/acknowledged"
        gateway.remark(message("emergency"))
        assert await talk.hear_all() == []


async def test_a_host_that_reads_nothing_costs_bounded_memory() -> None:
    """The oldest messages go first."""
    gateway = FakeGateway()
    async with open_talk(gateway, listens=False, max_pending=64) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {}})
        await talk.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        for number in range(2 * MAX_FOREIGN):
            gateway.remark(message("info", number))
        said = [frame["params"]["data"] for frame in await talk.catch_up() if "method" in frame]
        assert len(said) == MAX_FOREIGN
        assert said[-1] == 2 * MAX_FOREIGN - 1
