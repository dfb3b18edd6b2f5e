"""Servers at a URL whose sessions, streams and headers go wrong, behind the real ``mcpx serve``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.fake_down import AFTER_EOF
from tests.support.http_up import Asked, Reply, legacy, modern, serving
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from tests.support.stage import Stage

OK = {"content": [{"type": "text", "text": "done"}]}


async def echo(asked: Asked, reply: Reply) -> None:
    await reply.result(OK)


async def test_pain_18_a_session_that_the_server_forgot_is_opened_anew_once(stage: Stage) -> None:
    """Calls that were refused for it run all the same, each once; the host notices nothing."""
    script = legacy(tools__call=echo)
    async with serving(script) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        script.known.clear()
        asked = [await host.start("tools/call", {"name": "one__echo", "arguments": {}}) for _ in range(5)]
        for one in asked:
            assert (await one.wait()).result["content"]
        assert len(up.of("initialize")) == 2
        assert len([call for call in up.of("tools/call") if call.headers["mcp-session-id"] == "s2"]) == 5


async def test_pain_18_a_token_that_ran_out_starts_no_loop(stage: Stage) -> None:
    """401 for a session's requests is an error for each of them, and opens nothing anew."""

    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(401)

    async with serving(legacy(tools__call=refuse)) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for _ in range(3):
            assert "Give it a token" in (await host.call("one__echo")).error["message"]
        assert len(up.of("initialize")) == 1
        assert len(up.of("tools/call")) == 3


async def test_pain_10_a_cancelled_call_reaches_a_server_at_a_url(stage: Stage) -> None:
    """A modern one by its stream being closed, a legacy one by one notification with the server's own id."""

    async def hang(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.hang()

    for server, told in ((modern, 0), (legacy, 1)):
        async with serving(server(tools__call=hang)) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
            await host.open(LATEST_LEGACY)
            await host.names()
            call = await host.start("tools/call", {"name": "one__echo", "arguments": {}})
            posted = await up.got("tools/call")
            await host.cancel(call)
            with trio.fail_after(PATIENCE):
                await posted.gone.wait()
            notes = up.of("notifications/cancelled")
            assert [note.frame["params"]["requestId"] for note in notes] == [posted.frame["id"]] * told


async def test_near_a_stream_that_is_dropped_at_once_is_not_asked_for_in_a_loop(stage: Stage) -> None:
    """It is opened again with growing waits, and calls are none the worse for it."""

    async def drop(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.cut()

    async with serving(legacy(GET=drop, tools__call=echo)) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await trio.sleep(1)
        assert (await host.call("one__echo")).result["content"]
        assert len(up.of("GET")) <= 3


async def test_near_names_are_said_in_headers_as_the_server_knows_them(stage: Stage) -> None:
    """The public prefix is taken off in the header as well, and what no header can hold is encoded."""
    tools: list[dict[str, Any]] = [{"name": "données", "inputSchema": {"type": "object"}}]

    async def listed(asked: Asked, reply: Reply) -> None:
        await reply.result({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": tools})

    async def done(asked: Asked, reply: Reply) -> None:
        await reply.result({"resultType": "complete", **OK})

    handlers: dict[str, Any] = {"tools__list": listed, "tools__call": done}
    async with serving(modern(**handlers)) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        [name] = await host.names(revision=LATEST_MODERN)
        assert (await host.call(name, revision=LATEST_MODERN)).result["content"]
        assert up.asked[-1].headers["mcp-name"] == "=?base64?ZG9ubsOpZXM=?="


async def test_near_a_server_that_answers_nothing_any_more_holds_up_no_end(stage: Stage) -> None:
    """Neither its call nor the end of its session is waited for longer than a host waits for mcpx."""

    async def hang(asked: Asked, reply: Reply) -> None:
        await reply.hang()

    handlers = {"tools__call": hang, "notifications__cancelled": hang, "DELETE": hang, "GET": hang}
    async with serving(legacy(**handlers)) as up:
        async with stage.mcpx(servers={"one": {"url": up.url}}) as host:
            await host.open(LATEST_LEGACY)
            await host.names()
            await host.start("tools/call", {"name": "one__echo", "arguments": {}})
            await up.got("tools/call")
            await host.close()
            assert host.took < AFTER_EOF
        assert len(up.of("DELETE")) == 1
