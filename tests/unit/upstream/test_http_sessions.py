"""Sessions of legacy servers over HTTP: forgotten ones, their stream, and streams that break."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio

from mcpx.errors import UpstreamError, UpstreamGone
from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, V2025_06_18
from mcpx.upstream.http_session import LISTEN_LIMIT
from tests.support.http_up import Asked, Reply, initialized, legacy, serving
from tests.support.waiting import BUSY, PATIENCE
from tests.unit.upstream.over_http import ASKER, QUICK, call, session_at, session_with, supervised, why_failed

OK = {"content": [{"type": "text", "text": "done"}]}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def answer(asked: Asked, reply: Reply) -> None:
    await reply.events()
    await reply.event({"jsonrpc": "2.0", "id": asked.frame["id"], "result": OK})
    await reply.end()


def answers_to(frame: dict[str, Any], result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": frame["id"], "result": result}


# -- a session that the server has forgotten


async def test_it_is_opened_anew_once_for_all_who_wait() -> None:
    script = legacy()
    async with serving(script) as up, session_at(up.url) as session:
        await session.ask("tools/list", {}, ASKER)
        script.known.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(session.ask, "tools/list", {}, ASKER)
        first, second = up.of("initialize")
        assert first.body == second.body
        assert len(up.of("notifications/initialized")) == 2
        assert up.asked[-1].headers["mcp-session-id"] == "s2"
        assert not session.connection.closed.is_set()


async def test_whoever_waits_for_its_stream_is_not_let_through_while_it_is_opened_anew() -> None:
    """What is said then would be said in no session at all."""
    opened, told = 0, trio.Event()

    async def initialize(asked: Asked, reply: Reply) -> None:
        nonlocal opened
        opened += 1
        if opened == 2:
            await told.wait()
        script.known.add(f"s{opened}")
        await reply.result(initialized(), {"Mcp-Session-Id": f"s{opened}"})

    async def silent(asked: Asked, reply: Reply) -> None:
        await reply.hang()

    script = legacy(initialize=initialize, GET=silent)
    async with serving(script) as up, session_at(up.url) as session, trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "tools/list", {}, ASKER)
        await up.got("GET")
        channel: Any = session.connection._channel
        nursery.start_soon(channel.session.renew, 1)
        await up.got("initialize", 2)
        with trio.move_on_after(3 * LISTEN_LIMIT):
            raise AssertionError(await up.got("tools/list"))
        told.set()
        assert (await up.got("tools/list")).headers["mcp-session-id"] == "s2"


def says(status: int, message: str) -> Any:
    async def refuse(asked: Asked, reply: Reply) -> None:
        if asked.headers["mcp-session-id"] == "s1":
            await reply.error(-32000, message, status=status, id=None)
        else:
            await reply.result({"tools": []})

    return refuse


@pytest.mark.parametrize(
    ("status", "message", "renewed"),
    [
        (404, "whatever", True),
        (400, "Bad Request: No valid session ID provided", True),
        (400, "Bad Request: the cursor is not valid", False),
        (401, "no such session", False),
        (403, "no such session", False),
        (500, "no such session", False),
    ],
)
async def test_how_a_server_says_that_it_has_forgotten(status: int, message: str, renewed: bool) -> None:
    async with serving(legacy(tools__list=says(status, message))) as up, session_at(up.url) as session:
        if renewed:
            await session.ask("tools/list", {}, ASKER)
        else:
            with pytest.raises(Exception, match=message):
                await session.ask("tools/list", {}, ASKER)
        assert len(up.of("initialize")) == (2 if renewed else 1)


async def test_a_server_that_forgets_each_session_at_once_is_asked_once_more_only() -> None:
    async def forgets(asked: Asked, reply: Reply) -> None:
        await reply.error(-32001, "Session not found", status=404, id=None)

    async with serving(legacy(tools__list=forgets)) as up, session_at(up.url) as session:
        assert "expired" in await why_failed(session)
        assert len(up.of("initialize")) == 2
        assert len(up.of("tools/list")) == 2


async def test_one_that_comes_back_as_another_is_started_afresh() -> None:
    revisions = [LATEST_LEGACY, V2025_06_18, V2025_06_18]

    async def opens(asked: Asked, reply: Reply) -> None:
        number = len(up.of("initialize"))
        revision = revisions[number - 1]
        await reply.result(initialized(revision), {"Mcp-Session-Id": f"s{number}"})
        script.known.clear()
        script.known.add(f"s{number}")

    script = legacy(initialize=opens)
    async with serving(script) as up, supervised(up.url) as supervisor:
        async with session_with(supervisor) as session:
            script.known.clear()
            with pytest.raises(UpstreamGone, match="another server now"):
                await session.ask("tools/list", {}, ASKER)
        async with session_with(supervisor) as session:
            assert session.revision == V2025_06_18
            await session.ask("tools/list", {}, ASKER)


async def test_a_token_that_is_no_longer_good_opens_nothing_anew_for_ever() -> None:
    async def refuses(asked: Asked, reply: Reply) -> None:
        await reply.text(401)

    script = legacy()
    async with serving(script) as up, supervised(up.url, Limits(restart_backoff_step=5)) as supervisor:
        async with session_with(supervisor) as session:
            script.known.clear()
            up.script = legacy(initialize=refuses, server__discover=refuses)
            with pytest.raises(UpstreamGone, match=r"no new one could be opened: .*401"):
                await session.ask("tools/list", {}, ASKER)
        with pytest.raises(UpstreamError, match="Give it a token"):
            await supervisor.lease(ASKER)
        await trio.sleep(0.2)
        assert len(up.of("initialize")) <= 3


# -- the stream of the session


async def test_what_a_server_says_unasked_arrives() -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        assert asked.headers["mcp-session-id"] == "s1"
        assert asked.headers["mcp-protocol-version"] == LATEST_LEGACY
        assert asked.headers["accept"] == "text/event-stream"
        await reply.events()
        await reply.write(b": hello\n\n")
        await reply.event({"jsonrpc": "2.0", "id": "a", "method": "ping"})
        await reply.hang()

    async with serving(legacy(GET=stream)) as up, session_at(up.url) as session:
        pong = await up.got("(answer)")
        assert pong.frame == {"jsonrpc": "2.0", "id": "a", "result": {}}
        assert pong.headers["mcp-session-id"] == "s1"
        await session.ask("tools/list", {}, ASKER)
    assert up.of("GET")[0].gone.is_set()


async def test_nothing_is_asked_of_a_session_before_its_stream_is_open() -> None:
    """Servers on the official SDKs ask their questions there, even about a call, and lose them while nobody listens."""

    async def stream(asked: Asked, reply: Reply) -> None:
        await trio.sleep(0.2)
        opened.append(len(up.of("tools/list")))
        await reply.events()
        await reply.hang()

    opened: list[int] = []
    async with serving(legacy(GET=stream)) as up, session_at(up.url) as session:
        await session.ask("tools/list", {}, ASKER)
        assert opened == [0]


async def test_a_server_that_does_not_come_round_to_its_stream_is_asked_all_the_same() -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        await reply.hang()

    async with serving(legacy(GET=stream)) as up, session_at(up.url) as session:
        began = trio.current_time()
        await session.ask("tools/list", {}, ASKER)
        waited = trio.current_time() - began
        await session.ask("tools/list", {}, ASKER)
        assert waited < LISTEN_LIMIT + BUSY
        assert trio.current_time() - began - waited < LISTEN_LIMIT  # once is enough


@pytest.mark.parametrize("status", [405, 404, 400, 501])
async def test_a_server_without_one_is_not_asked_again(status: int) -> None:
    async def none(asked: Asked, reply: Reply) -> None:
        await reply.text(status)

    async with serving(legacy(GET=none)) as up, session_at(up.url) as session:
        await up.got("GET")
        await trio.sleep(0.3)
        await session.ask("tools/list", {}, ASKER)
        assert len(up.of("GET")) == 1
        assert len(up.of("initialize")) == 1


async def test_one_that_ends_is_opened_again_where_it_was() -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(CHANGED, id=f"e{len(up.of('GET'))}", retry=300)
        if len(up.of("GET")) > 1:
            await reply.hang()
        await reply.end()

    async with serving(legacy(GET=stream)) as up, session_at(up.url):
        second = await up.got("GET", 2)
        assert second.headers["last-event-id"] == "e1"
        assert second.at - up.of("GET")[0].at >= 0.3  # as it was told to wait


async def test_one_that_is_dropped_at_once_is_asked_for_ever_more_slowly() -> None:
    async def drops(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(CHANGED)
        await reply.cut()

    limits = Limits(restart_backoff_step=0.2, restart_backoff_max=5)
    async with serving(legacy(GET=drops)) as up, session_at(up.url, limits):
        await up.got("GET", 4)
        times = [asked.at for asked in up.of("GET")]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert gaps[1] > 0.15
        assert gaps[2] > 0.3


async def test_one_that_is_refused_later_means_that_the_session_is_gone() -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        if asked.headers["mcp-session-id"] == "s1" and len(up.of("GET")) > 1:
            await reply.text(404)
        else:
            await reply.events()
            if asked.headers["mcp-session-id"] == "s2":
                await reply.hang()
            await reply.end()

    async with serving(legacy(GET=stream)) as up, session_at(up.url):
        await up.got("initialize", 2)
        third = await up.got("GET", 3)
        assert third.headers["mcp-session-id"] == "s2"
        assert "last-event-id" not in third.headers


async def test_a_new_session_has_a_new_stream() -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.hang()

    script = legacy(GET=stream)
    async with serving(script) as up, session_at(up.url) as session:
        first = await up.got("GET")
        script.known.clear()
        await session.ask("tools/list", {}, ASKER)
        second = await up.got("GET", 2)
        assert second.headers["mcp-session-id"] == "s2"
        with trio.fail_after(PATIENCE):
            await first.gone.wait()


# -- a call's stream that breaks


async def test_it_is_resumed_where_it_broke() -> None:
    async def breaks(asked: Asked, reply: Reply) -> None:
        calls.append(asked.frame)
        await reply.events()
        await reply.event(b"", id="c1", retry=200)
        await reply.cut()

    async def resumes(asked: Asked, reply: Reply) -> None:
        place = asked.headers.get("last-event-id")
        if place is None:
            await reply.text(405)
            return
        await reply.events()
        if place == "c1":  # a server may let a client come back as often as it likes
            await reply.event(b"", id="c2")
        else:
            await reply.event(answers_to(calls[0], OK), id="c3")
        await reply.end()

    calls: list[dict[str, Any]] = []
    async with serving(legacy(tools__call=breaks, GET=resumes)) as up, session_at(up.url) as session:
        assert b"done" in bytes(await call(session))
        resumed = [asked for asked in up.of("GET") if "last-event-id" in asked.headers]
        assert [asked.headers["last-event-id"] for asked in resumed] == ["c1", "c2"]
        assert resumed[0].at - up.of("tools/call")[0].at >= 0.2
        assert len(up.of("tools/call")) == 1


@pytest.mark.parametrize("status", [405, 404, 200])
async def test_one_that_cannot_be_resumed_is_lost(status: int) -> None:
    async def breaks(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(b"", id="c1", retry=100)
        await reply.cut()

    async def refuses(asked: Asked, reply: Reply) -> None:
        await reply.text(status if "last-event-id" in asked.headers else 405)

    async with serving(legacy(tools__call=breaks, GET=refuses)) as up, session_at(up.url) as session:
        with pytest.raises(UpstreamError, match="could not be resumed"):
            await call(session)
        await session.ask("tools/list", {}, ASKER)


async def test_one_that_brings_nothing_new_is_given_up_after_some_tries() -> None:
    async def breaks(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(b"", id="c1", retry=1)
        await reply.cut()

    async def nothing(asked: Asked, reply: Reply) -> None:
        if "last-event-id" not in asked.headers:
            await reply.text(405)
        else:
            await reply.events()
            await reply.end()

    async with serving(legacy(tools__call=breaks, GET=nothing)) as up, session_at(up.url) as session:
        with pytest.raises(UpstreamError, match="The connection broke"):
            await call(session)
        assert len([asked for asked in up.of("GET") if "last-event-id" in asked.headers]) == 5


async def test_a_call_in_a_stream_fails_with_its_session() -> None:
    async def breaks(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(b"", id="c1", retry=400)
        script.known.clear()
        await reply.cut()

    script = legacy(tools__call=breaks)
    async with serving(script) as up, session_at(up.url, QUICK) as session:
        async with trio.open_nursery() as nursery:

            async def fails() -> None:
                with pytest.raises(UpstreamError, match=r"The connection broke|could not be resumed"):
                    await call(session)

            nursery.start_soon(fails)
            await up.got("tools/call")
            await session.ask("tools/list", {}, ASKER)
        assert len(up.of("tools/call")) == 1  # it may have run
