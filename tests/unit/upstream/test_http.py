"""Servers over HTTP of either era: real sockets, a scripted server, the same supervisor as for a process."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any

import h11
import pytest
import trio
import trio.testing

from mcpx.errors import RpcError, UpstreamError
from mcpx.settings import KiB, Limits, MiB
from mcpx.spec.revisions import LATEST_MODERN, LEGACY, V2025_03_26
from mcpx.upstream.call import Progress
from tests.support.http_up import Asked, HttpUp, Reply, legacy, modern, serving
from tests.support.waiting import BUSY, PATIENCE
from tests.unit.upstream.over_http import (
    ASKER,
    HEADERS,
    SECRET,
    call,
    calling,
    session_at,
    session_with,
    supervised,
    why_failed,
    why_not,
)

OK = {"content": [{"type": "text", "text": "done"}]}
COMPLETE = {"resultType": "complete", **OK}
ERAS = pytest.mark.parametrize("server", [legacy, modern], ids=["legacy", "modern"])


async def test_a_modern_server() -> None:
    async with serving(modern()) as up:
        async with session_at(up.url, headers=HEADERS) as session:
            assert session.revision == LATEST_MODERN
            assert b"echo" in bytes(await session.ask("tools/list", {}, ASKER))
            assert up.asked[-1].headers["authorization"] == f"Bearer {SECRET}"
        assert up.kinds == ["server/discover", "tools/list"]
        assert {asked.connection for asked in up.asked} == {1}  # kept alive


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("sessions", [True, False])
async def test_a_legacy_server(revision: str, sessions: bool) -> None:
    async with serving(legacy(revision, sessions=sessions)) as up:
        async with session_at(up.url) as session:
            assert session.revision == revision
            assert b"echo" in bytes(await session.ask("tools/list", {}, ASKER))
        kinds = [kind for kind in up.kinds if kind != "GET"]
        expected = ["server/discover", "initialize", "notifications/initialized", "tools/list"]
        assert kinds == ([*expected, "DELETE"] if sessions else expected)


async def test_no_request_overtakes_the_end_of_the_handshake() -> None:
    async def slow(asked: Asked, reply: Reply) -> None:
        await trio.sleep(0.2)
        await reply.send(202)

    async with (
        serving(legacy(notifications__initialized=slow)) as up,
        session_at(up.url) as session,
    ):
        await session.ask("tools/list", {}, ASKER)
        assert up.of("tools/list")[0].at - up.of("notifications/initialized")[0].at >= 0.2


@ERAS
async def test_an_answer_in_a_stream_with_progress_before_it(server: Any) -> None:
    async def work(asked: Asked, reply: Reply) -> None:
        token = asked.frame["params"]["_meta"]["progressToken"]
        await reply.events()
        await reply.event(b"", id="1")  # primes the client
        await reply.write(b": still there\n\n")
        for done in (1, 2):
            params = {"progressToken": token, "progress": done}
            await reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await reply.event({"jsonrpc": "2.0", "id": asked.frame["id"], "result": COMPLETE})
        await reply.end()

    async with serving(server(tools__call=work)) as up, session_at(up.url) as session:
        with calling(session) as one:
            events = [await one.next() for _ in range(3)]
        assert [type(event) for event in events[:2]] == [Progress, Progress]
        await trio.testing.wait_all_tasks_blocked(0.1)  # the end of the stream has been read
        await call(session)
        assert session.connection.noise_count == 0
        first, second = up.of("tools/call")
        assert first.connection == second.connection  # the stream was read to its end, so its connection is kept


async def test_a_stream_that_stays_open_behind_its_answer_is_left() -> None:
    async def clings(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.event({"jsonrpc": "2.0", "id": asked.frame["id"], "result": COMPLETE})
        await reply.hang()

    async with serving(modern(tools__call=clings)) as up, session_at(up.url) as session:
        await call(session)
        with trio.fail_after(PATIENCE):
            await up.of("tools/call")[0].gone.wait()


async def test_a_batch_from_the_revision_that_has_them() -> None:
    async def batch(asked: Asked, reply: Reply) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        body = [note, {"jsonrpc": "2.0", "id": asked.frame["id"], "result": OK}]
        await reply.send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    async with serving(legacy(V2025_03_26, tools__call=batch)) as up, session_at(up.url) as session:
        assert b"done" in bytes(await call(session))


@ERAS
async def test_a_result_of_32_megabytes(server: Any) -> None:
    size = 32 * MiB

    async def big(asked: Asked, reply: Reply) -> None:
        text = b"x" * (asked.frame["params"]["arguments"]["size"])
        number = b"%d" % asked.frame["id"]
        body = b'{"jsonrpc":"2.0","id":' + number + b',"result":{"content":[{"type":"text","text":"' + text + b'"}]}}'
        if asked.frame["params"]["arguments"]["stream"]:
            await reply.events()
            await reply.write(b"data: " + body + b"\n\n")
            await reply.end()
        else:
            await reply.send(200, body, {"Content-Type": "application/json"})

    async with serving(server(tools__call=big)) as up, session_at(up.url) as session:
        for stream in (False, True):
            began = trio.current_time()
            answer = await call(session, size=size, stream=stream)
            assert trio.current_time() - began < 5
            assert len(bytes(answer)) > size


async def test_one_that_is_larger_than_max_frame_fails_alone() -> None:
    async def big(asked: Asked, reply: Reply) -> None:
        if asked.frame["params"]["arguments"]["stream"]:
            await reply.events()
            await reply.write(b"data: " + b"x" * 5000 + b"\n\n")
        else:
            await reply.text(200, "x" * 5000, "application/json")

    limits = Limits(max_frame=4 * KiB)
    async with serving(modern(tools__call=big)) as up, session_at(up.url, limits) as session:
        for stream in (False, True):
            with pytest.raises(UpstreamError, match=r"more bytes than maxFrame allows \(4096\)"):
                await call(session, stream=stream)
        await session.ask("tools/list", {}, ASKER)
        assert not session.connection.closed.is_set()


# -- what goes wrong


async def empty(asked: Asked, reply: Reply) -> None:
    await reply.text(200, "", "application/json")


async def accepted(asked: Asked, reply: Reply) -> None:
    await reply.send(202)


async def page(asked: Asked, reply: Reply) -> None:
    await reply.text(200, "<html>", "text/html; charset=utf-8")


async def nonsense(asked: Asked, reply: Reply) -> None:
    await reply.text(200, "{nonsense", "application/json")


async def anothers(asked: Asked, reply: Reply) -> None:
    await reply.json({"jsonrpc": "2.0", "id": 4711, "result": OK})


async def silent_stream(asked: Asked, reply: Reply) -> None:
    await reply.events()
    await reply.end()


async def cut_stream(asked: Asked, reply: Reply) -> None:
    await reply.events()
    await reply.write(b'data: {"jsonrpc":')
    await reply.cut()


async def cut_body(asked: Asked, reply: Reply) -> None:
    await reply._write(h11.Response(status_code=200, headers=[("Content-Length", "100")]))
    await reply.cut()


async def hangs_up(asked: Asked, reply: Reply) -> None:
    await reply.cut()


def refusing(status: int, text: str = "", content_type: str = "text/plain") -> Any:
    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(status, text, content_type)

    return refuse


@ERAS
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (empty, "answered tools/call with HTTP status 200 and no answer in it"),
        (accepted, "took tools/call as if it were a notification, with HTTP status 202"),
        (page, "answered with text/html, which is no MCP message"),
        (nonsense, "and no answer in it"),
        (anothers, "and no answer in it"),
        (silent_stream, "stream ended before the answer came"),
        (cut_stream, "The connection broke in the middle of the answer"),
        (cut_body, "The connection broke in the middle of the answer"),
        (hangs_up, "The server closed the connection without an answer"),
        (refusing(500, "it broke"), r"HTTP status 500 \(Internal Server Error\). It says: it broke\."),
        (refusing(503), r"HTTP status 503 \(Service Unavailable\)\."),
        (refusing(401, '{"error": {"message": "who?"}}', "application/json"), r"says: who\?\. Give it a token"),
        (refusing(403, "<html>x", "text/html"), r'403 \(Forbidden\). It may want another token in "headers"'),
        (refusing(429), "too many requests"),
    ],
)
async def test_an_answer_that_is_none_ends_that_call_alone(server: Any, answer: Any, said: str) -> None:
    async with serving(server(tools__call=answer)) as up, session_at(up.url, headers=HEADERS) as session:
        with pytest.raises(UpstreamError, match=said) as caught:
            await call(session)
        assert caught.value.server == "far"
        assert SECRET not in caught.value.reason
        await session.ask("tools/list", {}, ASKER)
        assert not session.connection.closed.is_set()
        assert session.connection.in_flight == 0


@ERAS
@pytest.mark.parametrize("id", [..., None, "server-error"])
@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_an_error_of_json_rpc_is_the_requests_whatever_its_status(server: Any, id: Any, status: int) -> None:
    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.error(-32602, "no such thing", status=status, id=id)

    more: dict[str, Any] = {"sessions": False} if server is legacy else {}
    async with serving(server(prompts__list=refuse, **more)) as up, session_at(up.url) as session:
        with pytest.raises(RpcError, match="no such thing") as caught:
            await session.ask("prompts/list", {}, ASKER)
        assert caught.value.code == -32602


async def test_what_a_server_says_back_is_not_told_on(caplog: pytest.LogCaptureFixture) -> None:
    async def echo(asked: Asked, reply: Reply) -> None:
        said = [asked.headers["authorization"], asked.headers.get("mcp-session-id", ""), asked.target]
        await reply.text(500, " and ".join(said))

    handlers = {"tools__call": echo, "notifications__initialized": echo}
    with caplog.at_level(logging.DEBUG):
        async with (
            serving(legacy(**handlers)) as up,
            session_at(up.url + "?key=query-secret", headers=HEADERS) as session,
        ):
            with pytest.raises(UpstreamError) as caught:
                await call(session)
            assert up.asked[-1].target == "/mcp?key=query-secret"
    assert "It says: *** and s1 and /mcp?***." in caught.value.reason  # short ids are not worth the masking
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith(("mcpx", "httpx")))
    for text in (ours, caught.value.reason):
        assert SECRET not in text
        assert "query-secret" not in text


@ERAS
async def test_cancelling_reaches_the_server_once_and_in_its_way(server: Any) -> None:
    async def works(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await reply.hang()

    async with serving(server(tools__call=works)) as up, session_at(up.url) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, session)
            asked = await up.got("tools/call")
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        with trio.fail_after(PATIENCE):
            await asked.gone.wait()
        assert trio.current_time() - began < BUSY
        await session.ask("tools/list", {}, ASKER)
        told = up.of("notifications/cancelled")
        if server is modern:
            assert told == []
        else:
            assert [one.frame["params"]["requestId"] for one in told] == [asked.frame["id"]]
        assert session.connection.in_flight == 0


@ERAS
async def test_a_call_that_takes_too_long_is_cancelled(server: Any) -> None:
    async def hang(asked: Asked, reply: Reply) -> None:
        await reply.hang()

    limits = Limits(call_timeout=0.3)
    async with serving(server(tools__call=hang)) as up, session_at(up.url, limits) as session:
        with pytest.raises(UpstreamError, match="callTimeout"):
            await call(session)
        with trio.fail_after(PATIENCE):
            await up.of("tools/call")[0].gone.wait()


async def test_a_server_that_goes_and_comes_back() -> None:
    async with serving(modern()) as up, session_at(up.url) as session:
        await session.ask("tools/list", {}, ASKER)
        script = up.script

        async def down(asked: Asked, reply: Reply) -> None:
            await reply.cut()

        up.script = down
        for _ in range(2):
            assert "closed the connection without an answer" in await why_failed(session)
        up.script = script
        await session.ask("tools/list", {}, ASKER)


async def test_a_port_that_nobody_listens_on() -> None:
    with socket.socket() as unused:  # bound and not listening: nobody else gets the number meanwhile
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for scheme in ("http", "https"):
            said = await why_not(f"{scheme}://127.0.0.1:{port}/mcp?key={SECRET}", headers=HEADERS)
            assert said == f"127.0.0.1:{port} cannot be connected to: Connection refused."


async def test_status_says_that_one_is_out_of_reach_until_it_answers_again() -> None:
    up = HttpUp(modern(), "http")

    async def listen(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        [listener] = await trio.open_tcp_listeners(up.port, host="127.0.0.1")
        up.port = listener.socket.getsockname()[1]
        with trio.CancelScope() as scope:
            task_status.started(scope)
            await trio.serve_listeners(up.attend, [listener])

    async with trio.open_nursery() as nursery:
        running = await nursery.start(listen)
        async with supervised(up.url) as supervisor, session_with(supervisor) as session:
            assert [one.last_error for one in supervisor.status()] == [None]
            running.cancel()
            await trio.testing.wait_all_tasks_blocked()
            said = await why_failed(session)
            assert said == f"127.0.0.1:{up.port} cannot be connected to: Connection refused."
            assert [(one.state, one.last_error) for one in supervisor.status()] == [("up", said)]
            running = await nursery.start(listen)
            await session.ask("tools/list", {}, ASKER)
            assert [one.last_error for one in supervisor.status()] == [None]
        running.cancel()
    assert up.audit.problems == []


async def test_one_that_fails_to_start_is_tried_again_for_the_next_call() -> None:
    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(503)

    async with serving(refuse) as up, supervised(up.url, Limits(restart_backoff_step=0.05)) as supervisor:
        with pytest.raises(UpstreamError, match="503"):
            await supervisor.lease(ASKER)
        up.script = modern()
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    async with session_with(supervisor) as session:
                        await session.ask("tools/list", {}, ASKER)
                    break
                except UpstreamError:
                    await trio.sleep(0.02)


@ERAS
async def test_an_instance_that_is_not_used_is_retired_and_its_session_ended(server: Any) -> None:
    async with serving(server()) as up, supervised(up.url, Limits(instance_idle=0.2)) as supervisor:
        async with session_with(supervisor):
            pass
        with trio.fail_after(PATIENCE):
            while list(supervisor.instances):  # noqa: ASYNC110  # nobody is told of the end of an instance
                await trio.sleep(0.02)
        assert len(up.of("DELETE")) == (0 if server is modern else 1)


async def test_many_calls_at_once() -> None:
    async def slow(asked: Asked, reply: Reply) -> None:
        await reply.events()
        await trio.sleep(0.1)
        result = {"resultType": "complete", "content": [], "n": asked.frame["params"]["arguments"]["n"]}
        await reply.event({"jsonrpc": "2.0", "id": asked.frame["id"], "result": result})
        await reply.end()

    results: dict[int, Any] = {}

    async def one(session: Any, n: int) -> None:
        results[n] = json.loads(bytes(await call(session, n=n)))["n"]

    async with serving(modern(tools__call=slow)) as up, session_at(up.url) as session:
        async with trio.open_nursery() as nursery:
            for n in range(150):
                nursery.start_soon(one, session, n)
        assert results == {n: n for n in range(150)}
