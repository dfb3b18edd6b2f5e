"""Headers that repeat what the body says, and tools that want more of them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcpx.errors import RpcError, UpstreamError
from mcpx.spec.codes import HEADER_MISMATCH
from mcpx.wire import frames
from mcpx.wire.headers import decode_value
from tests.support.http_up import Asked, Reply, legacy, modern, serving
from tests.unit.upstream.over_http import ASKER, call, session_at

COMPLETE = {"resultType": "complete", "content": []}


def schema(**annotations: Any) -> dict[str, Any]:
    properties = {name: {"type": "string", "x-mcp-header": header} for name, header in annotations.items()}
    return {"type": "object", "properties": properties}


def listing(*pages: list[dict[str, Any]]) -> Any:
    """Answers ``tools/list`` with pages."""

    async def answer(asked: Asked, reply: Reply) -> None:
        page = int(asked.frame["params"].get("cursor", "0"))
        more = {"nextCursor": str(page + 1)} if page + 1 < len(pages) else {}
        await reply.result({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": pages[page], **more})

    return answer


async def done(asked: Asked, reply: Reply) -> None:
    await reply.result(COMPLETE)


async def strict(asked: Asked, reply: Reply) -> None:
    """Wants the region, as a gateway in front of a server may."""
    if "mcp-param-region" in asked.headers:
        await reply.result(COMPLETE)
    else:
        await reply.error(HEADER_MISMATCH, "Header mismatch: Mcp-Param-Region is missing", status=400)


@pytest.mark.parametrize("name", ["données", "file:///Załączniki/a b", " padded ", "=?base64?eA==?=", "plain", ""])
async def test_names_that_no_header_can_hold(name: str) -> None:
    async with serving(modern(tools__call=done, resources__read=done)) as up, session_at(up.url) as session:
        await call(session, name)
        assert decode_value(up.asked[-1].headers["mcp-name"]) == name
        with pytest.raises(RpcError):
            await session.ask("prompts/get", {"name": frames.to_raw(name)}, ASKER)
        assert decode_value(up.asked[-1].headers["mcp-name"]) == name


async def test_a_tool_that_was_listed_gets_its_headers_at_once() -> None:
    tools = [{"name": "find", "inputSchema": schema(region="Region", user="User")}]
    handlers = {"tools__list": listing(tools), "tools__call": strict}
    async with serving(modern(**handlers)) as up, session_at(up.url) as session:
        await session.ask("tools/list", {}, ASKER)
        await call(session, "find", region="Zürich", query="x", user=None)
        headers = up.asked[-1].headers
        assert decode_value(headers["mcp-param-region"]) == "Zürich"
        assert "mcp-param-user" not in headers
        assert up.kinds.count("tools/call") == 1


async def test_one_that_was_not_is_listed_when_the_server_says_so() -> None:
    pages = [[{"name": "echo", "inputSchema": schema()}], [{"name": "find", "inputSchema": schema(region="Region")}]]
    handlers = {"tools__list": listing(*pages), "tools__call": strict}
    async with serving(modern(**handlers)) as up, session_at(up.url) as session:
        await call(session, "find", region="eu")
        assert up.kinds == ["server/discover", "tools/call", "tools/list", "tools/list", "tools/call"]
        await call(session, "find", region="us")
        assert up.asked[-1].headers["mcp-param-region"] == "us"


async def test_one_whose_headers_never_match_fails_after_one_more_try() -> None:
    handlers = {"tools__list": listing([{"name": "find", "inputSchema": schema()}]), "tools__call": strict}
    async with serving(modern(**handlers)) as up, session_at(up.url) as session:
        with pytest.raises(RpcError) as caught:
            await call(session, "find", region="eu")
        assert caught.value.code == HEADER_MISMATCH
        assert up.kinds.count("tools/call") == 2
        assert up.kinds.count("tools/list") == 1
        assert not session.connection.closed.is_set()


async def test_tools_with_annotations_that_break_a_rule_are_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [
        {"name": "good", "inputSchema": schema(region="Region")},
        {"name": "bad", "inputSchema": schema(region="Not a token")},
        {"name": "twice", "inputSchema": schema(one="X", other="x")},
    ]
    with caplog.at_level(logging.WARNING):
        async with serving(modern(tools__list=listing(tools))) as up, session_at(up.url) as session:
            for _ in range(2):
                page = json.loads(bytes(await session.ask("tools/list", {}, ASKER)))
                assert [tool["name"] for tool in page["tools"]] == ["good"]
    warnings = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert [("'bad'" in text, "'twice'" in text) for text in warnings] == [(True, False), (False, True)]


async def test_nothing_of_it_concerns_a_server_that_is_not_modern() -> None:
    async def tools(asked: Asked, reply: Reply) -> None:
        await reply.result({"tools": [{"name": "bad", "inputSchema": schema(region="Not a token")}]})

    async with serving(legacy(tools__list=tools)) as up, session_at(up.url) as session:
        assert b"bad" in bytes(await session.ask("tools/list", {}, ASKER))


async def test_a_method_that_no_header_can_hold_fails_alone() -> None:
    async def take(asked: Asked, reply: Reply) -> None:
        await reply.send(202)

    async with serving(modern(mine__too=take)) as up, session_at(up.url, passthrough=True) as session:
        with pytest.raises(UpstreamError, match="cannot be made over HTTP"):
            await session.ask("my method", {}, ASKER)
        session.connection.offer("my notification")
        session.connection.offer("mine/too")
        await up.got("mine/too")
        await session.ask("tools/list", {}, ASKER)
        assert up.kinds == ["server/discover", "mine/too", "tools/list"]
