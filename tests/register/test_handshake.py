"""LV-01 to LV-10, LV-13 and LV-14: opening a connection, with hosts and with upstreams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    REVISIONS,
    SUPPORTED,
    V2024_11_05,
    V2025_06_18,
    is_modern,
)
from tests.support.scripted import PROMPT, TOOL

if TYPE_CHECKING:
    from tests.support.stage import Stage

RICH_TOOL = {
    **TOOL,
    "title": "Echo",
    "annotations": {"readOnlyHint": True},
    "outputSchema": {"type": "object"},
    "icons": [{"src": "https://example.org/i.png"}],
    "_meta": {"example.org/kept": 1},
    "x-own": "kept",
}
STRUCTURED = [{"hold": "structured"}, {"result": {"content": [], "structuredContent": {"a": 1}}}]


async def test_lv_01_both_eras_are_spoken_in_both_directions(stage: Stage) -> None:
    """Hosts of both eras call upstreams of both eras; each upstream is opened as its era has it."""
    old, new = stage.upstream("old", LATEST_LEGACY), stage.upstream("new", LATEST_MODERN)
    async with stage.mcpx(old, new) as host:
        await host.initialize(LATEST_LEGACY)
        assert await host.names() == ["old__echo", "new__echo"]
        for revision in (LATEST_LEGACY, LATEST_MODERN):
            for name in ("old__echo", "new__echo"):
                result = (await host.call(name, {"a": 1}, revision=revision)).result
                assert result["content"] == [{"type": "text", "text": 'echo {"a": 1}'}]
    assert old.methods()[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert {"initialize", "notifications/initialized"}.isdisjoint(new.methods())


async def test_lv_01_initialized_is_taken_silently_under_both_names(stage: Stage) -> None:
    """notifications/initialized and the bare initialized cause no frame."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(LATEST_LEGACY)
        await host.notify("initialized")
        await host.notify("notifications/initialized")
        await host.fence()
        assert len(host.received) == 2


async def test_lv_02_an_upstream_gets_all_three_params(stage: Stage) -> None:
    """initialize to an upstream carries protocolVersion, capabilities and clientInfo, and nothing else but metadata."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        await host.initialize(LATEST_LEGACY)
        await host.names()
    params = one.received("initialize")[0].frame["params"]
    assert params.keys() - {"_meta"} == {"protocolVersion", "capabilities", "clientInfo"}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"capabilities": {}, "clientInfo": {"name": "n", "version": "1"}},
        [1, 2],
        "text",
        7,
        None,
        {"protocolVersion": LATEST_LEGACY},
        {"protocolVersion": LATEST_LEGACY, "capabilities": [], "clientInfo": 3},
    ],
)
async def test_lv_02_malformed_params_are_read_liberally(stage: Stage, params: Any) -> None:
    """No protocolVersion, or params that are no object, are answered as if the latest legacy revision was asked for."""
    async with stage.mcpx(stage.upstream("one")) as host:
        frame = {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}
        asked = host.expect(frame)
        await host.send(frame)
        assert (await asked.wait()).result["protocolVersion"] == LATEST_LEGACY
        await host.notify("notifications/initialized")
        assert await host.names() == ["one__echo"]


async def test_lv_02_no_params_at_all_are_read_liberally(stage: Stage) -> None:
    """initialize without params is answered as if the latest legacy revision had been asked for."""
    async with stage.mcpx(stage.upstream("one")) as host:
        assert (await host.request("initialize")).result["protocolVersion"] == LATEST_LEGACY


async def test_lv_02_a_second_initialize_replaces_the_first(stage: Stage) -> None:
    """What comes after a second handshake is served as that one agreed; what was in flight ends as it began."""
    one = stage.upstream("one", tools=[RICH_TOOL], calls={"echo": STRUCTURED})
    async with stage.mcpx(one) as host:
        await host.initialize(V2025_06_18)
        early = await host.start("tools/call", {"name": "one__echo"})
        await one.happened("held")
        await host.initialize(V2024_11_05)
        late = await host.start("tools/call", {"name": "one__echo"})
        await one.happened("held", 2)
        await one.release("structured")
        assert (await early.wait()).result["structuredContent"] == {"a": 1}
        assert "structuredContent" not in (await late.wait()).result


async def test_lv_02_client_info_is_kept_for_the_log(stage: Stage) -> None:
    """The host's clientInfo is in the log."""
    async with stage.mcpx(stage.upstream("one"), args=["--log-level", "debug"]) as host:
        await host.initialize(LATEST_LEGACY)
        line = await host.logged("fake-down")
        assert "3.2.1" in line


async def test_lv_03_the_oldest_revision_is_served_in_both_directions(stage: Stage) -> None:
    """A 2024-11-05 host uses a 2024-11-05 upstream, over stdio (its HTTP transports are tested with HTTP)."""
    one = stage.upstream("one", V2024_11_05, prompts=[PROMPT])
    async with stage.mcpx(one) as host:
        assert (await host.initialize(V2024_11_05)).result["protocolVersion"] == V2024_11_05
        assert await host.names() == ["one__echo"]
        assert (await host.call("one__echo", {"a": 1})).result == {
            "content": [{"type": "text", "text": 'echo {"a": 1}'}]
        }
        prompts = await host.all_items("prompts/list", "prompts")
        assert prompts == [{**PROMPT, "name": "one__greet"}]
    assert one.received("initialize")[0].frame["params"]["protocolVersion"] == LATEST_LEGACY


async def test_lv_04_a_revision_that_mcpx_speaks_is_echoed(stage: Stage) -> None:
    """Each legacy revision that is asked for is agreed on."""
    async with stage.mcpx(stage.upstream("one")) as host:
        for revision in LEGACY:
            assert (await host.initialize(revision)).result["protocolVersion"] == revision


@pytest.mark.parametrize("version", ["2024-10-07", "2023-01-01", "1.0.0", "", "latest"])
async def test_lv_05_an_older_version_is_answered_with_the_latest_legacy_one(stage: Stage, version: str) -> None:
    """A version from before, or no date at all, gets a result with 2025-11-25, and the connection works."""
    async with stage.mcpx(stage.upstream("one")) as host:
        assert (await host.initialize(version)).result["protocolVersion"] == LATEST_LEGACY
        assert await host.names() == ["one__echo"]


@pytest.mark.parametrize("version", ["9999-01-01", "2026-07-29", "2025-11-26", "2025-09-01"])
async def test_lv_06_a_newer_version_is_answered_with_the_latest_legacy_one(stage: Stage, version: str) -> None:
    """A version that is not in the table, however its string compares, gets a result with 2025-11-25."""
    async with stage.mcpx(stage.upstream("one")) as host:
        assert (await host.initialize(version)).result["protocolVersion"] == LATEST_LEGACY


async def test_lv_07_initialize_with_a_modern_version_is_legacy(stage: Stage) -> None:
    """initialize that asks for 2026-07-28 gets a result with 2025-11-25, in legacy form."""
    async with stage.mcpx(stage.upstream("one")) as host:
        result = (await host.initialize(LATEST_MODERN)).result
        assert result["protocolVersion"] == LATEST_LEGACY
        assert "resultType" not in result


@pytest.mark.parametrize("version", [20251125, None, [LATEST_LEGACY], {"v": LATEST_LEGACY}, True])
async def test_lv_07_a_version_that_is_no_string_is_an_error(stage: Stage, version: Any) -> None:
    """A protocolVersion of another type gets -32602 with the lists, and the connection can still be opened."""
    async with stage.mcpx(stage.upstream("one")) as host:
        error = (await host.initialize(version)).error
        assert error["code"] == -32602
        assert error["data"]["requested"] == version
        assert set(LEGACY) <= set(error["data"]["supported"]) <= set(SUPPORTED)
        assert (await host.initialize(V2025_06_18)).result["protocolVersion"] == V2025_06_18


@pytest.mark.parametrize("version", ["9999-01-01", "2023-01-01", LATEST_MODERN])
async def test_lv_08_an_upstream_on_a_foreign_revision_is_disconnected(stage: Stage, version: str) -> None:
    """It is closed before anything else is sent; the error names it, what it answered and what mcpx speaks."""
    answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    one = stage.upstream("one", on={"initialize": [{"result": answer}]})
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        await host.open(LATEST_MODERN)
        error = (await host.call("echo")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"
        for words in (version, *LEGACY):
            assert words in error["data"]["reason"]
        await one.happened("eof")
    assert set(one.methods()) == {"server/discover", "initialize"}


async def test_lv_09_the_latest_legacy_revision_is_offered(stage: Stage) -> None:
    """initialize to an upstream offers 2025-11-25, and what the upstream offers instead is agreed on."""
    uppers = [stage.upstream(f"s{n}", revision) for n, revision in enumerate(LEGACY)]
    async with stage.mcpx(*uppers) as host:
        await host.open(LATEST_LEGACY)
        assert len(await host.names()) == len(LEGACY)
    for upper in uppers:
        assert upper.received("initialize")[0].frame["params"]["protocolVersion"] == LATEST_LEGACY


async def test_lv_09_a_pinned_revision_is_offered(stage: Stage) -> None:
    """A server with a dated revision as its protocol is offered that one, without a probe."""
    pinned = {f"s{n}": revision for n, revision in enumerate(REVISIONS)}
    uppers = [stage.upstream(name, SUPPORTED, entry={"protocol": revision}) for name, revision in pinned.items()]
    async with stage.mcpx(*uppers) as host:
        await host.open(LATEST_LEGACY)
        assert len(await host.names()) == len(REVISIONS)
    for upper in uppers:
        if is_modern(pinned[upper.name]):
            assert "initialize" not in upper.methods()
        else:
            assert upper.methods()[0] == "initialize"
            assert upper.received("initialize")[0].frame["params"]["protocolVersion"] == pinned[upper.name]


async def test_lv_10_a_request_before_any_handshake_is_served(stage: Stage) -> None:
    """Without a handshake and without metadata, a byte stream is served as 2024-11-05 (on HTTP: with HTTP)."""
    one = stage.upstream("one", tools=[RICH_TOOL], calls={"echo": STRUCTURED[1:]})
    async with stage.mcpx(one) as host:
        assert (await host.request("ping")).result == {}
        (tool,) = await host.all_items("tools/list", "tools")
        assert tool == {
            **TOOL,
            "name": "one__echo",
            "_meta": {"example.org/kept": 1},
            "x-own": "kept",
        }
        result = (await host.call("one__echo")).result
        assert result == {"content": [{"type": "text", "text": '{"a": 1}'}]}


async def test_lv_13_initialized_is_taken_silently_in_any_era(stage: Stage) -> None:
    """The notification causes no frame before a handshake, after one, and beside modern requests."""
    async with stage.mcpx(stage.upstream("one")) as host:
        for name in ("notifications/initialized", "initialized"):
            await host.notify(name)
            await host.notify(name, {"_meta": {"x": 1}})
        await host.fence()
        await host.open(LATEST_MODERN)
        await host.notify("notifications/initialized")
        await host.fence()
        await host.initialize(V2024_11_05)
        await host.fence()
    assert len(host.received) == 5


async def test_lv_14_instructions_of_several_go_out_in_sections(stage: Stage) -> None:
    """Both handshakes carry one section per upstream under its name, as remembered from its last start."""
    one = stage.upstream("one", instructions="Mind the gap.")
    two = stage.upstream("two", LATEST_MODERN, instructions="Look\nboth ways.")
    mute = stage.upstream("mute")
    async with stage.mcpx(one, two, mute) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
    async with stage.mcpx(one, two, mute) as host:
        legacy = (await host.initialize(LATEST_LEGACY)).result["instructions"]
        modern = (await host.request("server/discover", revision=LATEST_MODERN)).result["instructions"]
    assert legacy == modern
    places = [legacy.index(words) for words in ("one", "Mind the gap.", "two", "Look\nboth ways.")]
    assert places == sorted(places)
    assert "mute" not in legacy


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_14_instructions_of_one_pass_through_unchanged(stage: Stage, revision: str) -> None:
    """In pass-through the upstream's own instructions are in both handshakes, to the letter."""
    words = "  Be *brief*.\n\tÜber alles…  "
    one = stage.upstream("one", revision, instructions=words)
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        assert (await host.initialize(V2024_11_05)).result["instructions"] == words
        assert (await host.request("server/discover", revision=LATEST_MODERN)).result["instructions"] == words
