"""The peers over HTTP with nothing between: proves the programs, and holds the facts that mcpx's probe builds on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.peers.over_http import HTTP_HOSTS, visit
from tests.peers.raw import DISCOVER, INITIALIZE, modern, request
from tests.peers.running import MODERN_HOSTS
from tests.peers.tours import UNKNOWN_TOOL, check_tour, spoken
from tests.peers.town import WAYS
from tests.support.http_wire import JSON, wired

if TYPE_CHECKING:
    from tests.peers.running import Run
    from tests.peers.town import Town

# Where each host goes: to its own SDK, and to another's.
PAIRS = [
    ("py1", "py1"),
    ("py1-sse", "py1-sse"),
    ("py2-legacy", "py2"),
    ("py2-auto", "ts1-32"),
    ("py2-modern", "py2-stateless"),
    ("ts2-legacy", "ts2"),
    ("ts2-auto", "py1"),
    ("ts2-modern", "ts2-stateless"),
    ("ts1-32", "ts1-32"),
    ("ts1-32-sse", "ts1-32-sse"),
    ("ts1-22", "ts1-22"),
    ("ts1-22-sse", "ts1-22-sse"),
]


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("host", "way"), PAIRS)
async def test_host_meets_server(guest: Run, town: Town, host: str, way: str) -> None:
    async with guest.clearing():
        report = await visit(guest, host, town.entries(way)[way]["url"])
    check_tour(report, host)
    name, _, _, revision = WAYS[way]
    assert report["unknown"] == UNKNOWN_TOOL[name]
    both = HTTP_HOSTS[host][0] in MODERN_HOSTS and revision == LATEST_MODERN
    assert report["protocol"] == (LATEST_MODERN if both else min(spoken(HTTP_HOSTS[host][0]), revision, LATEST_LEGACY))


# What each way answers: to a discover first, to a request of no session and of one that there never was, and to a GET.
# Of the Node servers it is our own route that knows of no such session: the SDKs leave that to the program.
Fact = tuple[int, int | None]  # the status, and the code of the error
OLD = (405, None)
FACTS: dict[str, tuple[Fact, Fact, Fact, int]] = {
    "py1": ((400, -32600), (400, -32600), (404, -32600), 400),
    "py1-stateless": ((400, -32600), (200, None), (200, None), 200),
    "py1-sse": (OLD, OLD, OLD, 200),
    "py2": ((200, None), (400, -32600), (404, -32600), 400),
    "py2-stateless": ((200, None), (200, None), (200, None), 200),
    "py2-sse": (OLD, OLD, OLD, 200),
    "ts2": ((200, None), (400, -32000), (404, None), 400),
    "ts2-stateless": ((200, None), (200, None), (200, None), 405),
    "ts1-32": ((400, -32000), (400, -32000), (404, None), 400),
    "ts1-32-stateless": ((400, -32000), (200, None), (200, None), 405),
    "ts1-32-sse": (OLD, OLD, OLD, 200),
    "ts1-22": ((400, -32000), (400, -32000), (404, None), 400),
    "ts1-22-stateless": ((400, -32000), (200, None), (200, None), 405),
    "ts1-22-sse": (OLD, OLD, OLD, 200),
}
LIST = request(1, "tools/list")


def headers(method: str) -> dict[str, str]:
    """What a modern request says in its headers."""
    return {"MCP-Protocol-Version": LATEST_MODERN, "Mcp-Method": method}


@pytest.mark.parametrize("way", FACTS)
async def test_what_a_way_answers(town: Town, way: str) -> None:
    discovered, without, unknown, stream = FACTS[way]
    assert (await posted(town, way, DISCOVER, **headers("server/discover")))[0] == discovered
    assert (await posted(town, way, LIST))[0] == without
    assert (await posted(town, way, LIST, **{"Mcp-Session-Id": "none"}))[0] == unknown
    async with wired(town.port(way)) as wire:
        await wire.send("GET", WAYS[way][1], headers={"Accept": "text/event-stream"})
        assert (await wire.head()).status == stream


@pytest.mark.parametrize("way", ["py1", "py2", "ts2", "ts1-32", "ts1-22"])
async def test_a_handshake_opens_a_session(town: Town, way: str) -> None:
    """Its result comes as an event, and only then is there a session; the Python servers name one in a refusal too."""
    fact, head = await posted(town, way, INITIALIZE)
    assert fact == (200, None)
    assert head["content-type"] == "text/event-stream"
    assert "mcp-session-id" in head
    _, head = await posted(town, way, LIST)
    assert ("mcp-session-id" in head) is way.startswith("py")


@pytest.mark.parametrize("way", ["py2", "py2-stateless", "ts2", "ts2-stateless"])
async def test_an_unknown_modern_method_is_a_404(town: Town, way: str) -> None:
    fact, _ = await posted(town, way, modern(1, "nothing/here"), **headers("nothing/here"))
    assert fact == (404, -32601)


async def posted(town: Town, way: str, frame: Any, **said: str) -> tuple[Fact, dict[str, str]]:
    """Post a message: the fact, and the headers of the answer. A stream of events is not waited for."""
    async with wired(town.port(way)) as wire:
        await wire.send("POST", WAYS[way][1], json.dumps(frame).encode(), {**JSON, **said})
        head = await wire.head()
        if head.headers.get("content-type", "").startswith("text/event-stream"):
            return (head.status, None), head.headers
        body = b""
        while (chunk := await wire.chunk()) is not None:
            body += chunk
    code = json.loads(body).get("error", {}).get("code") if body.startswith(b"{") else None
    return (head.status, code), head.headers
