"""LV-30 and what the rows around it say of HTTP: the real ``mcpx serve`` in front of a scripted server at a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2024_11_05, V2025_06_18
from tests.support.http_old import OldServer
from tests.support.http_up import Asked, HttpUp, Reply, legacy, modern, serving
from tests.unit.upstream.over_http import SECRET

if TYPE_CHECKING:
    from tests.support.stage import Stage

HANDSHAKE = ["initialize", "notifications/initialized"]


async def echo(asked: Asked, reply: Reply) -> None:
    modern_one = PROTOCOL_VERSION in asked.frame["params"].get("_meta", {})
    result = {"content": [{"type": "text", "text": "done"}]}
    await reply.result({"resultType": "complete", **result} if modern_one else result)


async def _use(stage: Stage, up: HttpUp, url: str | None = None, **entry: Any) -> None:
    """One run of mcpx in which a host lists the tools and calls one."""
    async with stage.mcpx(servers={"one": {"url": url or up.url, **entry}}) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        assert (await host.call("one__echo")).result["content"][0]["text"] == "done"


def _posted(up: HttpUp) -> list[str]:
    """What was posted, in order."""
    return [asked.kind for asked in up.asked if asked.method == "POST"]


async def test_lv_30_a_modern_server_is_known_by_its_first_answer(stage: Stage) -> None:
    """``server/discover`` is posted first, with the headers; its result decides, and there is no session."""
    async with serving(modern(tools__call=echo)) as up:
        await _use(stage, up)
        assert up.kinds == ["server/discover", "tools/list", "tools/call"]
        assert up.asked[0].headers["mcp-protocol-version"] == LATEST_MODERN


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, ""),
        (400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}'),
        (404, "not found"),
        (405, ""),
        (200, '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'),
    ],
)
async def test_lv_30_a_refusal_that_is_not_modern_means_legacy(
    stage: Stage, revision: str, status: int, body: str
) -> None:
    """The body of a refusal is looked at: without a modern error in it the handshake follows, and holds thereafter."""

    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(status, body, "application/json" if body.startswith("{") else "text/plain")

    async with serving(legacy(revision, server__discover=refuse, tools__call=echo)) as up:
        await _use(stage, up)
        assert _posted(up) == ["server/discover", *HANDSHAKE, "tools/list", "tools/call"]
        assert len(up.of("DELETE")) == 1


async def test_lv_30_a_modern_error_in_a_400_is_no_reason_to_fall_back(stage: Stage) -> None:
    """``-32022`` in a 400 names versions, and the list decides: with none in common no handshake is tried."""

    async def other(asked: Asked, reply: Reply) -> None:
        await reply.error(-32022, status=400, supported=["2099-01-01"], requested=LATEST_MODERN)

    async with serving(other) as up:
        async with stage.mcpx(servers={"one": {"url": up.url}}) as host:
            await host.open(LATEST_LEGACY)
            assert await host.names() == []
        assert set(up.kinds) == {"server/discover"}
        assert "2099-01-01" in host.log


async def test_lv_30_http_sse_comes_last(stage: Stage) -> None:
    """Where neither is taken the URL is asked for a stream, and what it names first is posted to."""
    async with serving(OldServer()) as up:
        await _use(stage, up)
        assert up.kinds[:4] == ["server/discover", "initialize", "GET", "initialize"]
        assert {asked.target for asked in up.asked[3:]} == {"/messages?session=1"}


@pytest.mark.parametrize("status", [401, 403])
async def test_lv_30_who_is_not_let_in_learns_no_era(stage: Stage, status: int) -> None:
    """Neither is a reason to fall back; the error says how to give a token, and the log shows none."""

    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(status, asked.headers["authorization"])

    entry = {"url": "", "headers": {"Authorization": f"Bearer {SECRET}"}}
    async with serving(refuse) as up:
        async with stage.mcpx(servers={"one": {**entry, "url": up.url}}) as host:
            await host.open(LATEST_LEGACY)
            assert await host.names() == []
        assert set(up.kinds) == {"server/discover"}
        assert '"headers"' in host.log
        assert SECRET not in host.log


async def test_lv_31_the_era_of_a_url_is_remembered_and_put_right(stage: Stage) -> None:
    """A second run does not probe a legacy server, nor one of HTTP+SSE; one that has changed is found out anew."""
    old = OldServer()
    async with serving(old) as up:
        await _use(stage, up)
        seen = len(up.asked)
        await _use(stage, up)
        assert up.kinds[seen : seen + 2] == ["GET", "initialize"]
        up.script = legacy(tools__call=echo)
        await _use(stage, up)
        seen = len(up.asked)
        await _use(stage, up)
        assert up.kinds[seen] == "initialize"
        up.script = modern(tools__call=echo)
        await _use(stage, up)
        seen = len(up.asked)
        await _use(stage, up)
        assert up.kinds[seen:] == ["server/discover", "tools/list", "tools/call"]


async def test_lv_32_a_pin_holds_over_http(stage: Stage) -> None:
    """A dated revision is offered and nothing else is tried; "modern" never falls back."""
    async with serving(legacy(V2025_06_18, tools__call=echo)) as up:
        await _use(stage, up, protocol=V2025_06_18)
        assert up.of("initialize")[0].frame["params"]["protocolVersion"] == V2025_06_18
        assert up.of("tools/call")[0].headers["mcp-protocol-version"] == V2025_06_18
        seen = len(up.asked)
        async with stage.mcpx(servers={"one": {"url": up.url, "protocol": "modern"}}) as host:
            await host.open(LATEST_LEGACY)
            assert await host.names() == []
        assert set(up.kinds[seen:]) == {"server/discover"}


async def test_lv_03_the_oldest_revision_over_both_transports(stage: Stage) -> None:
    """A server on 2024-11-05 is used over Streamable HTTP, without the header that it never had, and over HTTP+SSE."""
    async with serving(legacy(V2024_11_05, tools__call=echo)) as up:
        await _use(stage, up)
        assert "mcp-protocol-version" not in up.of("tools/call")[0].headers
    async with serving(OldServer()) as up:
        await _use(stage, up, type="sse")
        assert up.kinds[0] == "GET"
