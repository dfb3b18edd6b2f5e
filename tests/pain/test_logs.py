"""Kind 11 where hosts share a server, and near misses: logs that a modern server keeps for want of a level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.meta import LOG_LEVEL
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.scripted import TOOL
from tests.support.socket_hosts import connected, serving

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

ERAS = [LATEST_LEGACY, LATEST_MODERN]
PROGRESS, MESSAGE = "notifications/progress", "notifications/message"
LOGS: dict[str, Any] = {"tools": {}, "logging": {}}


@pytest.mark.parametrize("revision", ERAS)
async def test_pain_11_two_hosts_with_one_token_keep_their_progress(stage: Stage, revision: str) -> None:
    """Each hears of its own call alone, and both calls outlive the idle limit by the progress that they make."""
    busy = [{"progress": {"times": 8, "every": 0.1}}, {"answer": True}]
    lone = [{"progress": {"times": 8, "every": 0.1, "message": "lone"}}, {"answer": True}]
    one = stage.upstream(
        "one",
        revision,
        tools=[{**TOOL, "name": "busy"}, {**TOOL, "name": "lone"}],
        calls={"busy": busy, "lone": lone},
        entry={"limits": {"callTimeout": {"idle": 0.6}}},
    )
    async with serving(stage, one) as served, connected(served) as a, connected(served) as b:
        answers: list[Any] = []

        async def call(host: Host, tool: str) -> None:
            answers.append((await host.call(tool, meta={"progressToken": 1})).result)

        for host in (a, b):
            await host.open(LATEST_LEGACY)
            await host.names()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, a, "one__busy")
            nursery.start_soon(call, b, "one__lone")
        assert len(answers) == 2
        for host, message in ((a, None), (b, "lone")):
            notes = [note.params for note in host.notifications if note.method == PROGRESS]
            assert [note["progress"] for note in notes] == list(range(1, 9))
            assert {note.get("message") for note in notes} == {message}
            assert {note["progressToken"] for note in notes} == {1}


@pytest.mark.parametrize("revision", ERAS)
async def test_pain_11_progress_that_goes_back_is_not_told(stage: Stage, revision: str) -> None:
    """A server that counts anew, or repeats itself, breaks the rule that progress increases; no host has to."""
    steps = [{"progress": {"params": {"progress": value}}} for value in (1, 5, 2, 5, 6.5, 0, 7)]
    one = stage.upstream("one", revision, calls={"echo": [*steps, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.call("one__echo", meta={"progressToken": "p"})
        told = [note.params["progress"] for note in host.notifications if note.method == PROGRESS]
    assert told == sorted(set(told))
    assert told[-1] == 7


@pytest.mark.parametrize("level", ["debug", "warning"])
async def test_near_a_modern_server_is_asked_for_the_logs_of_a_legacy_host(stage: Stage, level: str) -> None:
    """Without a level in the request it sends none, so what the host has set once is said on each."""
    says = [{"log": ["info", "started"]}, {"log": ["error", "failed"]}, {"answer": True}]
    one = stage.upstream("one", LATEST_MODERN, capabilities=LOGS, calls={"echo": says})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.request("logging/setLevel", {"level": level})
        for _ in range(2):
            await host.call("one__echo")
        told = [note.params["data"] for note in host.notifications if note.method == MESSAGE]
    assert told == 2 * (["started", "failed"] if level == "debug" else ["failed"])
    assert [line.frame["params"]["_meta"][LOG_LEVEL] for line in one.received("tools/call")] == 2 * [level]


async def test_near_a_host_that_is_slow_to_read_costs_no_log_storm(stage: Stage) -> None:
    """A call that logs without end is answered all the same, and what is kept for its host is bounded."""
    storm = [{"cork": [{"log": ["debug", f"{number} {'x' * 200}"]} for number in range(5000)]}, {"answer": True}]
    one = stage.upstream("one", LATEST_LEGACY, capabilities=LOGS, calls={"echo": storm})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.request("logging/setLevel", {"level": "debug"})
        assert (await host.call("one__echo")).result["content"]
        told = [int(note.params["data"].split()[0]) for note in host.notifications if note.method == MESSAGE]
    assert told == sorted(told)
    assert told[0] == 0
