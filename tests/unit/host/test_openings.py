"""initialize, server/discover and ping, to every revision."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from mcpx.errors import UpstreamError
from mcpx.spec.meta import SERVER_INFO
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    REVISIONS,
    SUPPORTED,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
)
from mcpx.upstream.call import Identity
from tests.unit.host.talk import FakeGateway, open_talk, raw

SHINING = Identity(
    raw(
        {
            "name": "shining",
            "title": "Shining",
            "version": "9",
            "description": "d",
            "websiteUrl": "https://example.org",
            "icons": [{"src": "https://example.org/i.png"}, {"src": "file:///etc/passwd"}],
            "own": 1,
        }
    ),
    {
        "tools": Raw(b'{"listChanged":true,"own":1}'),
        "resources": Raw(b'{"subscribe":true,"listChanged":false}'),
        "logging": Raw(b"{}"),
        "tasks": Raw(b'{"list":{}}'),
        "completions": Raw(b"{}"),
        "prompts": Raw(b'"no object"'),
        "extensions": Raw(b'{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"a":1}}'),
        "own": Raw(b'{"x":1.0}'),
    },
    "Use me.",
)


@pytest.mark.parametrize("revision", LEGACY)
async def test_initialize_in_front_of_several_servers(revision: str) -> None:
    async with open_talk(FakeGateway()) as talk:
        result = await talk.shake(revision)
        assert result["protocolVersion"] == revision
        assert result["instructions"] == "Be kind."
        assert result["serverInfo"]["name"] == "mcpx"
        assert ("title" in result["serverInfo"]) == (revision in (V2025_06_18, V2025_11_25))
        expected: dict[str, Any] = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
        expected["resources"]["subscribe"] = True
        if revision != V2024_11_05:
            expected["completions"] = {}
        expected["logging"] = {}
        assert result["capabilities"] == expected
        assert result.keys() == {"protocolVersion", "capabilities", "serverInfo", "instructions"}


@pytest.mark.parametrize("revision", LEGACY)
async def test_initialize_where_one_server_shines_through(revision: str) -> None:
    gateway = FakeGateway(passthrough=True)
    gateway.said = SHINING
    async with open_talk(gateway) as talk:
        result = await talk.shake(revision)
        info = result["serverInfo"]
        assert (info["name"], info["version"], info["own"]) == ("shining", "9", 1)
        assert ("title" in info) == (revision in (V2025_06_18, V2025_11_25))
        assert ("description" in info) == ("websiteUrl" in info) == (revision == V2025_11_25)
        assert info.get("icons") == ([{"src": "https://example.org/i.png"}] if revision == V2025_11_25 else None)
        capabilities = result["capabilities"]
        assert capabilities["tools"] == {"listChanged": True, "own": 1}
        assert capabilities["resources"] == {"subscribe": True, "listChanged": False}
        assert capabilities["own"] == {"x": 1.0}
        assert capabilities["logging"] == {}
        assert {"tasks", "prompts"}.isdisjoint(capabilities)
        assert "extensions" not in capabilities  # which its revision does not define


async def test_no_instructions_are_left_out() -> None:
    gateway = FakeGateway()
    gateway.said = Identity(None, {}, "")
    async with open_talk(gateway) as talk:
        assert "instructions" not in await talk.shake(LATEST_LEGACY)
        await talk.ask(1, "server/discover", revision=LATEST_MODERN)
        assert "instructions" not in (await talk.hear())["result"]


async def test_discover() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.ask(1, "server/discover", revision=LATEST_MODERN)
        result = (await talk.hear())["result"]
        assert result.pop("ttlMs") >= 0
        info = result.pop("_meta")[SERVER_INFO]
        assert info["name"] == "mcpx"
        assert result == {
            "resultType": "complete",
            "supportedVersions": list(SUPPORTED),
            "capabilities": {
                "tools": {"listChanged": True},
                "prompts": {"listChanged": True},
                "resources": {"listChanged": True, "subscribe": True},
                "completions": {},
                "logging": {},
            },
            "instructions": "Be kind.",
            "cacheScope": "private",
        }


async def test_discover_where_one_server_shines_through() -> None:
    gateway = FakeGateway(passthrough=True)
    gateway.said = SHINING
    async with open_talk(gateway) as talk:
        await talk.ask(1, "server/discover", revision=LATEST_MODERN)
        result = (await talk.hear())["result"]
        assert result["_meta"][SERVER_INFO]["name"] == "shining"
        assert result["capabilities"]["tools"] == {"listChanged": True, "own": 1}
        assert result["capabilities"]["resources"] == {"subscribe": True, "listChanged": False}
        assert result["capabilities"]["extensions"] == {"io.modelcontextprotocol/ui": {"a": 1}}
        assert result["capabilities"]["logging"] == {}
        assert "tasks" not in result["capabilities"]


@pytest.mark.parametrize("revision", [None, *LEGACY])
async def test_discover_by_a_legacy_host_has_nothing_that_only_modern_results_carry(revision: str | None) -> None:
    async with open_talk(FakeGateway()) as talk:
        if revision is not None:
            await talk.shake(revision)
        await talk.write(b'{"jsonrpc":"2.0","id":"d","method":"server/discover"}')
        result = (await talk.hear())["result"]
        assert result["supportedVersions"] == list(SUPPORTED)
        assert result.keys() == {"supportedVersions", "capabilities", "instructions"}
        assert ("completions" in result["capabilities"]) == (revision not in (None, V2024_11_05))


async def test_an_upstream_that_does_not_come_up_fails_its_handshake_and_the_next_may_succeed() -> None:
    gateway = FakeGateway(passthrough=True)
    gateway.identity_error = UpstreamError("one", "It exited at once with status 3.")
    async with open_talk(gateway) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        assert (await talk.hear())["error"] == {
            "code": -32603,
            "message": "one: It exited at once with status 3.",
            "data": {"server": "one", "reason": "It exited at once with status 3."},
        }
        gateway.identity_error = None
        assert (await talk.shake(V2025_03_26))["protocolVersion"] == V2025_03_26


@pytest.mark.parametrize("version", [1, None])
async def test_a_version_that_is_no_string_is_answered_with_the_list(version: Any) -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": version})
        error = (await talk.hear())["error"]
        assert error["code"] == -32602
        assert error["data"] == {"supported": list(LEGACY), "requested": version}


@pytest.mark.parametrize("revision", LEGACY)
async def test_ping_is_answered_to_legacy_hosts(revision: str) -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.ask(0, "ping")
        assert (await talk.hear())["result"] == {}
        await talk.shake(revision)
        await talk.ask(1, "ping")
        assert (await talk.hear())["result"] == {}


@pytest.mark.parametrize(
    "method", ["ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list"]
)
async def test_what_the_modern_revision_removed_is_not_found(method: str) -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.shake(V2025_06_18)
        await talk.ask(1, method, revision=LATEST_MODERN)
        error = (await talk.hear())["error"]
        assert error["code"] == -32601
        assert method in error["message"]
        await talk.ask(2, "ping")  # and the handshake still stands
        assert (await talk.hear())["result"] == {}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("method", ["no/such", "logging/setLevel/", "notifications/initialized", ""])
async def test_what_is_not_served_is_not_found(revision: str, method: str) -> None:
    async with open_talk(FakeGateway()) as talk:
        modern = revision == LATEST_MODERN
        if not modern:
            await talk.shake(revision)
        await talk.ask(1, method, revision=revision if modern else None)
        assert (await talk.hear())["error"]["code"] == -32601
