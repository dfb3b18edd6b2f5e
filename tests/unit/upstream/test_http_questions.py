"""Questions of servers over HTTP: on the stream of the call that caused them, on the session's own, and in results."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import UpstreamError
from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, V2025_03_26
from mcpx.upstream.call import Question, Withdrawn
from mcpx.wire import frames
from tests.support.http_up import Asked, HttpUp, Reply, initialized, legacy, modern, serving
from tests.support.waiting import Changes
from tests.unit.upstream.asking import ACCEPT, CANCEL, DONE, FORM, asker, question, reply, request
from tests.unit.upstream.over_http import supervised

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.upstream.session import Session
    from mcpx.upstream.session_call import SessionCall
    from mcpx.upstream.supervisor import Supervisor

LIMITS = Limits(restart_backoff_step=0.05, restart_backoff_max=0.2, question_timeout=0.5)
HOST = asker()


def asks(id: Any, method: str = "elicitation/create") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": FORM if "elicit" in method else {}}


def result(asked: Asked, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked.frame["id"], "result": value}


class Server:
    """A legacy server whose calls each ask once on their own stream, and end when that is answered."""

    def __init__(self, **handlers: Any) -> None:
        self.answers: dict[Any, Any] = {}
        self.changes = Changes()
        self.standing: Reply | None = None
        own = {"tools__call": self.call, "(answer)": self.answered, "GET": self.listen, **handlers}
        self.script = legacy(**own)

    async def answered(self, asked: Asked, reply: Reply) -> None:
        self.answers[asked.frame["id"]] = asked.frame.get("result", asked.frame.get("error"))
        await reply.send(202)
        self.changes.tell()

    async def answer(self, id: Any) -> Any:
        await self.changes.until(lambda: id in self.answers, f"the answer to {id}")
        return self.answers[id]

    async def call(self, asked: Asked, reply: Reply) -> None:
        id = f"q{asked.frame['id']}"
        await reply.events()
        await reply.event(asks(id))
        await self.answer(id)
        await reply.event(result(asked, DONE))
        await reply.end()

    async def listen(self, asked: Asked, reply: Reply) -> None:
        await reply.events()
        self.standing = reply
        self.changes.tell()
        await reply.hang()


@asynccontextmanager
async def talking(script: Any, who: Any = HOST, **more: Any) -> AsyncGenerator[tuple[HttpUp, Supervisor, Session]]:
    async with serving(script) as up, supervised(up.url, LIMITS, **more) as supervisor:
        instance = await supervisor.lease(who)
        assert instance.session is not None
        try:
            yield up, supervisor, instance.session
        finally:
            supervisor.release(instance)


async def test_it_is_the_calls_on_whose_stream_it_comes_whichever_was_sent_last() -> None:
    server = Server()
    async with talking(server.script) as (up, _, session):
        with session.call(request(HOST)) as early, session.call(request(HOST)) as late:
            first = await question(early)
            second = await question(late)
            assert first.key != second.key
            late.answer(second.key, frames.to_raw(CANCEL), LATEST_LEGACY)
            early.answer(first.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert await reply(late) == DONE
            assert await reply(early) == DONE
        sent = [asked.frame["id"] for asked in up.of("tools/call")]
        assert server.answers == {f"q{sent[0]}": ACCEPT, f"q{sent[1]}": CANCEL}
        assert all(asked.headers["mcp-session-id"] == "s1" for asked in up.of("(answer)"))


async def test_two_hosts_without_a_connection_share_a_session_and_are_asked_their_own() -> None:
    server = Server()
    one, other = (asker("http 127.0.0.1", lasting=False) for _ in range(2))
    async with talking(server.script, one) as (up, supervisor, session):
        second = await supervisor.lease(other)
        assert second.session is session
        with session.call(request(one)) as mine, session.call(request(other)) as theirs:
            for call, answer in ((theirs, CANCEL), (mine, ACCEPT)):
                call.answer((await question(call)).key, frames.to_raw(answer), LATEST_LEGACY)
                assert await reply(call) == DONE
        sent = [asked.frame["id"] for asked in up.of("tools/call")]
        assert server.answers == {f"q{sent[0]}": CANCEL, f"q{sent[1]}": ACCEPT}
        assert len(up.of("initialize")) == 1
        supervisor.release(second)


async def test_but_for_what_comes_on_the_stream_of_the_session_which_may_be_anybodys() -> None:
    server = Server()
    one = asker("http 127.0.0.1", lasting=False)
    async with talking(server.script, one) as (_, _, session):
        with session.call(request(one)) as call:
            own = await question(call)
            await server.changes.until(lambda: server.standing, "the stream of the session")
            assert server.standing is not None
            await server.standing.event(asks("stray"))
            assert await server.answer("stray") == CANCEL
            await server.standing.event(asks("roots", "roots/list"))
            assert (await server.answer("roots"))["code"] == -32603
            call.answer(own.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert await reply(call) == DONE


async def test_on_the_stream_of_a_session_that_one_host_has_it_is_that_hosts() -> None:
    server = Server()
    async with talking(server.script) as (_, _, session):
        with session.call(request(HOST)) as call:
            own = await question(call)
            await server.changes.until(lambda: server.standing, "the stream of the session")
            assert server.standing is not None
            await server.standing.event(asks("late"))
            late = await question(call)
            call.answer(late.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert await server.answer("late") == ACCEPT
            call.answer(own.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert await reply(call) == DONE


async def test_after_an_answer_in_the_same_stream_it_is_nobodys() -> None:
    """Such a stream should end with its answer; what still comes on it is not put to anybody."""

    async def call_(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(result(asked, DONE))
        await reply.event(asks("after"))
        await reply.end()

    server = Server(tools__call=call_)
    async with talking(server.script) as (_, _, session):
        with session.call(request(HOST)) as call:
            assert await reply(call) == DONE
        assert session.questions is not None
        assert len(session.questions) == 0
        assert server.answers == {}


async def test_a_cancelled_call_that_asks_all_the_same_is_refused() -> None:
    go, refused = trio.Event(), trio.Event()

    async def stubborn(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await go.wait()
        await reply.event(asks("late"))
        await reply.hang()

    async def cancelled(asked: Asked, reply: Reply) -> None:
        go.set()
        await refused.wait()  # until then mcpx keeps the stream of what it has cancelled
        await reply.send(202)

    server = Server(tools__call=stubborn, notifications__cancelled=cancelled)
    async with talking(server.script) as (up, _, session):
        with session.call(request(HOST)) as call:
            with trio.move_on_after(0.2):
                await call.next()
            await up.got("tools/call")
        assert await server.answer("late") == CANCEL
        refused.set()
        await up.got("notifications/cancelled")


async def test_a_question_is_withdrawn_on_the_same_stream() -> None:
    async def fickle(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(asks(1))
        params = {"requestId": 1, "reason": "found out"}
        await reply.event({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        await reply.event(result(asked, DONE))
        await reply.end()

    server = Server(tools__call=fickle)
    async with talking(server.script) as (_, _, session):
        with session.call(request(HOST)) as call:
            asked = await question(call)
            gone = await call.next()
            assert isinstance(gone, Withdrawn)
            assert gone.key == asked.key
            assert await reply(call) == DONE
        assert server.answers == {}


async def test_a_question_that_nobody_answers_is_refused() -> None:
    server = Server()
    async with talking(server.script) as (_, _, session):
        with session.call(request(HOST)) as call:
            asked = await question(call)
            gone = await call.next()
            assert isinstance(gone, Withdrawn)
            assert gone.key == asked.key
            assert await reply(call) == DONE
        assert list(server.answers.values()) == [CANCEL]


async def test_a_session_that_is_forgotten_takes_its_questions_with_it() -> None:
    renewed = trio.Event()

    async def slow(asked: Asked, reply: Reply) -> None:
        if asked.headers["mcp-session-id"] == "s2":
            await reply.result({"tools": []})
        else:
            server.script.known.clear()
            await reply.error(-32001, "Session not found", status=404, id=None)
            renewed.set()

    server = Server(tools__list=slow)
    async with talking(server.script) as (_, _, session), trio.open_nursery() as nursery:
        with session.call(request(HOST)) as call:
            asked = await question(call)
            nursery.start_soon(session.ask, "tools/list", {}, HOST)
            await renewed.wait()
            gone = await call.next()
            assert isinstance(gone, Withdrawn)
            assert gone.key == asked.key
            call.answer(asked.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
        assert session.questions is not None
        assert len(session.questions) == 0
        assert server.answers == {}


async def test_a_batch_may_hold_a_question() -> None:
    async def batches(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(json.dumps([asks(1, "roots/list"), {"jsonrpc": "2.0", "method": "x/y"}]).encode())
        await server.answer(1)
        await reply.event(result(asked, DONE))
        await reply.end()

    server = Server(tools__call=batches)
    server.script = legacy(V2025_03_26, **{"tools__call": batches, "(answer)": server.answered})
    async with talking(server.script) as (_, _, session):
        with session.call(request(HOST)) as call:
            asked = await question(call)
            call.answer(asked.key, frames.to_raw({"roots": []}), LATEST_LEGACY)
            assert await reply(call) == DONE
        assert server.answers == {1: {"roots": []}}


# -- modern servers


async def test_the_answers_go_in_a_new_request_with_headers_of_its_own() -> None:
    async def call_(asked: Asked, reply: Reply) -> None:
        params = asked.frame["params"]
        if "inputResponses" not in params:
            questions = {"who": {"method": "elicitation/create", "params": FORM}}
            required = {"resultType": "input_required", "inputRequests": questions, "requestState": "s"}
            await reply.result(required)
        else:
            assert params["requestState"] == "s"
            assert asked.headers["mcp-name"] == "echo"
            text = json.dumps(params["inputResponses"])
            await reply.result({"resultType": "complete", "content": [{"type": "text", "text": text}]})

    async with talking(modern(tools__call=call_)) as (up, _, session):
        calls: list[SessionCall] = []
        for answer in (ACCEPT, CANCEL):
            with session.call(request(HOST)) as call:
                call.answer((await question(call)).key, frames.to_raw(answer), LATEST_LEGACY)
                done = await reply(call)
                assert json.loads(done["content"][0]["text"]) == {"who": answer}
                calls.append(call)
        numbers = [asked.frame["id"] for asked in up.of("tools/call")]
        assert len(numbers) == len(set(numbers)) == 4


async def test_a_call_that_is_left_while_it_asks_has_no_stream_to_close() -> None:
    async def call_(asked: Asked, reply: Reply) -> None:
        questions = {"who": {"method": "elicitation/create", "params": FORM}}
        await reply.result({"resultType": "input_required", "inputRequests": questions})

    async with talking(modern(tools__call=call_)) as (up, _, session):
        with session.call(request(HOST)) as call:
            await question(call)
        await session.ask("tools/list", {}, HOST)
        assert up.kinds == ["server/discover", "tools/call", "tools/list"]
        assert session.connection.in_flight == 0


async def test_a_modern_server_that_asks_on_its_stream_is_not_heard() -> None:
    async def call_(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(asks(1))
        await reply.event(result(asked, {"resultType": "complete", **DONE}))
        await reply.end()

    async with talking(modern(tools__call=call_)) as (up, _, session):
        with session.call(request(HOST)) as call:
            assert (await reply(call))["content"] == []
        assert up.of("(answer)") == []


# -- HTTP+SSE, where one stream carries everything


async def test_over_one_stream_for_all_a_host_without_a_connection_has_it_for_itself() -> None:
    answers = trio.Event()

    async def script(asked: Asked, reply: Reply) -> None:
        nonlocal streams
        if asked.method == "GET":
            streams += 1
            number = streams
            await reply.events()
            await reply.write(f"event: endpoint\ndata: /messages?s={number}\n\n".encode())
            senders[str(number)] = reply
            await reply.hang()
            return
        await reply.send(202)
        stream = senders[asked.target.partition("=")[2]]
        kind = asked.kind
        if kind == "initialize":
            await stream.event({"jsonrpc": "2.0", "id": asked.frame["id"], "result": initialized()})
        elif kind == "tools/call":
            calls[asked.target] = asked
            await stream.event(asks(asked.target))
        elif kind == "(answer)":
            told[asked.frame["id"]] = asked.frame["result"]
            await stream.event(result(calls[asked.target], DONE))
            answers.set()

    streams = 0
    senders: dict[str, Reply] = {}
    calls: dict[str, Asked] = {}
    told: dict[str, Any] = {}
    one = asker("http 127.0.0.1", lasting=False)
    async with serving(script, audit=False) as up, supervised(up.url, LIMITS, transport="sse") as supervisor:
        first, second = await supervisor.lease(one), await supervisor.lease(one)
        assert first.session is not None
        assert second.session is not None
        assert first is not second
        with first.session.call(request(one)) as mine, second.session.call(request(one)) as theirs:
            for call, answer in ((mine, ACCEPT), (theirs, CANCEL)):
                call.answer((await question(call)).key, frames.to_raw(answer), LATEST_LEGACY)
                assert await reply(call) == DONE
        assert sorted(told.values(), key=str) == sorted([ACCEPT, CANCEL], key=str)
        supervisor.release(first)
        supervisor.release(second)


async def test_a_server_that_breaks_off_while_it_asks_ends_the_question() -> None:
    async def breaks(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event(asks(1))
        await reply.cut()

    server = Server(tools__call=breaks)
    async with talking(server.script) as (_, _, session):
        with session.call(request(HOST)) as call:
            event = await call.next()
            assert isinstance(event, Question)
            with pytest.raises(UpstreamError):
                await call.next()
        assert session.questions is not None
        assert len(session.questions) == 0
