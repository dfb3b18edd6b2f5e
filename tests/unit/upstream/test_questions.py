"""What a legacy server asks: on which call it rides, what becomes of the answer, and when there is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamGone, UpstreamTimeout
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_03_26, V2025_06_18
from mcpx.upstream.call import Question, Withdrawn
from mcpx.upstream.questions import MAX_QUESTIONS
from mcpx.wire import frames
from tests.support.running import in_virtual_time
from tests.unit.upstream.asking import (
    ACCEPT,
    CANCEL,
    DONE,
    FORM,
    ask,
    asker,
    begin,
    field,
    nothing,
    question,
    reply,
    request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.upstream.session_call import SessionCall
    from tests.unit.upstream.fakes import FakeServer

HOST = asker()


async def legacy(server: FakeServer) -> None:
    await server.open_legacy()


def of(revision: str) -> Callable[[FakeServer], Any]:
    """The opening of a server of that revision."""

    async def opening(server: FakeServer) -> None:
        frame = await server.take()
        if frame["method"] == "server/discover":
            server.refuse(frame, -32601)
            frame = await server.take()
        server.answer(
            frame, {"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "f", "version": "1"}}
        )
        await server.expect("notifications/initialized")

    return opening


def plain(params: Any) -> Any:
    return json.loads(msgspec.json.encode(params))


@in_virtual_time
async def test_a_question_and_its_answer() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server, "q-1", **FORM, _meta={"x/y": 1, "progressToken": 5})
            asked = await question(call)
            assert asked.method == "elicitation/create"
            assert asked.revision == LATEST_LEGACY
            assert plain(asked.params) == {**FORM, "_meta": {"x/y": 1}}
            call.answer(asked.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert await server.take() == {"jsonrpc": "2.0", "id": "q-1", "result": ACCEPT}
            server.answer(sent, DONE)
            assert await reply(call) == DONE
        await nothing(server)
        assert session.questions is not None
        assert len(session.questions) == 0
        assert one.unasked == []


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}, {**ACCEPT, "_meta": {"a": 1}}])
@in_virtual_time
async def test_a_refusal_is_an_answer_like_any_other(answer: Any) -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            call.answer((await question(call)).key, frames.to_raw(answer), LATEST_LEGACY)
            assert (await server.take())["result"] == answer


@in_virtual_time
async def test_the_error_of_a_host_is_told_as_it_is() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server, 7, "sampling/createMessage")
            error = RpcError(-1, "User rejected sampling request", Raw(b'{"n":1.0}'))
            call.answer((await question(call)).key, error, LATEST_LEGACY)
            told = {"code": -1, "message": "User rejected sampling request", "data": {"n": 1.0}}
            assert await server.take() == {"jsonrpc": "2.0", "id": 7, "error": told}


@in_virtual_time
async def test_the_answer_of_a_modern_host_is_told_without_what_is_modern_in_it() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            call.answer((await question(call)).key, frames.to_raw({**ACCEPT, "resultType": "complete"}), LATEST_MODERN)
            assert (await server.take())["result"] == ACCEPT


@in_virtual_time
async def test_two_at_once_are_two_and_may_be_answered_in_any_order() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server, 1)
            ask(server, "1", "roots/list")
            first, second = await question(call), await question(call)
            assert first.key != second.key
            roots = {"roots": [{"uri": "file:///a"}]}
            call.answer(second.key, frames.to_raw(roots), LATEST_LEGACY)
            assert await server.take() == {"jsonrpc": "2.0", "id": "1", "result": roots}
            call.answer(first.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert await server.take() == {"jsonrpc": "2.0", "id": 1, "result": ACCEPT}
            server.answer(sent, DONE)
            assert await reply(call) == DONE


@in_virtual_time
async def test_an_answer_is_given_once_and_to_nothing_that_was_not_asked() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            key = (await question(call)).key
            for name in (key, key, "no such"):
                call.answer(name, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert (await server.take())["result"] == ACCEPT
            await nothing(server)


@in_virtual_time
async def test_progress_and_results_come_while_a_question_is_open() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server)
            key = (await question(call)).key
            assert call.next_nowait() is None
            server.say(method="notifications/progress", params={"progressToken": sent["id"], "progress": 1})
            assert plain((await call.next()).params) == {"progress": 1}  # type: ignore[union-attr]
            server.answer(sent, DONE)
            await trio.testing.wait_all_tasks_blocked()
            event = call.next_nowait()
            assert event is not None
            assert type(event).__name__ == "Reply"
        # The server no longer waits for it, most likely; it is told all the same that nobody will answer.
        assert await server.take() == {"jsonrpc": "2.0", "id": 1, "result": CANCEL}
        call.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
        await nothing(server)


@in_virtual_time
async def test_a_question_that_is_withdrawn() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server, 5)
            ask(server, 6, "roots/list")
            first, second = await question(call), await question(call)
            server.say(method="notifications/cancelled", params={"requestId": 5, "reason": "too late"})
            gone = await call.next()
            assert isinstance(gone, Withdrawn)
            assert gone.key == first.key
            call.answer(first.key, frames.to_raw(ACCEPT), LATEST_LEGACY)  # late
            await nothing(server)
            call.answer(second.key, frames.to_raw({"roots": []}), LATEST_LEGACY)
            assert (await server.take())["id"] == 6
            server.say(method="notifications/cancelled", params={"requestId": 6})  # answered already
            server.say(method="notifications/cancelled", params={"requestId": "5"})  # another id
            server.say(method="notifications/cancelled", params={})
            server.answer(sent, DONE)
            assert await reply(call) == DONE


# -- time


@in_virtual_time
async def test_the_limits_of_a_call_stand_still_while_it_asks() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            await trio.sleep(50)
            ask(server)
            key = (await question(call)).key
            with trio.move_on_after(500) as scope:
                await call.next()
            assert scope.cancelled_caught
            call.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            asked_at = trio.current_time()
            with pytest.raises(UpstreamTimeout):
                await call.next()
            assert trio.current_time() - asked_at == pytest.approx(10, abs=0.1)


@in_virtual_time
async def test_a_question_that_nobody_answers_is_refused_and_the_call_goes_on() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            began = trio.current_time()
            ask(server, 1)
            ask(server, 2, "sampling/createMessage")
            keys = [(await question(call)).key, (await question(call)).key]
            gone = [await call.next(), await call.next()]
            assert [event.key for event in gone if isinstance(event, Withdrawn)] == keys
            assert trio.current_time() - began == pytest.approx(600, abs=0.1)
            assert await server.take() == {"jsonrpc": "2.0", "id": 1, "result": CANCEL}
            assert "within 600 s" in (await server.take())["error"]["message"]
            call.answer(keys[0], frames.to_raw(ACCEPT), LATEST_LEGACY)
            server.answer(sent, DONE)
            assert await reply(call) == DONE
        await nothing(server)


@in_virtual_time
async def test_whoever_holds_a_call_stops_all_of_its_clocks() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server)
            key = (await question(call)).key
            with call.hold(), trio.move_on_after(5000) as scope:
                await call.next()
            assert scope.cancelled_caught
            with trio.move_on_after(590) as scope:
                await call.next()
            assert scope.cancelled_caught
            call.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            await server.take()
            server.answer(sent, DONE)
            assert await reply(call) == DONE


@in_virtual_time
async def test_a_call_can_be_held_while_somebody_waits_for_it() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)

            async def hold() -> None:
                await trio.sleep(30)
                with call.hold():
                    await trio.sleep(200)
                await trio.sleep(20)
                server.answer(sent, DONE)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                assert await reply(call) == DONE


# -- how a call ends


@in_virtual_time
async def test_a_call_that_is_left_is_cancelled_first_and_its_questions_then() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server, 1)
            ask(server, 2, "roots/list")
            await question(call)
        cancelled = await server.expect("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        assert await server.take() == {"jsonrpc": "2.0", "id": 1, "result": CANCEL}
        refused = await server.take()
        assert refused["id"] == 2
        assert refused["error"]["code"] == -32603
        await nothing(server)


@in_virtual_time
async def test_a_server_that_goes_takes_its_questions_with_it() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            key = (await question(call)).key
            server.channel.close()
            with pytest.raises(UpstreamGone):
                await call.next()
            call.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
        assert session.questions is not None
        assert len(session.questions) == 0


@in_virtual_time
async def test_ten_thousand_calls_that_are_cancelled_while_they_ask_leave_nothing() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        for number in range(2500):
            with session.call(request(HOST)) as call:
                await begin(call, server)
                ask(server, number)
                await question(call)
            assert [(await server.take()).get("method") for _ in range(2)] == ["notifications/cancelled", None]
        assert session.questions is not None
        assert len(session.questions) == 0
        assert session.connection.in_flight == 0


# -- whose it is


@in_virtual_time
async def test_it_rides_on_the_last_call_that_was_sent() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as early, session.call(request(HOST)) as late:
            await begin(early, server)
            await begin(late, server)
            ask(server)
            await question(late)
            assert early.next_nowait() is None


@in_virtual_time
async def test_and_rather_on_one_that_every_host_can_be_asked_during() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as tool, session.call(request(HOST, "completion/complete")) as other:
            await begin(tool, server)
            await begin(other, server)
            ask(server)
            await question(tool)
            assert other.next_nowait() is None


@in_virtual_time
async def test_never_on_a_request_of_mcpx_itself() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "tools/list", {}, HOST)
            listing = await server.expect("tools/list")
            ask(server)
            await trio.testing.wait_all_tasks_blocked()
            [unasked] = one.unasked
            unasked.answer(frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert (await server.take())["result"] == ACCEPT
            server.answer(listing, {"tools": []})


@in_virtual_time
async def test_hosts_have_instances_of_their_own() -> None:
    async with field(legacy) as one, one.using(asker("a")) as first, one.using(asker("b")) as second:
        assert first is not second
        with first.call(request(asker("a"))) as mine, second.call(request(asker("b"))) as other:
            await begin(mine, one.servers[0])
            await begin(other, one.servers[1])
            ask(one.servers[0])
            await question(mine)
            assert other.next_nowait() is None


# -- what comes unasked


@in_virtual_time
async def test_a_question_outside_any_call_goes_to_the_host_at_once() -> None:
    async with field(legacy) as one:
        one.takes = True
        async with one.using(HOST) as session:
            [server] = one.servers
            ask(server, 1, "roots/list")
            await trio.testing.wait_all_tasks_blocked()
            [unasked] = one.unasked
            assert (unasked.server, unasked.host, unasked.question.method) == ("fake", "host", "roots/list")
            with session.call(request(HOST)) as call:
                await begin(call, server)
                assert call.next_nowait() is None
                roots = {"roots": [{"uri": "file:///a", "name": "a"}]}
                unasked.answer(frames.to_raw(roots), LATEST_LEGACY)
                assert await server.take() == {"jsonrpc": "2.0", "id": 1, "result": roots}
                assert unasked.over.is_set()
                unasked.answer(frames.to_raw(roots), LATEST_LEGACY)
                await nothing(server)


@in_virtual_time
async def test_it_may_be_withdrawn_or_its_server_may_go() -> None:
    async with field(legacy) as one:
        one.takes = True
        async with one.using(HOST):
            [server] = one.servers
            ask(server, 1, "roots/list")
            ask(server, 2, "roots/list")
            server.say(method="notifications/cancelled", params={"requestId": 1})
            await trio.testing.wait_all_tasks_blocked()
            assert [unasked.over.is_set() for unasked in one.unasked] == [True, False]
            server.channel.close()
            await trio.testing.wait_all_tasks_blocked()
            assert one.unasked[1].over.is_set()


@in_virtual_time
async def test_where_the_host_cannot_be_asked_at_once_it_waits_for_the_next_call() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        ask(server, 1, "roots/list")
        await trio.sleep(100)
        with session.call(request(HOST)) as call:
            asked = await question(call)
            assert asked.method == "roots/list"
            await nothing(server, 100)
            call.answer(asked.key, frames.to_raw({"roots": []}), LATEST_LEGACY)
            assert (await server.take())["result"] == {"roots": []}
            sent = await begin(call, server)  # once the server knows what it wanted to know
            server.answer(sent, DONE)
            assert await reply(call) == DONE


@pytest.mark.parametrize("leaves", [False, True], ids=["overdue", "withdrawn"])
@in_virtual_time
async def test_the_call_is_made_all_the_same_when_there_is_no_answer(*, leaves: bool) -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        ask(server, 1, "roots/list")
        await nothing(server)
        with session.call(request(HOST)) as call:
            asked = await question(call)
            if leaves:
                server.say(method="notifications/cancelled", params={"requestId": 1})
                await nothing(server)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_is_withdrawn, call, asked)
                if not leaves:
                    assert (await server.take())["error"]["code"] == -32603
                sent = await server.expect("tools/call")
            server.answer(sent, DONE)
            assert await reply(call) == DONE


async def _is_withdrawn(call: SessionCall, asked: Question) -> None:
    event = await call.next()
    assert isinstance(event, Withdrawn)
    assert event.key == asked.key


@in_virtual_time
async def test_a_call_that_is_answered_before_its_question_was_not_what_it_was_about() -> None:
    """A server that asks for roots right after its handshake may have the first call by then, and answer it at once."""
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server, 1, "roots/list")
            server.answer(sent, DONE)
            first = await question(call)
            assert await reply(call) == DONE
        await nothing(server)
        with session.call(request(HOST)) as call:
            asked = await question(call)
            assert asked.key == first.key
            call.answer(asked.key, frames.to_raw({"roots": []}), LATEST_LEGACY)
            assert (await server.take())["result"] == {"roots": []}
            await begin(call, server)


@in_virtual_time
async def test_the_host_of_such_a_call_is_asked_at_once_where_that_can_be() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        one.takes = True
        with session.call(request(HOST)) as call:
            sent = await begin(call, server)
            ask(server, 1, "roots/list")
            server.answer(sent, DONE)
            await question(call)
            assert await reply(call) == DONE
            assert one.unasked == []
        [unasked] = one.unasked
        unasked.answer(frames.to_raw({"roots": []}), LATEST_LEGACY)
        assert (await server.take())["result"] == {"roots": []}


@in_virtual_time
async def test_for_one_that_every_host_can_be_asked_during() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        ask(server, 1, "roots/list")
        await nothing(server)
        with session.call(request(HOST, "completion/complete")) as other:
            await begin(other, server)
            assert other.next_nowait() is None
            with session.call(request(HOST)) as call:
                assert (await question(call)).method == "roots/list"


@in_virtual_time
async def test_and_is_refused_when_none_comes() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        ask(server, 1, "roots/list")
        await trio.sleep(300)
        ask(server, 2)
        await nothing(server, 299)
        assert (await server.take())["error"]["code"] == -32603
        assert session.questions is not None
        assert len(session.questions) == 1
        await trio.sleep(300)
        assert await server.take() == {"jsonrpc": "2.0", "id": 2, "result": CANCEL}


# -- what may not be asked


@pytest.mark.parametrize(
    ("told", "method", "params", "code"),
    [
        ({"roots": {}}, "elicitation/create", FORM, -32601),
        ({"elicitation": {}}, "roots/list", {}, -32601),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url", "message": "m", "url": "https://e.com/"}, -32602),
        ({"elicitation": {"url": {}}}, "elicitation/create", FORM, -32602),
        ({"sampling": {}}, "sampling/createMessage", {"messages": [], "maxTokens": 1, "tools": [{}]}, -32602),
        ({"roots": {}}, "tools/call", {"name": "x"}, -32601),
        ({"roots": {}}, "x/unknown", {}, -32601),
    ],
)
@in_virtual_time
async def test_what_was_not_declared_is_refused_at_once(told: Any, method: str, params: Any, code: int) -> None:
    host = asker("host", told)
    async with field(legacy) as one, one.using(host) as session:
        [server] = one.servers
        with session.call(request(host)) as call:
            await begin(call, server)
            server.say(id="q", method=method, params=params)
            refused = await server.take()
            assert (refused["id"], refused["error"]["code"]) == ("q", code)
            assert call.next_nowait() is None
    assert one.unasked == []


@in_virtual_time
async def test_what_the_revision_of_the_server_has_not_is_refused_though_the_host_could() -> None:
    async with field(of(V2025_03_26)) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            assert (await server.take())["error"]["code"] == -32601
            ask(server, 2, "roots/list")
            assert (await question(call)).revision == V2025_03_26


@in_virtual_time
async def test_an_answer_that_the_revision_has_no_way_to_say_is_a_cancel() -> None:
    async with field(of(V2025_06_18)) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            several = {"action": "accept", "content": {"colours": ["red", "blue"]}}
            call.answer((await question(call)).key, frames.to_raw(several), LATEST_LEGACY)
            assert (await server.take())["result"] == CANCEL


@in_virtual_time
async def test_a_shared_instance_may_ask_nothing() -> None:
    async with field(legacy, scope="shared") as one, one.using(HOST) as session:
        [server] = one.servers
        assert session.questions is not None
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            assert (await server.take())["error"]["code"] == -32601


@in_virtual_time
async def test_with_an_instance_for_each_call_it_is_that_calls() -> None:
    async with field(legacy, scope="call") as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            await question(call)


@in_virtual_time
async def test_an_id_that_is_open_and_one_question_too_many_are_refused() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            for number in range(MAX_QUESTIONS):
                ask(server, number)
            ask(server, 0)
            assert (await server.take())["error"]["code"] == -32600
            ask(server, "one more")
            assert (await server.take())["error"]["code"] == -32603
            seen = 0
            while isinstance(call.next_nowait(), Question):
                seen += 1
            assert seen == MAX_QUESTIONS


@in_virtual_time
async def test_a_ping_is_answered_while_a_question_is_open() -> None:
    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            ask(server)
            await question(call)
            server.say(id="p", method="ping")
            assert await server.take() == {"jsonrpc": "2.0", "id": "p", "result": {}}
