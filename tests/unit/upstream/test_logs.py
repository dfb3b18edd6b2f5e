"""Log messages of a session: at which level the server is set to send them, and whose each one is. Virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.settings import Limits, ServerSettings
from mcpx.spec.levels import LEVELS
from mcpx.spec.meta import LOG_LEVEL
from mcpx.upstream.call import Asker, LogMessage, Remark
from mcpx.upstream.logs import SET_LIMIT
from mcpx.upstream.pending import MAX_EVENTS
from mcpx.upstream.supervisor import Supervisor
from tests.support.running import in_virtual_time
from tests.unit.upstream.asking import begin, nothing, reply, request
from tests.unit.upstream.fakes import FakeServer, surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.spec.levels import Level
    from mcpx.upstream.call import News
    from mcpx.upstream.session import Session
    from mcpx.upstream.session_call import SessionCall

SET_LEVEL = "logging/setLevel"
LOGS = {"tools": {}, "logging": {}}
DONE: dict[str, Any] = {"content": []}
A, B = Asker("a"), Asker("b")


def leveled(who: Asker, level: str) -> Asker:
    return Asker(who.host, who.capabilities, None, level, who.lasting)


class Field:
    """One supervised server that plays no part by itself, and what was heard of it that belongs to no call."""

    def __init__(self) -> None:
        self.servers: list[FakeServer] = []
        self.remarks: list[tuple[str, Any]] = []
        self.supervisor: Supervisor

    @property
    def server(self) -> FakeServer:
        return self.servers[-1]

    def heard(self, supervisor: Supervisor, key: object, news: News) -> None:
        assert isinstance(news, Remark)
        self.remarks.append((news.host, bytes(news.message.params["data"]).decode()))

    @asynccontextmanager
    async def using(self, who: Asker) -> AsyncGenerator[Session]:
        instance = await self.supervisor.lease(who)
        assert instance.session is not None
        await trio.testing.wait_all_tasks_blocked()
        try:
            yield instance.session
        finally:
            self.supervisor.release(instance)


@asynccontextmanager
async def field(era: str, *, capabilities: dict[str, Any] = LOGS, scope: Any = "host") -> AsyncGenerator[Field]:
    found = Field()

    async def script(server: FakeServer) -> None:
        if era == "modern":
            await server.open_modern(**capabilities)
        else:
            await server.open_legacy(capabilities=capabilities)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        found.supervisor = Supervisor(
            ServerSettings(name="fake", builtin="demo", limits=Limits(), scope=scope),
            surroundings(script, found.servers),
            None,
            nursery,
            heard=found.heard,
            came_up=lambda supervisor: None,
            unasked=lambda unasked: False,
        )
        yield found
        nursery.cancel_scope.cancel()


def say(server: FakeServer, data: str, level: str = "info") -> None:
    server.say(method="notifications/message", params={"level": level, "data": data})


async def told(call: SessionCall) -> list[str]:
    """What the log messages say that have come for a call."""
    await trio.testing.wait_all_tasks_blocked()
    found: list[str] = []
    while (event := call.next_nowait()) is not None:
        assert isinstance(event, LogMessage)
        found.append(bytes(event.params["data"]).decode().strip('"'))
    return found


# -- the level, towards a legacy server


@in_virtual_time
async def test_a_legacy_server_is_set_to_the_level_before_the_call() -> None:
    async with field("legacy") as one, one.using(leveled(A, "notice")) as session:
        with session.call(request(leveled(A, "notice"))) as call:
            first = await begin(call, one.server)
            assert (first["method"], first["params"]["level"]) == (SET_LEVEL, "notice")
            await nothing(one.server)  # the call waits for the server to agree
            one.server.answer(first, {})
            assert (await begin(call, one.server))["method"] == "tools/call"
        with session.call(request(leveled(A, "notice"))) as call:
            await one.server.expect("notifications/cancelled")
            assert (await begin(call, one.server))["method"] == "tools/call"  # it is set already


@in_virtual_time
async def test_the_lowest_level_of_all_calls_in_flight_is_set() -> None:
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(leveled(A, "error"))) as first:
            one.server.answer(await begin(first, one.server), {})
            await begin(first, one.server)
            with session.call(request(leveled(B, "debug"))) as second:
                lower = await begin(second, one.server)
                assert (lower["method"], lower["params"]["level"]) == (SET_LEVEL, "debug")
                one.server.answer(lower, {})
                await begin(second, one.server)
                with session.call(request(leveled(B, "warning"))) as third:
                    assert (await begin(third, one.server))["method"] == "tools/call"


@in_virtual_time
async def test_a_call_without_a_level_sets_none() -> None:
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(A)) as call:
            assert (await begin(call, one.server))["method"] == "tools/call"


@pytest.mark.parametrize("capabilities", [{"tools": {}}, {}])
@in_virtual_time
async def test_a_server_that_declares_no_logging_is_set_to_none(capabilities: dict[str, Any]) -> None:
    async with field("legacy", capabilities=capabilities) as one:
        one.supervisor.set_level(A, "debug")
        async with one.using(A) as session:
            with session.call(request(leveled(A, "debug"))) as call:
                assert (await begin(call, one.server))["method"] == "tools/call"


@pytest.mark.parametrize("refusal", [-32601, -32602, None])
@in_virtual_time
async def test_a_server_that_does_not_set_it_gets_the_call_all_the_same(refusal: int | None) -> None:
    """It is told once, and one that does not answer is waited for a bounded time."""
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(leveled(A, "info"))) as call:
            started = trio.current_time()
            asked = await begin(call, one.server)
            assert asked["method"] == SET_LEVEL
            if refusal is not None:
                one.server.refuse(asked, refusal)
                assert (await begin(call, one.server))["method"] == "tools/call"
            else:
                with trio.move_on_after(SET_LIMIT + 1):
                    await call.next()
                await one.server.expect("notifications/cancelled")
                await one.server.expect("tools/call")
            assert trio.current_time() - started <= SET_LIMIT + 2
        with session.call(request(leveled(A, "info"))) as call:
            await one.server.expect("notifications/cancelled")
            assert (await begin(call, one.server))["method"] == "tools/call"


@in_virtual_time
async def test_what_a_host_sets_for_all_requests_is_set_at_once_and_after_every_start() -> None:
    async with field("legacy") as one:
        one.supervisor.set_level(A, "error")  # which starts no server
        await trio.sleep(10)
        assert one.servers == []
        async with one.using(A):
            first = await one.server.expect(SET_LEVEL)
            assert first["params"]["level"] == "error"
            one.server.answer(first, {})
            await trio.testing.wait_all_tasks_blocked()
            one.supervisor.set_level(A, "info")
            lower = await one.server.expect(SET_LEVEL)
            assert lower["params"]["level"] == "info"
            one.server.answer(lower, {})
            one.supervisor.set_level(B, "warning")  # which is not lower
            await nothing(one.server)
            one.supervisor.set_level(A, None)  # it has gone
            higher = await one.server.expect(SET_LEVEL)
            assert higher["params"]["level"] == "warning"
            one.server.answer(higher, {})
            one.supervisor.set_level(B, None)
            await nothing(one.server)  # there is no level that means none
            one.supervisor.set_level(A, "alert")
            one.server.answer(await one.server.expect(SET_LEVEL), {})
            one.server.channel.close()
        async with one.using(A):
            assert len(one.servers) == 2
            assert (await one.server.expect(SET_LEVEL))["params"]["level"] == "alert"


@in_virtual_time
async def test_a_server_that_has_forgotten_the_level_is_told_it_again() -> None:
    async with field("legacy") as one, one.using(A) as session:
        one.supervisor.set_level(A, "error")
        one.server.answer(await one.server.expect(SET_LEVEL), {})
        await trio.testing.wait_all_tasks_blocked()
        session.interrupted(forgotten=False)
        await nothing(one.server)
        session.interrupted(forgotten=True)  # as when a session over HTTP was opened anew
        assert (await one.server.expect(SET_LEVEL))["params"]["level"] == "error"


@in_virtual_time
async def test_a_call_that_is_given_up_while_it_waits_for_the_level_takes_nothing_with_it() -> None:
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(leveled(A, "info"))) as call:
            asked = await begin(call, one.server)
        one.server.answer(asked, {})
        await nothing(one.server)  # neither is cancelled
        with session.call(request(leveled(A, "info"))) as call:
            assert (await begin(call, one.server))["method"] == "tools/call"


@in_virtual_time
async def test_a_host_whose_instance_is_another_sets_nothing_here() -> None:
    asks = Asker("c", {"roots": Raw(b"{}")})
    async with field("legacy") as one, one.using(A):
        one.supervisor.set_level(asks, "debug")
        await nothing(one.server)


# -- towards a modern server


@pytest.mark.parametrize("level", [None, *LEVELS])
@in_virtual_time
async def test_a_modern_server_is_asked_on_each_request(level: Level | None) -> None:
    async with field("modern") as one, one.using(A) as session:
        one.supervisor.set_level(A, "debug")  # which is in the requests, as the host edge says them
        with session.call(request(A if level is None else leveled(A, level))) as call:
            sent = await begin(call, one.server)
            assert sent["method"] == "tools/call"
            assert sent["params"]["_meta"].get(LOG_LEVEL) == level


@in_virtual_time
async def test_a_list_of_mcpxs_own_asks_for_none() -> None:
    async with field("modern") as one, one.using(A) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "tools/list", {}, leveled(A, "debug"))
        asked = await one.server.expect("tools/list")
        assert LOG_LEVEL not in asked["params"]["_meta"]
        nursery.cancel_scope.cancel()


# -- whose a message is


@pytest.mark.parametrize("era", ["legacy", "modern"])
@in_virtual_time
async def test_a_message_belongs_to_the_call_that_is_under_way(era: str) -> None:
    who = leveled(A, "info")
    async with field(era) as one, one.using(who) as session:
        with session.call(request(who)) as call:
            sent = await begin(call, one.server)
            if era == "legacy":
                one.server.answer(sent, {})
                sent = await begin(call, one.server)
            say(one.server, "first")
            say(one.server, "second", "error")
            assert await told(call) == ["first", "second"]
            one.server.answer(sent, DONE)
            assert (await reply(call))["content"] == []
    assert one.remarks == []


@in_virtual_time
async def test_of_several_calls_of_one_host_the_last_one_has_it() -> None:
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(A)) as first, session.call(request(A)) as second:
            await begin(first, one.server)
            await begin(second, one.server)
            say(one.server, "said")
            assert await told(second) == ["said"]
            assert await told(first) == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
@in_virtual_time
async def test_with_calls_of_two_hosts_nobody_has_it(era: str, caplog: pytest.LogCaptureFixture) -> None:
    """SUB-07: it is in mcpx's own log."""
    caplog.set_level("INFO", "mcpx.upstream")
    a, b = leveled(A, "info"), leveled(B, "info")
    async with field(era) as one, one.using(a) as session:
        with session.call(request(a)) as first, session.call(request(b)) as second:
            sent = await begin(first, one.server)
            if era == "legacy":
                one.server.answer(sent, {})
                await begin(first, one.server)
            await begin(second, one.server)
            say(one.server, "whose is this?")
            assert await told(first) == await told(second) == []
    assert one.remarks == []
    assert "whose is this?" in caplog.text


@in_virtual_time
async def test_a_modern_server_says_nothing_for_a_call_without_a_level() -> None:
    """So another host's call that asked for none is no reason to keep it from the one that did."""
    async with field("modern") as one, one.using(A) as session:
        with session.call(request(leveled(A, "info"))) as first, session.call(request(B)) as second:
            await begin(first, one.server)
            await begin(second, one.server)
            say(one.server, "said")
            assert await told(first) == ["said"]
            assert await told(second) == []


@in_virtual_time
async def test_one_name_may_be_several_hosts_where_there_is_no_connection() -> None:
    one_host = Asker("http 127.0.0.1", log_level="info", lasting=False)
    async with field("modern") as one, one.using(one_host) as session:
        with session.call(request(one_host)) as first:
            await begin(first, one.server)
            say(one.server, "alone")
            assert await told(first) == ["alone"]
            with session.call(request(one_host)) as second:
                await begin(second, one.server)
                say(one.server, "whose?")
                assert await told(first) == await told(second) == []


@in_virtual_time
async def test_a_host_that_set_no_level_hears_what_its_own_instance_sends() -> None:
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(A)) as call:
            await begin(call, one.server)
            say(one.server, "by itself", "debug")
            assert await told(call) == ["by itself"]


@in_virtual_time
async def test_a_host_that_set_no_level_hears_nothing_of_an_instance_that_others_use() -> None:
    """What they have asked for is not for it."""
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(leveled(B, "debug"))) as other:
            one.server.answer(await begin(other, one.server), {})
            one.server.answer(await begin(other, one.server), DONE)
            await reply(other)
        with session.call(request(A)) as call:
            await begin(call, one.server)
            say(one.server, "for the other", "debug")
            assert await told(call) == []


@in_virtual_time
async def test_between_calls_only_the_host_that_has_the_instance_for_itself_hears() -> None:
    async with field("legacy") as one, one.using(A) as session:
        say(one.server, "before anybody used it")
        await trio.testing.wait_all_tasks_blocked()
        with session.call(request(A)) as call:
            one.server.answer(await begin(call, one.server), DONE)
            await reply(call)
        say(one.server, "its own")
        await trio.testing.wait_all_tasks_blocked()
        assert one.remarks == [("a", '"its own"')]
        with session.call(request(B)) as call:
            one.server.answer(await begin(call, one.server), DONE)
            await reply(call)
        say(one.server, "of two")
        await trio.testing.wait_all_tasks_blocked()
        assert one.remarks == [("a", '"its own"')]


@in_virtual_time
async def test_an_instance_that_is_keyed_by_a_host_is_its_own_from_the_start() -> None:
    asks = Asker("c", {"roots": Raw(b"{}")})
    async with field("legacy") as one, one.using(asks):
        say(one.server, "after the handshake")
        await trio.testing.wait_all_tasks_blocked()
    assert one.remarks == [("c", '"after the handshake"')]


@in_virtual_time
async def test_between_calls_a_modern_server_has_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mcpx.upstream")
    async with field("modern") as one, one.using(A) as session:
        with session.call(request(leveled(A, "debug"))) as call:
            one.server.answer(await begin(call, one.server), DONE)
            await reply(call)
        say(one.server, "between")
        await trio.testing.wait_all_tasks_blocked()
    assert one.remarks == []
    assert "between" in caplog.text


@in_virtual_time
async def test_what_a_list_causes_is_said_beside_the_calls() -> None:
    async with field("legacy") as one, one.using(A) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "tools/list", {}, A)
        asked = await one.server.expect("tools/list")
        say(one.server, "listing")
        await trio.testing.wait_all_tasks_blocked()
        assert one.remarks == [("a", '"listing"')]
        one.server.answer(asked, {"tools": []})


@in_virtual_time
async def test_a_storm_of_messages_costs_bounded_memory_and_no_answer() -> None:
    async with field("legacy") as one, one.using(A) as session:
        with session.call(request(A)) as call:
            sent = await begin(call, one.server)
            for number in range(2 * MAX_EVENTS):
                say(one.server, str(number))
            one.server.answer(sent, DONE)
            await trio.testing.wait_all_tasks_blocked()
            came = [event async for event in _events(call)]
            assert came == [str(number) for number in range(MAX_EVENTS)]


async def _events(call: SessionCall) -> AsyncGenerator[str]:
    while isinstance(event := await call.next(), LogMessage):
        yield bytes(event.params["data"]).decode().strip('"')


@in_virtual_time
async def test_what_is_shown_in_the_own_log_is_short_and_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mcpx.upstream")
    async with field("modern") as one, one.using(A):
        say(one.server, "x" * 10_000 + "\n\x1b[31m", "error")
        for _ in range(1000):
            say(one.server, "again")
        one.server.say(method="notifications/message", params={"level": 7})
        await trio.testing.wait_all_tasks_blocked()
    lines = [record.getMessage() for record in caplog.records if " log " in record.getMessage()]
    assert lines[0].startswith('[fake] log error: "xxx')
    assert all(len(line) < 1200 and "\n" not in line for line in lines)
    assert len(lines) < 300
