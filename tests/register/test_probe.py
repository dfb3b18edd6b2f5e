"""LV-27 to LV-32: finding out which era an upstream is of, remembering it, and having it said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import PROTOCOL_VERSION
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    SUPPORTED,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
)

if TYPE_CHECKING:
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

QUICK = {"probeDelay": 0.3}
SLOW = [{"wait": 1.2}]  # slower than the delay
OPENED = ["initialize", "notifications/initialized"]


async def _lists(stage: Stage, *upstreams: Scripted, limits: dict[str, Any] | None = None) -> list[str]:
    """One run of mcpx in which a host lists the tools and calls one."""
    async with stage.mcpx(*upstreams, limits=limits) as host:
        await host.open(LATEST_LEGACY)
        names = await host.names()
        for name in names:
            assert (await host.call(name)).result["content"]
    return names


def _supported(*versions: str) -> list[dict[str, Any]]:
    """Steps: the error that lists versions."""
    data = {"supported": list(versions), "requested": LATEST_MODERN}
    return [{"error": {"code": -32022, "message": "Unsupported protocol version", "data": data}}]


async def test_lv_27_discover_comes_first_and_decides(stage: Stage) -> None:
    """A prompt modern server gets discover and then requests; the probe asks for the preferred modern version."""
    one = stage.upstream("one", SUPPORTED)
    assert await _lists(stage, one) == ["one__echo"]
    assert one.methods() == ["server/discover", "tools/list", "tools/call"]
    assert one.received("server/discover")[0].frame["params"]["_meta"][PROTOCOL_VERSION] == LATEST_MODERN


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32700, -32603, -32000, -32001, -32002, -32004, 0, 404])
async def test_lv_27_any_other_error_means_legacy(stage: Stage, code: int) -> None:
    """Whatever error answers the probe, unless it is a modern one, the handshake follows at once."""
    refusal = [{"error": {"code": code, "message": "what is -32022?"}}]
    one = stage.upstream("one", on={"server/discover": refusal})
    assert await _lists(stage, one, limits={"probeDelay": 20}) == ["one__echo"]
    assert one.methods()[:3] == ["server/discover", *OPENED]


async def test_lv_27_an_answer_that_is_no_discovery_means_legacy(stage: Stage) -> None:
    """A server that answers any method with some result is opened with the handshake."""
    one = stage.upstream("one", on={"server/discover": [{"result": {}}]})
    assert await _lists(stage, one) == ["one__echo"]
    assert one.methods()[:3] == ["server/discover", *OPENED]


async def test_lv_27_silence_means_legacy_after_the_delay_and_is_not_remembered(stage: Stage) -> None:
    """After probeDelay initialize follows; its result decides; the next start probes again."""
    one = stage.upstream("one", on={"server/discover": []})
    for _ in range(2):
        assert await _lists(stage, one, limits={"probeDelay": 1}) == ["one__echo"]
    for start in one.starts:
        assert one.methods(start.pid)[:3] == ["server/discover", *OPENED]
        probe, handshake = one.received(pid=start.pid)[:2]
        assert handshake.at - probe.at >= 0.3  # less than the delay, as the server's own start is in it
    assert "notifications/cancelled" not in one.methods()


async def test_lv_27_a_slow_server_that_takes_the_handshake_is_legacy_once(stage: Stage) -> None:
    """Both answers come: initialize decides for this process, and the next start waits for discover alone."""
    one = stage.upstream("one", SUPPORTED, onStart=SLOW)
    assert await _lists(stage, one, limits=QUICK) == ["one__echo"]
    assert one.methods() == ["server/discover", *OPENED, "tools/list", "tools/call"]
    assert await _lists(stage, one, limits=QUICK) == ["one__echo"]
    assert one.methods(one.starts[1].pid) == ["server/discover", "tools/list", "tools/call"]


async def test_lv_27_a_slow_server_that_refuses_the_handshake_is_modern(stage: Stage) -> None:
    """An error to initialize after an answer to discover means modern, for this process already."""
    locked = stage.upstream("locked", SUPPORTED, onStart=SLOW, lock=True)
    only = stage.upstream("only", LATEST_MODERN, onStart=SLOW)
    assert await _lists(stage, locked, only, limits=QUICK) == ["locked__echo", "only__echo"]
    for one in (locked, only):
        assert one.methods() == ["server/discover", "initialize", "tools/list", "tools/call"]


async def test_lv_27_a_slow_legacy_server_is_legacy(stage: Stage) -> None:
    """A legacy server that starts slower than the delay refuses the probe, takes the handshake, and is remembered."""
    one = stage.upstream("one", onStart=SLOW)
    for _ in range(2):
        assert await _lists(stage, one, limits=QUICK) == ["one__echo"]
    assert one.methods(one.starts[0].pid)[:3] == ["server/discover", *OPENED]
    assert one.methods(one.starts[1].pid)[:2] == OPENED


async def test_lv_27_nothing_is_sent_before_initialize_is_answered(stage: Stage) -> None:
    """Once initialize is out, an answer to discover starts nothing: the answer to initialize is waited for."""
    handshake = [{"hold": "handshake"}, {"answer": True}]
    probe = [*SLOW, {"answer": True}, {"stdout": "and that was all\n"}]  # noise: its log line shows what was read
    one = stage.upstream("one", SUPPORTED, on={"initialize": handshake, "server/discover": probe})
    async with stage.mcpx(one, limits=QUICK) as host:
        await host.open(LATEST_LEGACY)
        listed = await host.start("tools/list")
        await one.happened("held")
        await host.logged("and that was all")
        await host.fence()
        assert one.methods() == ["server/discover", "initialize"]
        await one.release("handshake")
        assert (await listed.wait()).result["tools"]


async def test_lv_27_discover_may_be_answered_after_initialize_was_refused(stage: Stage) -> None:
    """A refused initialize with the probe still open is no verdict: the probe's late answer is."""
    one = stage.upstream("one", LATEST_MODERN, on={"server/discover": [{"wait": 1.2}, {"answer": True}]})
    assert await _lists(stage, one, limits=QUICK) == ["one__echo"]
    assert one.methods() == ["server/discover", "initialize", "tools/list", "tools/call"]


@pytest.mark.parametrize("late", [{"answer": True}, {"error": {"code": -32601, "message": "no"}}])
async def test_lv_27_late_answers_to_the_probe_are_harmless(stage: Stage, late: dict[str, Any]) -> None:
    """An answer to the probe long after the handshake disturbs nothing."""
    one = stage.upstream("one", SUPPORTED, on={"server/discover": [{"hold": "late"}, late]})
    async with stage.mcpx(one, limits=QUICK) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        await one.release("late")
        for _ in range(3):
            assert (await host.call("one__echo")).result["content"]
    assert one.methods() == ["server/discover", *OPENED, *["tools/list", "tools/call", "tools/call", "tools/call"]]


async def test_lv_27_a_server_that_dies_on_the_probe_is_opened_with_initialize(stage: Stage) -> None:
    """Death on the probe means legacy, with one new start, and is remembered."""
    one = stage.upstream("one", on={"server/discover": [{"stderr": "what?\n"}, {"exit": 1}]})
    assert await _lists(stage, one) == ["one__echo"]
    first, second = one.starts
    assert one.methods(first.pid) == ["server/discover"]
    assert one.methods(second.pid)[:2] == OPENED


async def test_lv_27_no_notification_comes_before_the_first_request(stage: Stage) -> None:
    """A host that gives up while the server starts causes no frame that the server could not understand yet."""
    for era in (LATEST_LEGACY, LATEST_MODERN):
        one = stage.upstream(f"s{era[:4]}", era, onStart=[{"hold": "start"}])
        async with stage.mcpx(one, args=["--passthrough", one.name]) as host:
            call = await host.start("tools/call", {"name": "echo"}, revision=LATEST_MODERN)
            await one.happened("held")
            await host.cancel(call)
            await host.notify("notifications/roots/list_changed")
            await one.release("start")
            assert (await host.request("tools/list", revision=LATEST_MODERN)).result["tools"]
        assert call.answer is None
        assert set(one.methods()) <= {"server/discover", *OPENED, "tools/list"}


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_lv_28_a_modern_code_is_no_reason_to_fall_back(stage: Stage, code: int) -> None:
    """A server that refuses the probe with a modern code is modern: it is never sent initialize."""
    one = stage.upstream("one", SUPPORTED, on={"server/discover": [{"error": {"code": code, "message": "no"}}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == []
        line = await host.logged(str(code))
        assert "one" in line
    assert set(one.methods()) == {"server/discover"}


async def test_lv_28_a_list_with_a_modern_version_means_modern(stage: Stage) -> None:
    """-32022 that lists a version mcpx speaks: that version is used, and initialize never sent."""
    once = {"times": [_supported("2031-01-01", LATEST_MODERN, LATEST_LEGACY), [{"answer": True}]]}
    one = stage.upstream("one", SUPPORTED, on={"server/discover": once})
    assert await _lists(stage, one) == ["one__echo"]
    assert "initialize" not in one.methods()
    assert one.received("tools/call")[0].frame["params"]["_meta"][PROTOCOL_VERSION] == LATEST_MODERN


@pytest.mark.parametrize("kind", ["error", "result"])
async def test_lv_28_a_list_of_legacy_versions_means_the_handshake(stage: Stage, kind: str) -> None:
    """Legacy versions only, in -32022 or in a DiscoverResult: initialize with the newest common one."""
    versions = ["2099-01-01", V2024_11_05, V2025_03_26]
    discovery = {"result": {"supportedVersions": versions, "capabilities": {}}}
    steps = _supported(*versions) if kind == "error" else [discovery]
    one = stage.upstream("one", [V2025_03_26, V2024_11_05], on={"server/discover": steps})
    assert await _lists(stage, one) == ["one__echo"]
    assert one.received("initialize")[0].frame["params"]["protocolVersion"] == V2025_03_26


@pytest.mark.parametrize("kind", ["error", "result"])
async def test_lv_28_nothing_in_common_is_an_error_that_names_both_lists(stage: Stage, kind: str) -> None:
    """A list without anything that mcpx speaks ends the start, with the server's list and mcpx's in the reason."""
    discovery = {"result": {"supportedVersions": ["2099-01-01", "2098-01-01"], "capabilities": {}}}
    steps = _supported("2099-01-01", "2098-01-01") if kind == "error" else [discovery]
    one = stage.upstream("one", LATEST_MODERN, on={"server/discover": steps})
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        error = (await host.call("echo")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"
        for version in ("2099-01-01", "2098-01-01", *SUPPORTED):
            assert version in error["data"]["reason"]
    assert set(one.methods()) == {"server/discover"}


@pytest.mark.parametrize("code", [-32601, -32602, -32603, -32000, 7])
async def test_lv_29_a_refused_initialize_falls_forward(stage: Stage, code: int) -> None:
    """With protocol legacy initialize comes first; refused with any error, discover follows."""
    refusal = [{"error": {"code": code, "message": "no"}}]
    one = stage.upstream("one", LATEST_MODERN, on={"initialize": refusal}, entry={"protocol": "legacy"})
    assert await _lists(stage, one) == ["one__echo"]
    assert one.methods() == ["initialize", "server/discover", "tools/list", "tools/call"]


async def test_lv_29_an_error_that_names_modern_versions_is_believed(stage: Stage) -> None:
    """A modern-only server that says what it speaks is served in that version, without another initialize."""
    one = stage.upstream("one", LATEST_MODERN, entry={"protocol": "legacy"})
    assert await _lists(stage, one) == ["one__echo"]
    assert one.methods().count("initialize") == 1
    assert one.methods()[0] == "initialize"
    assert one.methods()[-2:] == ["tools/list", "tools/call"]


async def test_lv_29_initialize_alone_where_it_is_taken(stage: Stage) -> None:
    """With protocol legacy a dual-era server is opened with the handshake and never probed."""
    one = stage.upstream("one", SUPPORTED, entry={"protocol": "legacy"})
    assert await _lists(stage, one) == ["one__echo"]
    assert one.methods() == [*OPENED, "tools/list", "tools/call"]


async def test_lv_30_an_http_upstream_is_a_clear_error_for_now(stage: Stage) -> None:
    """HTTP upstreams are not there yet: the log says so with the server's name, and the other servers work."""
    async with stage.mcpx(stage.upstream("one"), servers={"far": {"url": "http://127.0.0.1:9/mcp"}}) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        assert "http" in (await host.logged("far")).lower()


async def test_lv_31_a_legacy_era_is_remembered(stage: Stage) -> None:
    """The next run opens a legacy server with initialize; another configuration of it is probed anew."""
    one = stage.upstream("one")
    for _ in range(2):
        assert await _lists(stage, one) == ["one__echo"]
    assert [one.methods(start.pid)[0] for start in one.starts] == ["server/discover", "initialize"]
    other = stage.upstream("one", entry={"env": {"OTHER": "1"}})
    assert await _lists(stage, other) == ["one__echo"]
    assert other.methods()[0] == "server/discover"


async def test_lv_31_a_modern_era_is_remembered(stage: Stage) -> None:
    """The next run opens a modern server with discover and waits for it, however slow; never with a call."""
    one = stage.upstream("one", SUPPORTED)
    assert await _lists(stage, one) == ["one__echo"]
    one.change(onStart=SLOW)
    assert await _lists(stage, one, limits=QUICK) == ["one__echo"]
    assert one.methods(one.starts[1].pid) == ["server/discover", "tools/list", "tools/call"]


@pytest.mark.parametrize(("before", "after"), [(LATEST_LEGACY, LATEST_MODERN), (LATEST_MODERN, LATEST_LEGACY)])
async def test_lv_31_a_wrong_memory_heals(stage: Stage, before: str, after: str) -> None:
    """A server that has changed its era is found out in one start, and remembered as it is."""
    one = stage.upstream("one", before)
    assert await _lists(stage, one) == ["one__echo"]
    eras = {LATEST_LEGACY: {"legacy": list(LEGACY), "modern": []}, LATEST_MODERN: {"legacy": [], "modern": [after]}}
    one.change(**eras[after])
    for _ in range(2):
        assert await _lists(stage, one) == ["one__echo"]
    first = {LATEST_LEGACY: "initialize", LATEST_MODERN: "server/discover"}
    openings = [one.methods(start.pid)[0] for start in one.starts]
    assert openings == ["server/discover", first[before], first[after]]


async def test_lv_31_a_damaged_memory_is_no_obstacle(stage: Stage) -> None:
    """What is in the state folder may be anything: the server is probed anew."""
    one = stage.upstream("one")
    assert await _lists(stage, one) == ["one__echo"]
    files = [path for path in (stage.folder / "state").rglob("*") if path.is_file()]
    assert files
    for content in (b"\xff{", b"[]", b""):
        for path in files:
            path.write_bytes(content)
        assert await _lists(stage, one) == ["one__echo"]
        assert one.methods(one.starts[-1].pid)[0] == "server/discover"


async def test_lv_31_many_instances_probe_once(stage: Stage) -> None:
    """With an instance per call the first start finds out for all."""
    one = stage.upstream("one", entry={"scope": "call"})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for _ in range(3):
            await host.call("one__echo")
    openings = [one.methods(start.pid)[0] for start in one.starts]
    assert len(openings) >= 4
    assert openings == ["server/discover", *["initialize"] * (len(openings) - 1)]


async def test_lv_32_modern_means_discover_and_never_initialize(stage: Stage) -> None:
    """With protocol modern a slow server is waited for, and a legacy one is an error that says so."""
    slow = stage.upstream("slow", SUPPORTED, onStart=SLOW, entry={"protocol": "modern"})
    old = stage.upstream("old", entry={"protocol": "modern"})
    async with stage.mcpx(slow, old, limits=QUICK) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["slow__echo"]
        assert "modern" in await host.logged("[old]")
    assert "initialize" not in slow.methods() + old.methods()


@pytest.mark.parametrize("pin", [V2025_06_18, LATEST_MODERN])
async def test_lv_32_a_counter_offer_to_a_pinned_revision_is_an_error(stage: Stage, pin: str) -> None:
    """One dated revision means that one only: another in the answer ends the start, and both are named."""
    speaks = V2024_11_05 if pin != LATEST_MODERN else LATEST_LEGACY
    steps = {"server/discover": [{"result": {"supportedVersions": [LATEST_LEGACY], "capabilities": {}}}]}
    one = stage.upstream("one", speaks, entry={"protocol": pin}, on=steps)
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        reason = (await host.call("echo")).error["data"]["reason"]
        assert pin in reason
        assert speaks in reason
    assert len(set(one.methods())) == 1


@pytest.mark.parametrize("value", ["modren", "2025-06-19", "force-legacy", "", 2025, None, ["auto"]])
async def test_lv_32_anything_else_is_refused_at_load(stage: Stage, value: Any) -> None:
    """A mistake is told with file, server, value and what is valid, and mcpx does not start."""
    config = stage.configure({"wrong": {"command": "true", "protocol": value}})
    command = [sys.executable, "-m", "mcpx", "serve", "--config", str(config)]
    async with stage.play(command, status=None) as host:
        assert await host.wait() not in (0, None)
        assert str(config) in host.log
        for words in ("wrong", "protocol", "auto", "legacy", "modern", *SUPPORTED):
            assert words in host.log
        if isinstance(value, str) and value:
            assert value in host.log
        assert len(host.log.strip().splitlines()) <= 4
