"""Which era a server at an HTTP URL is of, and HTTP+SSE, which is tried last (LV-27 to LV-32)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel
import trio.testing

from mcpx.errors import RpcError, UpstreamError
from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05, V2025_06_18
from mcpx.upstream import target
from tests.support.http_old import OldServer
from tests.support.http_up import Asked, Reply, discovered, legacy, modern, serving
from tests.support.waiting import PATIENCE
from tests.unit.upstream.over_http import (
    ASKER,
    call,
    session_at,
    session_with,
    supervised,
    why_failed,
    why_not,
)

if TYPE_CHECKING:
    from pathlib import Path

OK = {"content": [{"type": "text", "text": "done"}]}


def refusing(status: int, text: str = "", content_type: str = "text/plain") -> Any:
    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(status, text, content_type)

    return refuse


def failing(code: int, status: int = 400, **data: Any) -> Any:
    async def fail(asked: Asked, reply: Reply) -> None:
        await reply.error(code, status=status, **data)

    return fail


async def hangs_up(asked: Asked, reply: Reply) -> None:
    await reply.cut()


async def silent(asked: Asked, reply: Reply) -> None:
    await reply.hang()


async def stream_without(asked: Asked, reply: Reply) -> None:
    await reply.events()
    await reply.end()


@pytest.mark.parametrize(
    "probe",
    [
        failing(-32601, 200),
        failing(-32601, 404),
        failing(-32602, 200),
        failing(-32600, 400),
        refusing(400),
        refusing(400, "Bad Request: Missing session ID"),
        refusing(404, "<html>", "text/html"),
        refusing(405),
        refusing(406),
        refusing(415),
        refusing(422),
        refusing(500),
        refusing(501),
        refusing(200, "<html>", "text/html"),
        refusing(200, "{}", "application/json"),
        refusing(202),
        stream_without,
        hangs_up,
    ],
)
async def test_any_other_answer_to_the_probe_means_legacy(probe: Any) -> None:
    async with serving(legacy(server__discover=probe)) as up, session_at(up.url) as session:
        assert session.revision == LATEST_LEGACY
        await up.got("notifications/initialized")
        assert up.kinds[:3] == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "Give it a token"), (403, "another token"), (429, "too many"), (502, "502"), (503, "503"), (504, "504")],
)
async def test_what_says_nothing_of_an_era_fails_the_start(status: int, said: str) -> None:
    async with serving(refusing(status)) as up:
        assert said in await why_not(up.url)
        assert up.kinds == ["server/discover"]


async def test_a_refusal_of_who_asks_is_one_even_with_an_error_of_json_rpc() -> None:
    async with serving(failing(-32001, 401)) as up:
        assert "Give it a token" in await why_not(up.url)
        assert up.kinds == ["server/discover"]


async def test_the_list_in_an_unsupported_version_decides() -> None:
    async def old(asked: Asked, reply: Reply) -> None:
        await reply.error(-32022, status=400, supported=[V2025_06_18, V2024_11_05], requested=LATEST_MODERN)

    async with serving(legacy(V2025_06_18, server__discover=old)) as up, session_at(up.url) as session:
        assert session.revision == V2025_06_18
        assert up.of("initialize")[0].frame["params"]["protocolVersion"] == V2025_06_18


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_another_modern_error_is_no_reason_to_fall_back(code: int) -> None:
    async with serving(modern(server__discover=failing(code))) as up:
        assert "of the modern era" in await why_not(up.url)
        assert up.kinds == ["server/discover"]


async def test_one_that_is_silent_is_sent_initialize_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "HTTP_SILENCE", 0.2)
    limits = Limits(probe_delay=0.01)
    async with serving(legacy(server__discover=silent)) as up, session_at(up.url, limits) as session:
        assert session.revision == LATEST_LEGACY
        # Counted from when it was sent; its arrival took a connection as well.
        assert up.of("initialize")[0].at - up.of("server/discover")[0].at >= 0.15
        await session.ask("tools/list", {}, ASKER)


async def test_there_is_always_time_left_for_initialize() -> None:
    async with (
        serving(legacy(server__discover=silent)) as up,
        session_at(up.url, Limits(start_timeout=2)) as session,
    ):
        assert session.revision == LATEST_LEGACY


async def test_a_slow_one_is_not_hurried() -> None:
    async def slow(asked: Asked, reply: Reply) -> None:
        await trio.sleep(0.5)
        await reply.result(discovered())

    limits = Limits(probe_delay=0.01)
    async with serving(modern(server__discover=slow)) as up, session_at(up.url, limits) as session:
        assert session.revision == LATEST_MODERN
        assert up.kinds == ["server/discover"]


@pytest.mark.parametrize("preference", ["modern", LATEST_MODERN])
async def test_modern_alone(preference: str) -> None:
    async with serving(modern()) as up, session_at(up.url, protocol=preference):
        assert up.kinds == ["server/discover"]
    async with serving(legacy()) as up:
        assert "rules out" in await why_not(up.url, protocol=preference)
        assert "initialize" not in up.kinds


@pytest.mark.parametrize("preference", ["legacy", V2025_06_18])
async def test_legacy_first(preference: str) -> None:
    revision = LATEST_LEGACY if preference == "legacy" else preference
    async with serving(legacy(revision)) as up, session_at(up.url, protocol=preference) as session:
        assert session.revision == revision
        assert up.kinds[0] == "initialize"


async def test_legacy_first_falls_forward() -> None:
    async with serving(modern()) as up, session_at(up.url, protocol="legacy") as session:
        assert session.revision == LATEST_MODERN
        assert up.kinds[:2] == ["initialize", "server/discover"]


# -- what is remembered, and what is not


async def test_it_is_remembered_and_put_right_when_it_is_wrong(tmp_path: Path) -> None:
    state = str(tmp_path)
    async with serving(legacy()) as up:
        async with session_at(up.url, state_dir=state):
            pass
        seen = len(up.asked)
        async with session_at(up.url, state_dir=state):
            assert up.kinds[seen] == "initialize"
        up.script = modern()
        async with session_at(up.url, state_dir=state) as session:
            assert session.revision == LATEST_MODERN
        seen = len(up.asked)
        async with session_at(up.url, state_dir=state):
            assert up.kinds[seen:] == ["server/discover"]
        up.script = legacy()
        async with session_at(up.url, state_dir=state) as session:
            assert session.revision == LATEST_LEGACY


@pytest.mark.parametrize(("probe", "sure"), [(refusing(404), True), (refusing(500), False), (hangs_up, False)])
async def test_an_inconclusive_probe_is_not_remembered(tmp_path: Path, probe: Any, sure: bool) -> None:
    async with serving(legacy(server__discover=probe)) as up:
        for _ in range(2):
            async with session_at(up.url, state_dir=str(tmp_path)):
                pass
        assert len(up.of("server/discover")) == (1 if sure else 2)


@pytest.mark.parametrize(("before", "after"), [(legacy, modern), (modern, legacy)])
async def test_one_that_is_replaced_by_one_of_another_era_is_looked_at_anew(before: Any, after: Any) -> None:
    async with serving(before()) as up, supervised(up.url) as supervisor:
        async with session_with(supervisor) as session:
            first = session.revision
            await session.ask("tools/list", {}, ASKER)
            up.script = after()
            with pytest.raises((RpcError, UpstreamError)):
                await session.ask("tools/list", {}, ASKER)
            with trio.fail_after(PATIENCE):
                await session.connection.closed.wait()
        async with session_with(supervisor) as session:
            assert session.revision != first
            await session.ask("tools/list", {}, ASKER)


# -- HTTP+SSE


@pytest.mark.parametrize("revision", [V2024_11_05, V2025_06_18])
async def test_http_sse_is_found_last(revision: str) -> None:
    async with serving(OldServer(revision)) as up:
        async with session_at(up.url) as session:
            assert session.revision == revision
            assert b"done" in bytes(await call(session))
        posted = [(asked.kind, asked.target) for asked in up.asked]
        assert posted[:2] == [("server/discover", "/mcp"), ("initialize", "/mcp")]
        assert posted[2] == ("GET", "/mcp")
        rest = ["initialize", "notifications/initialized", "tools/call"]
        assert posted[3:] == [(kind, "/messages?session=1") for kind in rest]


async def test_http_sse_is_gone_to_straight_where_it_is_named() -> None:
    async with serving(OldServer()) as up, session_at(up.url, transport="sse"):
        assert up.kinds[:2] == ["GET", "initialize"]


async def test_and_never_where_something_else_is() -> None:
    async with serving(OldServer()) as up:
        assert "405" in await why_not(up.url, transport="http")
        assert "GET" not in up.kinds
        assert "rules out" in await why_not(up.url, transport="sse", protocol="modern")


async def test_it_is_remembered_too(tmp_path: Path) -> None:
    state = str(tmp_path)
    async with serving(OldServer()) as up:
        async with session_at(up.url, state_dir=state):
            pass
        seen = len(up.asked)
        async with session_at(up.url, state_dir=state):
            assert up.kinds[seen] == "GET"
        up.script = legacy()
        async with session_at(up.url, state_dir=state) as session:
            assert session.revision == LATEST_LEGACY


async def test_a_url_with_nothing_of_mcp_behind_it() -> None:
    async with serving(refusing(404, "Not here")) as up:
        said = await why_not(up.url)
        assert said == (
            "There seems to be no MCP server at this URL. The server refused the request with HTTP status 404 "
            "(Not Found). It says: Not here. Is the path of the URL right?"
        )
        assert up.kinds == ["server/discover", "initialize", "GET"]


@pytest.mark.parametrize("protocol", ["auto", "legacy", LATEST_LEGACY])
@pytest.mark.parametrize("status", [501, 405])
async def test_a_web_server_of_another_kind(status: int, protocol: str) -> None:
    """It is said once, and asked whether the URL is right."""
    async with serving(refusing(status)) as up:
        said = await why_not(up.url, protocol=protocol)
        assert said.count(f"HTTP status {status}") == 1
        assert said.startswith("There seems to be no MCP server at this URL. ")
        assert said.endswith("Is the URL right?")
        assert ("GET" in up.kinds) is (status == 405)


async def test_streamable_http_where_http_with_events_was_configured() -> None:
    async with serving(refusing(405)) as up:
        said = await why_not(up.url, transport="sse")
        assert said.endswith("for Streamable HTTP leave it out.")
        assert said.count("405") == 1
        assert up.kinds == ["GET"]


@pytest.mark.parametrize(
    "endpoint", ["http://example.com/messages", "https://127.0.0.1/messages", "//evil.example/messages"]
)
async def test_an_address_elsewhere_is_not_posted_to(endpoint: str) -> None:
    async with serving(OldServer(endpoint=endpoint)) as up:
        said = await why_not(up.url, transport="sse", headers={"X-Key": "very-secret-token"})
        assert "another origin" in said
        assert up.kinds == ["GET"]


@pytest.mark.parametrize("endpoint", ["messages?session=1", "/messages", "http://127.0.0.1:{}/messages/"])
async def test_an_address_may_be_relative_or_whole(endpoint: str) -> None:
    old = OldServer()
    async with serving(old) as up:
        old.endpoint = endpoint.format(up.port)
        async with session_at(up.url, transport="sse") as session:
            await session.ask("tools/list", {}, ASKER)


async def test_a_stream_that_ends_ends_the_session_and_there_is_another() -> None:
    old = OldServer()
    async with serving(old) as up, supervised(up.url, transport="sse") as supervisor:
        async with session_with(supervisor) as session:
            assert old.stream is not None
            await trio.aclose_forcefully(old.stream._stream)
            with trio.fail_after(PATIENCE):
                await session.connection.closed.wait()
            assert session.connection.end_reason == "The server's stream of events broke off."
        async with session_with(supervisor) as session:
            await session.ask("tools/list", {}, ASKER)
        assert old.streams == 2


async def test_a_post_that_is_refused_ends_that_call_and_one_to_nobody_the_session() -> None:
    old = OldServer()
    async with serving(old) as up, session_at(up.url, transport="sse") as session:
        old.post_status = 500
        assert "500" in await why_failed(session)
        assert not session.connection.closed.is_set()
        old.post_status = 404
        assert "404" in await why_failed(session)
        with trio.fail_after(PATIENCE):
            await session.connection.closed.wait()


async def test_cancelling_over_http_sse() -> None:
    class Busy(OldServer):
        async def answer(self, asked: Asked) -> None:
            if asked.kind != "tools/call":
                await super().answer(asked)

    async with serving(Busy()) as up, session_at(up.url, transport="sse") as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, session)
            asked = await up.got("tools/call")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        told = await up.got("notifications/cancelled")
        assert told.frame["params"]["requestId"] == asked.frame["id"]


async def test_a_stream_that_does_not_begin_as_it_should() -> None:
    async def wrong(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event({"jsonrpc": "2.0", "method": "notifications/message"})
        await reply.hang()

    async with serving(wrong) as up:
        assert "does not begin with the address to post to" in await why_not(up.url, transport="sse")
