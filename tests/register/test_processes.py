"""LV-38 to LV-40: the end of mcpx, the end of an upstream, and its new beginning."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.fake_down import AFTER_EOF, AFTER_SIGNAL, alive, gone
from tests.support.scripted import GRANDCHILD, STUBBORN, TOOL, wrapped
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stage import Stage

TOOLS = [TOOL, {**TOOL, "name": "slow"}, {**TOOL, "name": "dies"}]


async def test_lv_38_mcpx_ends_at_eof(stage: Stage) -> None:
    """At stdin EOF it exits with 0 at once, whether it was spoken to or not; its upstreams see EOF."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        await host.close()
        assert host.took < AFTER_EOF
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await host.close()
        assert host.took < AFTER_EOF
        assert host.process.returncode == 0
    assert one.seen("eof")
    assert not one.seen("signal")


async def test_lv_38_what_is_owed_is_answered_after_eof(stage: Stage) -> None:
    """Requests that came before EOF and are done within the drain are answered after it."""
    one = stage.upstream("one", calls={"echo": [{"wait": 0.4}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        owed = [await host.start("tools/call", {"name": "one__echo"}) for _ in range(3)]
        listed = await host.start("tools/list")
        await host.close()
        assert host.took < AFTER_EOF
        assert all(asked.answer is not None for asked in [*owed, listed])
        assert owed[0].answer.result["content"]


async def test_lv_38_stubborn_upstreams_hold_nothing_up(stage: Stage) -> None:
    """Five servers that ignore EOF and SIGTERM, calls in flight, and the budget after EOF is kept."""
    several = [stage.upstream(f"s{n}", **STUBBORN, calls={"echo": []}) for n in range(5)]
    async with stage.mcpx(*several) as host:
        await host.open(LATEST_LEGACY)
        names = await host.names()
        for name in names:
            await host.start("tools/call", {"name": name})
        for one in several:
            await one.got("tools/call")
        await host.close()
        assert host.took < AFTER_EOF
    assert len(names) == 5
    assert not any(alive(pid) for one in several for pid in one.pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_lv_38_a_signal_has_a_shorter_budget(stage: Stage, number: int) -> None:
    """After SIGTERM or SIGINT mcpx exits with 0 within its budget, a stubborn server and a call in flight or not."""
    one, two = stage.upstream("one", **STUBBORN, calls={"echo": []}), stage.upstream("two")
    async with stage.mcpx(one, two, limits={"exitBudget": {"eof": 20}}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await host.start("tools/call", {"name": "one__echo"})
        await one.got("tools/call")
        host.signal(number)
        assert await host.wait() == 0
        assert host.took < AFTER_SIGNAL
    assert not any(alive(pid) for pid in one.pids + two.pids)


async def test_lv_39_the_ladder_has_its_order(stage: Stage) -> None:
    """An idle server is retired: EOF, after stdinGrace SIGTERM to the group, after termGrace SIGKILL."""
    one = stage.upstream("one", **STUBBORN)
    grace = 1.0
    limits = {"instanceIdle": 0.3, "stdinGrace": grace, "termGrace": grace}
    async with stage.mcpx(one, limits=limits) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        eof = await one.happened("eof")
        term = await one.happened("signal")
        assert term.value == "SIGTERM"
        assert grace / 2 <= term.at - eof.at < grace + BUSY  # less what the server took to see its end
        await one.ended()
        assert grace / 2 <= time.monotonic() - term.at < grace + BUSY
        assert (await host.call("one__echo")).result["content"]
    assert len(one.starts) == 2


async def test_lv_39_a_server_has_time_to_flush(stage: Stage) -> None:
    """A server that needs a while after EOF, within the wait, is not signalled."""
    flushed = stage.folder / "flushed"
    one = stage.upstream("one", signals={"SIGTERM": []}, onEof=[{"wait": 0.5}, {"touch": str(flushed)}, {"exit": 0}])
    async with stage.mcpx(one, limits={"instanceIdle": 0.3}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await one.ended()
    assert flushed.exists()
    assert one.seen("signal") == []


async def test_lv_39_a_server_runs_in_a_group_of_its_own(stage: Stage) -> None:
    """Each upstream leads its own session and group, so that no signal to one reaches another, or mcpx."""
    one, two = stage.upstream("one"), stage.upstream("two")
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        leaders = {one.starts[0].value["group"], two.starts[0].value["group"], host.process.pid}
        assert len(leaders) == 3
        assert one.starts[0].value["group"] == one.starts[0].pid


@pytest.mark.parametrize(
    "end",
    [lambda host: host.close(), lambda host: host.signal(signal.SIGTERM), lambda host: host.signal(signal.SIGKILL)],
    ids=["EOF", "SIGTERM", "SIGKILL"],
)
async def test_lv_39_nothing_of_the_group_survives(stage: Stage, end: Callable[[Any], Any]) -> None:
    """A wrapped server that ignores everything, and its own child, are gone after mcpx, however mcpx ended."""
    one = stage.upstream("one", **STUBBORN, onStart=[{"spawn": GRANDCHILD}], wrapper=wrapped)
    async with stage.mcpx(one, status=None, limits={"stdinGrace": 0.5, "termGrace": 0.5}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        assert all(alive(pid) for pid in one.pids)
        ended = end(host)
        if ended is not None:
            await ended
        await host.process.wait()
        await gone(one.pids)
    assert len(one.pids) == 2


async def test_lv_40_a_crash_in_a_call_is_told_and_mended(stage: Stage) -> None:
    """The lost request gets an error with name, exit status and last words; the next one finds a new process."""
    calls = {"dies": [{"stderr": "first words\nout of cheese\n"}, {"exit": 41}], "slow": []}
    one, two = stage.upstream("one", tools=TOOLS, calls=calls), stage.upstream("two")
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        other = await host.start("tools/call", {"name": "one__slow"})
        await one.got("tools/call")
        lost = [await host.call("one__dies"), await other.wait()]
        for answer in lost:
            assert answer.error["code"] == -32603
            assert answer.error["data"]["server"] == "one"
            assert "41" in answer.error["data"]["reason"]
            assert "out of cheese" in answer.error["data"]["reason"]
        assert (await host.call("two__echo")).result["content"]
        assert (await host.call("one__echo")).result["content"]
    assert len(one.starts) == 2
    assert len(two.starts) == 1


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
async def test_lv_40_death_by_a_signal_is_named(stage: Stage, name: str) -> None:
    """A server that is killed: the error names the signal, or its number."""
    one = stage.upstream("one", tools=TOOLS, calls={"dies": [{"kill": name}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        reason = (await host.call("one__dies")).error["data"]["reason"]
        assert name in reason or f"signal {signal.Signals[name].value}" in reason


async def test_lv_40_an_idle_server_that_exits_is_started_again(stage: Stage) -> None:
    """A server that ends between calls is there for the next one, with a fresh handshake."""
    one = stage.upstream("one")
    async with stage.mcpx(one, limits={"restartBackoffStep": 0.1}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await one.do({"exit": 0})
        await one.happened("start", 2)
        assert (await host.call("one__echo")).result["content"]
    assert one.methods(one.starts[1].pid)[:2] == ["initialize", "notifications/initialized"]


async def test_lv_40_the_backoff_grows_to_its_cap(stage: Stage) -> None:
    """Each failed start in a row is followed by a wait, and none of the waits is longer than the cap."""
    step, cap = 0.5, 0.7
    one = stage.upstream("one", onStart=[{"stderr": "no\n"}, {"exit": 1}], entry={"protocol": "modern"})
    limits = {"restartBackoffStep": step, "restartBackoffMax": cap, "listTimeout": 0.5}
    async with stage.mcpx(one, limits=limits) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await one.happened("start", 6)
    waits = [after.at - before.at for before, after in pairwise(one.starts[:6])]
    least = [step, cap, cap, cap, cap]  # without the cap: 0.5, 1, 1.5, 2 and 2.5
    assert all(wait >= 0.5 * bound for wait, bound in zip(waits, least, strict=True))
    assert sum(waits) < sum(least) + BUSY


async def test_lv_40_a_healthy_run_resets_the_backoff(stage: Stage) -> None:
    """A server that crashes again after it was up for long is back at once, as after its first crash."""
    one = stage.upstream("one", tools=TOOLS, calls={"dies": [{"exit": 1}]})
    longest = 2.0  # what the second crash in a row would cost, and how long a run must last to be a healthy one
    async with stage.mcpx(one, limits={"restartBackoffStep": longest, "restartBackoffMax": longest}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for number in range(2):
            await trio.sleep(number and 1.05 * longest)  # a healthy run, from when it was known to be up
            await host.call("one__dies")
            ended = await one.happened("exit", number + 1)
            started = await one.happened("start", number + 2)
            assert started.at - ended.at < 0.8 * longest
            assert (await host.call("one__echo")).result["content"]
