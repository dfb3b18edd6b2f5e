"""What a request says of itself is said anew on each hop: its headers and the reserved keys of its ``_meta``, kind 20.

A gateway by HTTP in front of several servers at URLs, whose items share their names; each has its own public one.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PREFIX, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, is_modern
from tests.support.http_hosts import serving_http
from tests.support.http_up import discovered, initialized, legacy, modern, serving
from tests.support.posting import INFO, Poster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.http_up import Asked, HttpUp, Reply
    from tests.support.stage import Stage

SENTINEL = "=?base64?eA==?="  # as a name; as a header it means "x"
NAMES = ("plain", "données", SENTINEL, " padded ", "two\nlines")
URI = "file:///Załączniki/a b"
CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
HEADERS = ("mcp-protocol-version", "mcp-method", "mcp-name")

LISTS: dict[str, tuple[str, list[dict[str, Any]]]] = {  # method -> the member of its result, and the items in it
    "tools/list": ("tools", [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]),
    "prompts/list": ("prompts", [{"name": name} for name in NAMES]),
    "resources/list": ("resources", [{"uri": URI, "name": "file"}]),
}
USES: dict[str, tuple[str, str, dict[str, Any]]] = {  # method -> its list, the member that names an item, the result
    "tools/call": ("tools/list", "name", {"content": []}),
    "prompts/get": ("prompts/list", "name", {"messages": []}),
    "resources/read": ("resources/list", "uri", {"contents": [{"uri": URI, "text": "x"}]}),
}


def wrapped(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def offering(revision: str) -> Any:
    """The script of a server that has all of these."""
    caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if is_modern(revision) else {}

    def saying(result: dict[str, Any]) -> Any:
        async def say(asked: Asked, reply: Reply) -> None:
            await reply.result(result)

        return say

    async def opened(asked: Asked, reply: Reply) -> None:
        await reply.result(discovered(capabilities=CAPABILITIES))

    async def shaken(asked: Asked, reply: Reply) -> None:
        await reply.result(initialized(LATEST_LEGACY, capabilities=CAPABILITIES))

    said = {method: {member: items, **caching} for method, (member, items) in LISTS.items()}
    said |= {method: {**result, **caching} for method, (_, _, result) in USES.items() if method == "resources/read"}
    complete = {"resultType": "complete"} if is_modern(revision) else {}
    said |= {method: {**result, **complete} for method, (_, _, result) in USES.items() if method not in said}
    handlers = {method.replace("/", "__"): saying(result) for method, result in said.items()}
    if is_modern(revision):
        return modern(server__discover=opened, **handlers)
    return legacy(sessions=False, initialize=shaken, **handlers)


@asynccontextmanager
async def posting(stage: Stage, revision: str, **servers: str) -> AsyncIterator[tuple[Poster, dict[str, HttpUp]]]:
    """A host of that revision, in front of servers of these."""
    async with AsyncExitStack() as stack:
        ups = {name: await stack.enter_async_context(serving(offering(one))) for name, one in servers.items()}
        entries = {name: {"url": up.url} for name, up in ups.items()}
        site = await stack.enter_async_context(serving_http(stage, servers=entries))
        poster = Poster(site, revision)
        if not is_modern(revision):
            await poster.open()
        yield poster, ups


async def public_names(poster: Poster, method: str) -> list[str]:
    """What an item of each server is called in a list, in the order of the servers and of their own lists."""
    listing, member, _ = USES[method]
    said = await poster.ask("list", listing)
    return [item[member] for item in said.frame["result"][LISTS[listing][0]]]


async def use(poster: Poster, method: str, public: str, **meta: Any) -> Any:
    """Use an item as a host of its revision does."""
    headers = {"mcp_name": wrapped(public)} if is_modern(poster.revision) else {}
    return await poster.ask(1, method, {USES[method][1]: public}, meta=meta, **headers)


@pytest.mark.parametrize("method", USES)
@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_pain_20_the_header_has_the_servers_own_name(stage: Stage, revision: str, method: str) -> None:
    """It agrees with the body, whatever the public name was; what no header can hold goes in base64."""
    owns = [URI] if method == "resources/read" else list(NAMES)
    async with posting(stage, revision, one=LATEST_MODERN, two=LATEST_MODERN) as (poster, ups):
        public = await public_names(poster, method)
        assert len(set(public)) == len(public) == 2 * len(owns)
        for up, name, own in zip([*[ups["one"]] * len(owns), *[ups["two"]] * len(owns)], public, owns * 2, strict=True):
            assert (await use(poster, method, name)).status == 200
            asked = up.of(method)[-1]
            assert asked.frame["params"][USES[method][1]] == own
            said = own if own == "plain" else wrapped(own)
            assert [asked.headers[header] for header in HEADERS] == [LATEST_MODERN, method, said]
        assert [len(up.of(method)) for up in ups.values()] == [len(owns)] * 2


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("one__plain", {"mcp_name": "plain"}),
        ("one__plain", {"mcp_name": "two__plain"}),
        ("one__plain", {"mcp_name": "One__plain"}),
        ("one__plain", {"mcp_name": wrapped("two__plain")}),
        ("one__plain", {"mcp_name": "=?base64?b25l*?="}),
        ("one__plain", {"mcp_name": None}),
        ("one__plain", {"mcp_method": None}),
        ("one__plain", {"mcp_method": "tools/list"}),
        ("one__plain", {"mcp_protocol_version": LATEST_LEGACY}),
        (SENTINEL, {"mcp_name": SENTINEL}),
    ],
)
async def test_pain_20_headers_that_do_not_match_are_refused(stage: Stage, name: str, headers: Any) -> None:
    """(2026-07-28 basic/transports/streamable-http, Server Validation.) The server hears nothing of it."""
    async with posting(stage, LATEST_MODERN, one=LATEST_MODERN, two=LATEST_MODERN) as (poster, ups):
        said = await poster.ask(1, "tools/call", {"name": name}, **headers)
        assert said.code == (400, -32020)
        assert said.frame["id"] == 1
        assert (await use(poster, "tools/call", "one__plain")).status == 200
        assert [len(up.of("tools/call")) for up in ups.values()] == [1, 0]


async def test_pain_20_a_name_is_compared_as_what_it_means(stage: Stage) -> None:
    """As it is and in base64; what looks like the sentinel means itself once it is wrapped, and here is no tool."""
    async with posting(stage, LATEST_MODERN, one=LATEST_MODERN, two=LATEST_MODERN) as (poster, ups):
        for header in ("one__plain", wrapped("one__plain")):
            assert (await poster.ask(1, "tools/call", {"name": "one__plain"}, mcp_name=header)).status == 200
        assert len(ups["one"].of("tools/call")) == 2
        assert (await use(poster, "tools/call", SENTINEL)).frame["error"]["code"] == -32602


@pytest.mark.parametrize("method", USES)
async def test_pain_20_nothing_of_the_modern_era_reaches_a_legacy_server(stage: Stage, method: str) -> None:
    """Neither a header nor a reserved key; what others keep in the metadata does, and a modern server gets its own."""
    meta = {
        LOG_LEVEL: "debug",
        PREFIX + "subscriptionId": 1,
        PREFIX + "serverInfo": INFO,
        "progressToken": "of the host",
        "example.org/own": [1, None],
    }
    async with posting(stage, LATEST_MODERN, old=LATEST_LEGACY, new=LATEST_MODERN) as (poster, ups):
        for name in await public_names(poster, method):
            assert (await use(poster, method, name, **meta)).status == 200
        for asked in ups["old"].of(method):
            said = asked.frame["params"]["_meta"]
            assert {key: value for key, value in said.items() if key != "progressToken"} == {
                "example.org/own": [1, None]
            }
            assert said.get("progressToken") != "of the host"
            assert asked.headers["mcp-protocol-version"] == LATEST_LEGACY
            assert not {"mcp-method", "mcp-name"} & asked.headers.keys()
        for asked in ups["old"].asked[1:]:
            assert asked.method != "POST" or PROTOCOL_VERSION not in asked.frame.get("params", {}).get("_meta", {})
        for asked in ups["new"].of(method):
            said = asked.frame["params"]["_meta"]
            assert said[PROTOCOL_VERSION] == LATEST_MODERN
            assert said["example.org/own"] == [1, None]
            assert not {PREFIX + "subscriptionId", PREFIX + "serverInfo"} & said.keys()
            assert said["progressToken"] != "of the host"


async def test_pain_20_a_server_is_told_what_the_caller_can_do_and_mcpx_relays(stage: Stage) -> None:
    """Of each request by itself: nothing is added, kept, or taken from the one before or from the handshake."""
    kept = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "extensions": {"org.example/x": {"a": 1}},
    }
    cut = {"tasks": {}, "experimental": {"x": {}}, "unheard": {"of": True}}
    async with posting(stage, LATEST_MODERN, one=LATEST_MODERN, two=LATEST_MODERN) as (poster, ups):
        for declared in ({**kept, **cut}, {}, {"roots": {}, **cut}):
            await use(poster, "tools/call", "one__plain", **{CLIENT_CAPABILITIES: declared})
        session = Poster(poster.site, LATEST_LEGACY)
        await session.open()
        await use(session, "tools/call", "one__plain")
        metas = [asked.frame["params"]["_meta"] for asked in ups["one"].of("tools/call")]
        assert [meta[CLIENT_CAPABILITIES] for meta in metas] == [kept, {}, {"roots": {}}, {}]
        assert {meta[PROTOCOL_VERSION] for meta in metas} == {LATEST_MODERN}
        assert all(CLIENT_INFO in meta for meta in metas)
