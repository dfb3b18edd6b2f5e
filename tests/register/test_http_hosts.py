"""The rows of hosts by Streamable HTTP, on the real wire: ``mcpx serve --http``, and hosts of both eras on ``/mcp``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.meta import PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, SUPPORTED, V2025_03_26, V2025_06_18
from tests.support.http_hosts import CALL, HELD, serving_http, until_quiet
from tests.support.posting import Poster
from tests.support.scripted import EVERY_REQUEST, PROMPT, RESOURCE, TEMPLATE, TOOL

if TYPE_CHECKING:
    from tests.support.http_hosts import Site
    from tests.support.stage import Stage

ECHO = {"name": "one__echo", "arguments": {}}
WHOLE: dict[str, Any] = {
    "tools": [TOOL],
    "prompts": [PROMPT],
    "resources": [RESOURCE],
    "templates": [TEMPLATE],
    "completes": {},
}
TALKING: dict[str, Any] = {  # an upstream that says how far it is before it is held, and after
    "tools": [TOOL, {**TOOL, "name": "held"}],
    "calls": {"held": [{"progress": {}}, {"hold": "it"}, {"progress": {}}, {"answer": True}]},
}
WITH_TOKEN = {"progressToken": "t"}


def region(header: str) -> dict[str, Any]:
    """A tool whose parameter is repeated in a header."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}
    return {**TOOL, "inputSchema": schema}


async def opened(site: Site, revision: str = LATEST_LEGACY) -> Poster:
    host = Poster(site, revision)
    await host.open()
    return host


@pytest.mark.parametrize("revision", LEGACY)
async def test_lv_01_a_legacy_host_by_http(stage: Stage, revision: str) -> None:
    """A handshake, every request, what is said unasked, and the end of the session."""
    one = stage.upstream("one", **WHOLE)
    async with serving_http(stage, one) as site:
        host = await opened(site, revision)
        for number, (method, params) in enumerate(EVERY_REQUEST, 1):
            said = await host.ask(number, method, params)
            assert (said.status, said.headers["content-type"]) == (200, "application/json")
            assert "resultType" not in said.frame["result"]
        async with host.got() as wire:
            assert (await wire.head()).headers["x-accel-buffering"] == "no"
            await one.do({"notify": {"method": "notifications/tools/list_changed"}})
            event = await wire.event()
            assert event is not None
            host.check(json.loads(event.data))
            assert wire.comments >= 1
        async with site.wired() as wire:
            assert (await wire.ask("DELETE", "/mcp", **_dashed(host.session))).status == 204
        assert (await host.ask(99, "ping")).status == 404


async def test_lv_01_a_modern_host_by_http(stage: Stage) -> None:
    """No handshake, every request, and never a session."""
    async with serving_http(stage, stage.upstream("one", **WHOLE)) as site:
        host = Poster(site)
        for method, params in [("server/discover", {}), *EVERY_REQUEST]:
            said = await host.ask(0, method, params, mcp_session_id="whatever")
            assert (said.status, said.headers["content-type"]) == (200, "application/json")
            assert said.frame["result"]["resultType"] == "complete"
            assert "mcp-session-id" not in said.headers
        assert (await _asked(site, "GET", host)) == (await _asked(site, "DELETE", host)) == 405


async def _asked(site: Site, method: str, host: Poster) -> int:
    async with site.wired() as wire:
        return (await wire.ask(method, "/mcp", mcp_protocol_version=host.revision)).status


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


@pytest.mark.parametrize("version", ["1.0", "2024-01-01", "nonsense", ""])
async def test_lv_05_a_session_by_a_counter_offer(stage: Stage, version: str) -> None:
    """Any other string is answered with the latest legacy revision, and a session."""
    async with serving_http(stage, stage.upstream("one")) as site:
        said = await _initialize(site, version)
        assert said.frame["result"]["protocolVersion"] == LATEST_LEGACY
        assert said.headers["mcp-session-id"]


@pytest.mark.parametrize("version", [7, [LATEST_LEGACY], {}, True])
async def test_lv_05_no_session_by_what_is_no_version(stage: Stage, version: Any) -> None:
    """A value that is no string is -32602, and nothing is minted."""
    async with serving_http(stage, stage.upstream("one")) as site:
        said = await _initialize(site, version)
        assert said.frame["error"]["code"] == -32602
        assert said.frame["error"]["data"]["requested"] == version
        assert "mcp-session-id" not in said.headers


async def test_lv_06_a_newer_version_by_http(stage: Stage) -> None:
    """It is counter-offered as on any transport."""
    async with serving_http(stage, stage.upstream("one")) as site:
        assert (await _initialize(site, "2099-01-01")).frame["result"]["protocolVersion"] == LATEST_LEGACY


async def test_lv_07_initialize_for_a_modern_version_by_http(stage: Stage) -> None:
    """It selects the latest legacy one, where nothing else is modern about it."""
    async with serving_http(stage, stage.upstream("one")) as site:
        assert (await _initialize(site, LATEST_MODERN)).frame["result"]["protocolVersion"] == LATEST_LEGACY


async def _initialize(site: Site, version: Any) -> Any:
    host = Poster(site, LATEST_LEGACY)
    return await host.ask(1, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {}})


@pytest.mark.parametrize("revision", [None, *LEGACY])
async def test_lv_10_requests_without_a_session(stage: Stage, revision: str | None) -> None:
    """They are served as their header says, and as 2025-03-26 without one, which batches show."""
    async with serving_http(stage, stage.upstream("one")) as site:
        host = Poster(site, revision or V2025_03_26)
        said = await host.ask("a", "tools/call", ECHO, mcp_protocol_version=revision)
        assert said.frame["result"]["content"]
        batch = [host.frame(1, "ping"), host.frame("1", "ping")]
        body = json.dumps(batch).encode()
        async with host.started(body, mcp_protocol_version=revision) as wire:
            reply = await wire.answer()
        if revision in (None, V2025_03_26):
            assert sorted(str(one["id"]) for one in reply.json) == ["1", "1"]
        else:
            assert (reply.status, reply.json["error"]["code"]) == (400, -32600)


async def test_lv_12_batches_by_http(stage: Stage) -> None:
    """Answers come back as one batch, refusals among them; one of notifications alone gets 202."""
    async with serving_http(stage, stage.upstream("one")) as site:
        host = await opened(site, V2025_03_26)
        said = await host.post([host.frame(1, "tools/call", ECHO), host.frame(1, "ping"), host.frame(2, "initialize")])
        assert said.headers["content-type"] == "application/json"
        got = sorted(f"{one['id']} {one.get('error', {}).get('code', 'ok')}" for one in said.frame)
        assert got == ["1 -32600", "1 ok", "2 -32600"]
        said = await host.post([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}])
        assert (said.status, said.body) == (202, b"")
        later = await opened(site, V2025_06_18)
        assert (await later.post([later.frame(1, "ping")])).code == (400, -32600)


@pytest.mark.parametrize("method", ["notifications/initialized", "initialized"])
async def test_lv_13_initialized_gets_202_in_any_era(stage: Stage, method: str) -> None:
    """In a session, without one, and under a modern header."""
    async with serving_http(stage, stage.upstream("one")) as site:
        for host in (await opened(site), Poster(site, V2025_03_26), Poster(site)):
            said = await host.post({"jsonrpc": "2.0", "method": method})
            assert (said.status, said.body) == (202, b"")


@pytest.mark.parametrize(
    ("header", "named", "expected"),
    [
        (None, LATEST_MODERN, (400, -32020)),
        (LATEST_LEGACY, LATEST_MODERN, (400, -32020)),
        (LATEST_MODERN, "2099-01-01", (400, -32020)),
        (LATEST_MODERN, None, (400, -32602)),
        ("2099-01-01", "2099-01-01", (400, -32022)),
        ("2099-01-01", None, (400, -32022)),
        (LATEST_LEGACY, LATEST_LEGACY, (400, -32022)),
        (LATEST_MODERN, 7, (400, -32602)),
    ],
)
async def test_lv_24_versions_in_header_and_body(
    stage: Stage, header: str | None, named: Any, expected: tuple[int, int]
) -> None:
    """What they may not be together, and which error says so."""
    async with serving_http(stage, stage.upstream("one")) as site:
        host = Poster(site)
        frame = host.frame("x", "tools/list", **{PROTOCOL_VERSION: named})
        if named is None:
            del frame["params"]["_meta"]
        said = await host.post(frame, mcp_protocol_version=header)
        assert said.code == expected
        assert said.frame["id"] == "x"
        if expected[1] == -32022:
            assert said.frame["error"]["data"]["supported"] == list(SUPPORTED)


async def test_lv_24_headers_and_body(stage: Stage) -> None:
    """The other two headers are required, decoded and held against the body; unknown methods are 404."""
    async with serving_http(stage, stage.upstream("one", tools=[{**TOOL, "name": "données"}, TOOL])) as site:
        host = Poster(site)
        listed = (await host.ask(1, "tools/list")).frame["result"]["tools"]
        assert len(listed) == 2
        assert (await host.ask(1, "tools/call", ECHO)).frame["result"]
        assert (await host.ask(1, "tools/call", ECHO, mcp_name="=?base64?b25lX19lY2hv?=")).frame["result"]
        for headers in (
            {"mcp_name": None},
            {"mcp_name": "one__other"},
            {"mcp_name": "=?base64?!?="},
            {"mcp_method": None},
            {"mcp_method": "tools/list"},
        ):
            assert (await host.ask(1, "tools/call", ECHO, **headers)).code == (400, -32020)
        assert (await host.ask(1, "no/such")).code == (404, -32601)
        assert (await host.ask(1, "ping")).code == (404, -32601)
        initialize = await host.ask(1, "initialize", {"protocolVersion": LATEST_LEGACY})
        assert initialize.code == (404, -32601)
        assert "mcp-session-id" not in initialize.headers


async def test_lv_24_parameters_in_headers(stage: Stage) -> None:
    """Of tools under public names that nobody has listed; where a server is down, the call says so."""
    one, two = stage.upstream("one", tools=[region("Region")]), stage.upstream("two", tools=[region("Zone")])
    down = {"down": {"command": "false"}}
    async with serving_http(stage, one, two, servers=down) as site:
        host = Poster(site)
        for name, header in (("one__echo", "mcp_param_region"), ("two__echo", "mcp_param_zone")):
            call = {"name": name, "arguments": {"region": "eu"}}
            assert (await host.ask(1, "tools/call", call)).code == (400, -32020)
            assert (await host.ask(1, "tools/call", call, **{header: "us"})).code == (400, -32020)
            assert (await host.ask(1, "tools/call", call, **{header: "eu"})).frame["result"]
        assert one.received("tools/call")[0].frame["params"]["name"] == "echo"
        said = await host.ask(1, "tools/call", {"name": "down__echo", "arguments": {"region": "eu"}})
        assert said.frame["error"]["data"]["server"] == "down"


async def test_lv_33_each_request_has_its_own_era_by_http(stage: Stage) -> None:
    """A session opens nothing for others, nor does it close anything; a modern request may even name it."""
    async with serving_http(stage, stage.upstream("one")) as site:
        old, new = await opened(site), Poster(site)
        assert "resultType" not in (await old.ask(1, "tools/list")).frame["result"]
        said = await new.ask(1, "tools/list", mcp_session_id=old.session["Mcp-Session-Id"])
        assert said.frame["result"]["resultType"] == "complete"
        assert "resultType" not in (await old.ask(1, "tools/list")).frame["result"]


async def test_lv_37_ids_by_http(stage: Stage) -> None:
    """Each modern POST is a scope of its own; a legacy session is one, and no wider."""
    one = stage.upstream("one", **HELD)
    async with serving_http(stage, one) as site:
        got: list[Any] = []

        async def ask(host: Poster, id: Any) -> None:
            got.append((await host.ask(id, "tools/call", CALL)).frame)

        first, second = await opened(site), await opened(site)
        async with trio.open_nursery() as nursery:
            for id in (0, "0", 0, "0"):
                nursery.start_soon(ask, Poster(site), id)
            nursery.start_soon(ask, first, 7)
            nursery.start_soon(ask, second, 7)
            await one.got("tools/call", 6)
            assert (await first.ask(7, "ping")).code == (400, -32600)
            await one.release("it")
        assert sorted(json.dumps(frame["id"]) for frame in got) == ['"0"', '"0"', "0", "0", "7", "7"]
        assert all(frame["result"]["content"] for frame in got)
        assert len({line.frame["id"] for line in one.received("tools/call")}) == 6


async def test_lv_37_a_connection_is_no_scope_of_a_session(stage: Stage) -> None:
    """A stream that breaks ends nothing: its request goes on, and its answer can be fetched by the last event's id."""
    one = stage.upstream("one", **TALKING)
    async with serving_http(stage, one) as site:
        host = await opened(site)
        asked = host.frame(1, "tools/call", CALL, **WITH_TOKEN)
        async with host.started(asked) as wire:
            assert (await wire.head()).headers["content-type"] == "text/event-stream"
            event = await wire.event()
            assert event is not None
            host.check(json.loads(event.data))
        assert (await host.ask(2, "tools/call", ECHO)).frame["result"]
        assert one.received("notifications/cancelled") == []
        async with host.got(last_event_id=event.id) as wire:
            await one.release("it")
            said = await host.rest(wire, asked)
        assert [frame.get("method", "answer") for frame in said.frames] == ["notifications/progress", "answer"]
        assert said.frame["id"] == 1


async def test_lv_37_closing_the_stream_of_a_modern_request_cancels_it(stage: Stage) -> None:
    """Once, under the id that the upstream knows, and nothing else."""
    one = stage.upstream("one", **TALKING)
    async with serving_http(stage, one) as site:
        host = Poster(site)
        async with host.started(host.frame(1, "tools/call", CALL, **WITH_TOKEN)) as wire:
            assert (await wire.head()).status == 200
            assert await wire.event() is not None
        cancelled = await one.got("notifications/cancelled")
        assert cancelled.frame["params"]["requestId"] == one.received("tools/call")[0].frame["id"]
        async with site.wired() as wire:
            await until_quiet(wire)
        assert (await host.ask(1, "tools/call", ECHO)).frame["result"]
        assert len(one.received("notifications/cancelled")) == 1


async def test_lv_37_a_cancelled_request_of_a_session_ends_without_an_answer(stage: Stage) -> None:
    """Its stream ends properly."""
    one = stage.upstream("one", **TALKING)
    async with serving_http(stage, one) as site:
        host = await opened(site)
        asked = host.frame("c", "tools/call", CALL, **WITH_TOKEN)
        async with host.started(asked) as wire:
            await one.happened("held")
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
            assert (await host.post(cancel)).status == 202
            said = await host.rest(wire, asked)
        assert [frame["method"] for frame in said.frames] == ["notifications/progress"]
        await one.got("notifications/cancelled")


@pytest.mark.parametrize("era", ["session", "no session", "modern"])
async def test_sub_18_notifications_get_202_by_http(stage: Stage, era: str) -> None:
    """Whatever they are, they get no answer."""
    async with serving_http(stage, stage.upstream("one")) as site:
        host = {"session": Poster(site, LATEST_LEGACY), "no session": Poster(site, V2025_03_26)}.get(era, Poster(site))
        if era == "session":
            await host.open()
        for method in ("notifications/cancelled", "notifications/no/such", "tools/call", "$/progress"):
            said = await host.post({"jsonrpc": "2.0", "method": method, "params": {"name": "x"}})
            assert (said.status, said.body) == (202, b"")
