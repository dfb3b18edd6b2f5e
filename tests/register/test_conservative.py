"""LV-11 and LV-12: only what a peer's revision defines and it declared; batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_CAPABILITIES
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    is_modern,
)
from tests.support.scripted import PROMPT, RESOURCE, TOOL

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

EVERYTHING = {  # what a host could declare, of any revision
    "experimental": {"example": {"a": 1}},
    "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}},
    "extensions": {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}},
}
COMPLETE = {"ref": {"type": "ref/prompt", "name": "one__greet"}, "argument": {"name": "who", "value": "a"}}
# Capabilities and their members that a host of each revision may be shown.
DEFINED = {
    V2024_11_05: {"logging", "prompts", "resources", "tools"},
    V2025_03_26: {"logging", "completions", "prompts", "resources", "tools"},
    V2025_06_18: {"logging", "completions", "prompts", "resources", "tools"},
    V2025_11_25: {"logging", "completions", "prompts", "resources", "tools"},
    LATEST_MODERN: {"logging", "completions", "prompts", "resources", "tools", "extensions"},
}


async def test_lv_11_a_host_is_shown_the_capabilities_of_its_revision(stage: Stage) -> None:
    """Both handshakes show what the host's revision defines, and every host may list what there is."""
    one = stage.upstream("one", LATEST_MODERN, prompts=[PROMPT], resources=[RESOURCE], completes={})
    async with stage.mcpx(one) as host:
        for revision, defined in DEFINED.items():
            shown = (await host.open(revision)).result["capabilities"]
            assert {"prompts", "resources", "tools"} <= set(shown) <= defined
            assert ("completions" in shown) == ("completions" in defined)


@pytest.mark.parametrize("revision", [V2024_11_05, V2025_06_18, V2025_11_25])
async def test_lv_11_an_upstream_is_declared_what_its_revision_defines(stage: Stage, revision: str) -> None:
    """A legacy upstream is told nothing that its revision lacks, nothing that mcpx does not relay."""
    one = stage.upstream("one", revision, entry={"protocol": revision})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN, EVERYTHING)
        await host.names()
    (initialize,) = one.received("initialize")
    assert initialize.frame["params"]["capabilities"] == {}


async def test_lv_11_a_modern_upstream_is_declared_what_mcpx_relays(stage: Stage) -> None:
    """A modern upstream is told the extensions that the host declared, but neither tasks nor experimental ones."""
    one = stage.upstream("one", LATEST_MODERN)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN, EVERYTHING)
        await host.names()
        await host.call("one__echo")
    declared = one.received("tools/call")[0].frame["params"]["_meta"][CLIENT_CAPABILITIES]
    assert declared == {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}}


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_11_an_upstream_is_asked_for_what_it_declared(stage: Stage, revision: str) -> None:
    """A server that declares tools alone is asked for no prompts, resources or templates."""
    one = stage.upstream("one", revision, tools=[TOOL])
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        assert await host.all_items("prompts/list", "prompts") == []
        assert await host.all_items("resources/list", "resources") == []
        assert await host.all_items("resources/templates/list", "resourceTemplates") == []
        await host.request("logging/setLevel", {"level": "debug"})
        await host.call("one__echo")
    assert set(one.methods()) <= {
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    }


@pytest.mark.parametrize(
    ("steps", "values"),
    [
        ([{"answer": True}], ["a1", "a2"]),
        ([{"error": {"code": -32601, "message": "Method not found"}}], []),
    ],
)
async def test_lv_11_completions_of_the_oldest_upstreams_are_assumed(
    stage: Stage, steps: list[dict[str, Any]], values: list[str]
) -> None:
    """A 2024-11-05 server with prompts is asked for completions; its -32601 is an empty completion."""
    one = stage.upstream("one", V2024_11_05, prompts=[PROMPT], on={"completion/complete": steps})
    async with stage.mcpx(one) as host:
        for revision in (V2024_11_05, LATEST_LEGACY, LATEST_MODERN):
            await host.open(revision)
            await host.all_items("prompts/list", "prompts")
            result = (await host.request("completion/complete", COMPLETE)).result
            assert result["completion"]["values"] == values
    assert one.received("completion/complete")[0].frame["params"]["ref"] == {"type": "ref/prompt", "name": "greet"}


OWN_NOTE = {"method": "notifications/example.org/said", "params": {"b": 1.0}}


@pytest.mark.parametrize("host_revision", [LATEST_LEGACY, LATEST_MODERN])
@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_11_what_no_revision_defines_passes_in_pass_through(
    stage: Stage, revision: str, host_revision: str
) -> None:
    """Requests and notifications of no revision, and experimental capabilities, go through where one server shines."""
    answer = {"raw": '{"a":1.0}'}
    one = stage.upstream("one", revision, on={"example.org/ask": [{"notify": OWN_NOTE}, answer]})
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        await host.open(host_revision, {"experimental": {"example.org/x": {"y": 1}}})
        asked = await host.request("example.org/ask", {"q": [1, None]})
        assert asked.result["a"] == 1.0
    first = one.received("example.org/ask")[0].frame["params"]
    assert first["q"] == [1, None]
    if is_modern(revision):
        declared = first["_meta"][CLIENT_CAPABILITIES]
    else:
        declared = one.received("initialize")[0].frame["params"]["capabilities"]
    assert declared["experimental"] == {"example.org/x": {"y": 1}}


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_11_notifications_of_no_revision_pass_in_pass_through(stage: Stage, revision: str) -> None:
    """What a host notifies of goes to the upstream, and what the upstream does to a host that shook hands."""
    one = stage.upstream("one", revision, on={"example.org/ask": [{"notify": OWN_NOTE}, {"raw": "{}"}]})
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        await host.open(LATEST_LEGACY)
        await host.request("example.org/ask")
        await host.notify("notifications/example.org/done", {"n": 1.0})
        await one.got("notifications/example.org/done")
        assert (await host.notified(OWN_NOTE["method"])).params == OWN_NOTE["params"]
    assert '"n":1.0' in one.received("notifications/example.org/done")[0].text.replace(" ", "")


@pytest.mark.parametrize("host_revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_11_what_no_revision_defines_ends_at_several(stage: Stage, host_revision: str) -> None:
    """In front of several servers a request of no revision is -32601 and a notification is dropped, both ways."""
    one, two = stage.upstream("one", calls={"echo": [{"notify": OWN_NOTE}, {"answer": True}]}), stage.upstream("two")
    async with stage.mcpx(one, two) as host:
        await host.open(host_revision, {"experimental": {"example.org/x": {"y": 1}}})
        await host.names()
        assert (await host.request("example.org/ask", {"q": 1})).code == -32601
        await host.notify("notifications/example.org/done", {"n": 1})
        assert (await host.call("one__echo")).result["content"]
        assert (await host.call("two__echo")).result["content"]
    assert host.notifications == []
    for upstream in (one, two):
        assert not any("example.org" in line.text for line in upstream.received())


async def test_lv_11_a_modern_host_gets_nothing_unasked(stage: Stage) -> None:
    """Changes and log messages of upstreams reach no host that shook no hands, whatever else it asks meanwhile."""
    said = [{"notify": {"method": f"notifications/{kind}/list_changed"}} for kind in ("tools", "prompts", "resources")]
    log = {"notify": {"method": "notifications/message", "params": {"level": "error", "data": "x"}}}
    one = stage.upstream("one", prompts=[PROMPT], calls={"echo": [*said, log, {"answer": True}, *said]})
    async with stage.mcpx(one) as host:
        await host.request("tools/list")
        await host.call("one__echo")
        await host.open(LATEST_MODERN)
        await host.call("one__echo")
        await host.names()
    assert host.notifications == []


async def test_lv_11_a_legacy_host_is_told_of_changes(stage: Stage) -> None:
    """After a handshake that promised it, a change of an upstream's list reaches the host, in any legacy revision."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        for count, revision in enumerate(LEGACY, 1):
            await host.initialize(revision)
            await host.names()
            await one.do({"notify": {"method": "notifications/tools/list_changed"}})
            await host.notified("notifications/tools/list_changed", count=count)


async def _batch(host: Host, *frames: Any, revision: str | None) -> list[Any]:
    asked = [host.expect(frame, revision) for frame in frames if isinstance(frame, dict) and "id" in frame]
    await host.send_raw(json.dumps(frames).encode() + b"\n")
    return asked


async def test_lv_12_a_batch_is_answered_with_a_batch(stage: Stage) -> None:
    """On 2025-03-26 the answers to a batch come back as one, and what else was in it is heeded."""
    one = stage.upstream("one", calls={"echo": [{"hold": "gate"}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.initialize(V2025_03_26)
        await host.names()
        asked = await _batch(
            host,
            {"jsonrpc": "2.0", "id": 1001, "method": "tools/call", "params": {"name": "one__echo"}},
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "id": "two", "method": "ping"},
            {"jsonrpc": "2.0", "id": 1003, "method": "no/such"},
            7,
            revision=V2025_03_26,
        )
        await one.happened("held")
        await one.release("gate")
        called, pinged, refused = [await one.wait() for one in asked]
        assert called.result["content"]
        assert pinged.result == {}
        assert refused.code == -32601
        (batch,) = host.batches
        assert sorted(json.dumps(frame.frame["id"]) for frame in batch) == ['"two"', "1001", "1003", "null"]
        assert host.strays[0].code == -32600


async def test_lv_12_a_batch_without_requests_is_not_answered(stage: Stage) -> None:
    """On 2025-03-26 a batch of notifications alone causes no frame."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(V2025_03_26)
        notification = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        await _batch(host, notification, notification, revision=V2025_03_26)
        await host.fence()
    assert len(host.received) == 2


async def test_lv_12_initialize_in_a_batch_is_an_error(stage: Stage) -> None:
    """initialize inside a batch is -32600 and changes nothing; what is beside it is answered."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(V2025_03_26)
        params = {"protocolVersion": V2025_06_18, "capabilities": {}, "clientInfo": host.info}
        refused, pinged = await _batch(
            host,
            {"jsonrpc": "2.0", "id": 50, "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "id": 51, "method": "ping"},
            revision=V2025_03_26,
        )
        assert (await refused.wait()).code == -32600
        assert (await pinged.wait()).result == {}
        again = await _batch(host, {"jsonrpc": "2.0", "id": 52, "method": "ping"}, revision=V2025_03_26)
        assert (await again[0].wait()).result == {}


@pytest.mark.parametrize("revision", [None, *(r for r in (*LEGACY, LATEST_MODERN) if r != V2025_03_26)])
async def test_lv_12_a_batch_on_any_other_revision_is_an_error(stage: Stage, revision: str | None) -> None:
    """A batch on another revision, or before any, is -32600, once, and the connection goes on."""
    async with stage.mcpx(stage.upstream("one")) as host:
        if revision is not None:
            await host.open(revision)
        before = len(host.received)
        _, frame = host.prepare("tools/list", id="in a batch")
        await host.send_raw(json.dumps([frame]).encode() + b"\n")
        await host.changes.until(lambda: len(host.received) > before, "an error")
        (error,) = host.received[before:]
        assert error.code == -32600
        assert host.batches == []
        await host.fence()
        if revision is None or not is_modern(revision):
            assert (await host.request("ping")).result == {}


async def test_lv_12_an_empty_batch_is_an_error(stage: Stage) -> None:
    """An empty batch is -32600, as JSON-RPC has it."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(V2025_03_26)
        await host.send_raw(b"[]\n")
        await host.changes.until(lambda: host.strays, "an error")
        assert host.strays[0].code == -32600
        assert host.batches == []


async def test_lv_12_a_batch_of_an_upstream_is_read(stage: Stage) -> None:
    """A 2025-03-26 upstream may answer in a batch, with notifications beside the answer; it is sent none."""
    note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    one = stage.upstream("one", V2025_03_26, calls={"echo": [{"batch": [note]}]})
    async with stage.mcpx(one) as host:
        await host.initialize(LATEST_LEGACY)
        await host.names()
        assert (await host.call("one__echo")).result["content"]
    assert not any(line.text.startswith("[") for line in one.received())
