"""Quick calls have no task; whatever takes longer, or needs something to be waited for, gets one and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamTimeout
from mcpx.host.flights import MAX_FLIGHT
from mcpx.spec.codes import URL_ELICITATION_REQUIRED
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.upstream.call import Progress, Question, Reply
from tests.unit.host.talk import TEXT, FakeGateway, Talk, open_talk, raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


def play(act: Callable[[FakeGateway, Talk], Awaitable[None]], *, drain: float = 0, **limits: Any) -> FakeGateway:
    """Have a host talk to a gateway; time passes only where everybody waits."""
    gateway = FakeGateway(**limits)

    async def talk() -> None:
        async with open_talk(gateway, drain=drain) as talk:
            await act(gateway, talk)

    trio.run(talk, clock=trio.testing.MockClock(autojump_threshold=0))
    return gateway


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def settled() -> int:
    await trio.testing.wait_all_tasks_blocked()
    return tasks()


@pytest.mark.parametrize("revision", [None, LATEST_MODERN])
def test_a_quick_call_has_no_task(revision: str | None) -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        before = await settled()
        for id in range(20):
            await talk.call(id, revision)
        assert await settled() == before
        for call in gateway.calls:
            call.reply()
        assert tasks() == before
        assert [frame["id"] for frame in await talk.hear_all()] == list(range(20))
        assert [call.state for call in gateway.calls] == ["done"] * 20

    play(act)


def test_a_call_that_takes_longer_gets_a_task_and_goes_on() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        before = await settled()
        await talk.call(1)
        await trio.sleep(MAX_FLIGHT / 2)
        await talk.call(2)
        assert await settled() == before
        await trio.sleep(MAX_FLIGHT * 0.75)
        assert tasks() == before + 1  # the first, and not the second
        await trio.sleep(MAX_FLIGHT)
        assert tasks() == before + 2
        for call in gateway.calls:
            call.reply()
        assert {frame["id"] for frame in await talk.hear_all()} == {1, 2}

    play(act)


def test_what_comes_before_the_answer_is_told_before_it() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        await talk.call(1, progressToken="p")
        await trio.testing.wait_all_tasks_blocked()
        # All at once: the answer is there before the task that the progress takes has run.
        gateway.calls[0].put(
            Progress({"progress": raw(1)}), Progress({"progress": raw(2)}), Reply(TEXT, LATEST_MODERN, "one")
        )
        *said, answer = await talk.hear_all()
        assert [frame["params"]["progress"] for frame in said] == [1, 2]
        assert answer["id"] == 1

    play(act)


def test_a_question_in_the_course_of_a_call_is_asked() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        await talk.shake(LATEST_LEGACY, capabilities={"roots": {}})
        await talk.call(1)
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(Question("k", "roots/list", {}, LATEST_LEGACY))
        asked = await talk.hear()
        await talk.say({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
        await gateway.calls[0].answered.wait()
        gateway.calls[0].reply()
        assert (await talk.hear())["id"] == 1
        assert gateway.calls[0].answers == [("k", {"roots": []}, LATEST_LEGACY)]

    play(act)


def test_a_cancelled_call_is_left_and_not_answered() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        before = await settled()
        await talk.call(1)
        await talk.say(CANCEL)
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.calls[0].state == "cancelled"
        gateway.calls[0].reply()
        assert await talk.hear_all() == []
        await talk.call(1)  # its id is free again
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[1].reply()
        assert [frame["id"] for frame in await talk.hear_all()] == [1]
        assert tasks() == before

    play(act)


def test_an_error_is_an_answer() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        for id, failure in enumerate(
            (RpcError(-32000, "no"), UpstreamTimeout("one", "Too slow."), ValueError("a bug"))
        ):
            await talk.call(id)
            await trio.testing.wait_all_tasks_blocked()
            gateway.calls[-1].put(failure)
        assert [frame["error"]["code"] for frame in await talk.hear_all()] == [-32000, -32603, -32603]

    play(act)


def test_a_bug_where_a_call_begins_ends_that_call_alone() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        gateway.begin_error = ValueError("a bug")
        await talk.call(1)
        assert [frame["error"]["code"] for frame in await talk.hear_all()] == [-32603]
        assert gateway.calls[0].state != "open"
        gateway.begin_error = None
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[-1].reply()
        assert [frame["id"] for frame in await talk.hear_all()] == [2]

    play(act)


def test_the_error_that_asks_for_a_visit_becomes_a_question() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
        await talk.call(1, LATEST_MODERN, **meta)
        await trio.testing.wait_all_tasks_blocked()
        visit = {"mode": "url", "elicitationId": "e", "url": "https://localhost/", "message": "Go"}
        data = raw({"elicitations": [visit]})
        gateway.calls[0].put(RpcError(URL_ELICITATION_REQUIRED, "visit", data, revision=LATEST_LEGACY, server="one"))
        [answer] = await talk.hear_all()
        assert answer["result"]["resultType"] == "input_required"
        assert list(answer["result"]["inputRequests"]) == ["e"]

    play(act)


def test_an_answer_waits_for_a_host_that_is_slow_to_read() -> None:
    big = Raw(b'{"content":[{"type":"text","text":"%b"}]}' % (b"x" * 1000))

    async def test() -> None:
        gateway = FakeGateway()
        async with open_talk(gateway, listens=False, max_pending=1500) as talk:
            before = await settled()
            for id in range(4):
                await talk.call(id)
            await trio.testing.wait_all_tasks_blocked()
            for call in gateway.calls:
                call.reply(big)
            assert [call.state for call in gateway.calls] == ["done"] * 4  # no server waits for a host
            assert await settled() == before + 2  # two are queued, the rest wait
            assert {frame["id"] for frame in await talk.catch_up()} == {0, 1, 2, 3}

    trio.run(test)


def test_at_the_end_what_is_under_way_has_its_time() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        talk.stop.set()
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].reply()
        assert (await talk.hear())["id"] == 1
        farewell = await talk.hear()  # once the time is over
        assert (farewell["id"], farewell["error"]["message"]) == (2, "mcpx is stopping")
        assert trio.current_time() == pytest.approx(5, abs=0.01)

    assert [call.state for call in play(act, drain=5).calls] == ["done", "cancelled"]


def test_a_connection_that_is_cut_short_leaves_its_calls() -> None:
    async def test() -> None:
        gateway = FakeGateway()
        with trio.CancelScope() as scope:
            async with open_talk(gateway) as talk:
                await talk.call(1)
                await trio.testing.wait_all_tasks_blocked()
                assert gateway.calls[0].state == "open"
                scope.cancel()
                await trio.sleep_forever()
        assert gateway.calls[0].state == "cancelled"

    trio.run(test)


def test_short_limits_in_time_are_measured_by_tasks() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        before = await settled()
        await talk.call(1)
        assert await settled() == before + 1
        gateway.calls[0].reply()
        assert [frame["id"] for frame in await talk.hear_all()] == [1]

    play(act, call_timeout=MAX_FLIGHT / 2)


def test_a_call_behind_a_request_that_has_not_run_yet_keeps_its_place() -> None:
    async def act(gateway: FakeGateway, talk: Talk) -> None:
        await talk.shake(LATEST_LEGACY)
        before = await settled()
        await talk.ask(1, "logging/setLevel", {"level": "error"})
        await talk.call(2)
        assert await settled() == before + 1  # both came in one read: the call waited for its turn
        assert gateway.levels == {"test": "error"}
        gateway.calls[0].reply()
        assert [frame["id"] for frame in await talk.hear_all()] == [1, 2]

    play(act)
