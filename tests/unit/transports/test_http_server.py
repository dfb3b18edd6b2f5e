"""An HTTP server and its clients, in memory and in virtual time: answers, hang-ups, bounds and ends."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from trio_websocket import wrap_client_stream, wrap_server_stream

from mcpx.errors import LocalProtocolError, leaves
from mcpx.transports.http_connection import DRAINED, LEAST_RATE, LINGER_BYTES, LINGER_TIME
from mcpx.transports.http_incoming import READ_AHEAD, Incoming
from mcpx.transports.http_server import Answer, HttpRequest, HttpResponse
from tests.support.running import in_virtual_time
from tests.unit.transports.http_clients import GET, MAX_BODY, Client, Said, echo, post, serving

if TYPE_CHECKING:
    from mcpx.transports.http_server import Handler

HEAD_TIME, BODY_TIME, IDLE_TIME, WRITE_TIME = 10.0, 60.0, 75.0, 30.0  # the limits when nothing else is said


class Hanging:
    """A handler that never answers, and says when it was begun and cancelled."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.cancelled: list[float] = []

    async def __call__(self, request: HttpRequest, response: HttpResponse) -> None:
        self.begun.set()
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled.append(trio.current_time())


class Streaming:
    """A handler that streams what a test gives it, until it gives nothing."""

    def __init__(self) -> None:
        self.give, self._given = trio.open_memory_channel[bytes](100)
        self.cancelled = False

    async def __call__(self, request: HttpRequest, response: HttpResponse) -> None:
        try:
            await response.open_stream(200, {"Content-Type": "text/event-stream"})
            while data := await self._given.receive():
                await response.write(data)
        except trio.Cancelled:
            self.cancelled = True
            raise


def takes(seconds: float, since: float) -> None:
    assert trio.current_time() - since == pytest.approx(seconds, abs=0.1)  # what dripped in gives it a moment more


# -- answers


@in_virtual_time
async def test_requests_one_after_the_other() -> None:
    async with serving() as server:
        client = server.connect()
        for body in (b"", b"one", b"x" * MAX_BODY):
            await client.send(post(body))
            said = await client.answer()
            assert said == Said(200, {"Content-Length": str(len(body) + 10)}, b"POST /mcp " + body)


@in_virtual_time
async def test_a_request_byte_by_byte() -> None:
    async with serving() as server:
        client = server.connect()
        chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"
        for request, answer in ((post(b"hello"), b"POST /mcp hello"), (chunked, b"POST / abc")):
            for byte in request:
                await client.send(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
            assert (await client.answer()).body == answer


@in_virtual_time
async def test_pipelined_requests_are_answered_in_their_order() -> None:
    handled: list[bytes] = []

    async def slowly(request: HttpRequest, response: HttpResponse) -> None:
        handled.append(request.body)
        await trio.sleep(5 - int(request.body))
        await response.send(200, request.body)

    async with serving(slowly) as server:
        client = server.connect()
        await client.send(post(b"1") + post(b"2")[:20])
        await trio.testing.wait_all_tasks_blocked()
        assert handled == [b"1"]
        await client.send(post(b"2")[20:] + post(b"3"))
        assert [(await client.answer()).body for _ in range(3)] == [b"1", b"2", b"3"]


@in_virtual_time
async def test_crumbs_that_wait_take_no_more_room_than_a_loaf() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    incoming = Incoming(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(incoming.run)
        sent = bytes(number % 251 for number in range(3000))
        for byte in sent:
            await ours.send_all(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert len(incoming._chunks) == 3
        assert incoming.take() == sent
        nursery.cancel_scope.cancel()


@in_virtual_time
async def test_reading_pauses_while_much_waits_and_loses_nothing() -> None:
    go = trio.Event()

    async def first_waits(request: HttpRequest, response: HttpResponse) -> None:
        await go.wait()
        await echo(request, response)

    async with serving(first_waits) as server:
        client = server.connect(lockstep=True)
        many = post(b"x" * 50_000)
        sent = 0

        async def send() -> None:
            nonlocal sent
            await client.send(post(b""))
            for _ in range(10):
                for at in range(0, len(many), 5000):
                    await client.send(many[at : at + 5000])
                    sent += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            assert sent * 5000 <= READ_AHEAD + 10_000
            go.set()
            assert (await client.answer()).body == b"POST /mcp "
            for _ in range(10):
                assert (await client.answer()).body == b"POST /mcp " + b"x" * 50_000


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (202, b"", {"Content-Length": "0"}),
        (204, b"", {}),
        (304, b"", {}),
        (404, b"no", {"X-Own": "é", "Content-Length": "2"}),
        (599, b"", {"Content-Length": "0"}),
    ],
)
@in_virtual_time
async def test_whole_answers(status: int, body: bytes, headers: dict[str, str]) -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        assert not response.started
        await response.send(status, body, {name: value for name, value in headers.items() if name == "X-Own"})
        assert response.started

    async with serving(handler) as server:
        client = server.connect()
        for _ in range(2):
            await client.send(GET)
            assert await client.answer() == Said(status, headers, body)


@in_virtual_time
async def test_a_head_request_gets_no_body() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/stream":
            await response.open_stream()
            await response.write(b"unseen")
        else:
            await response.send(200, b"unseen")

    async with serving(handler) as server:
        client = server.connect()
        await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
        assert (await client.answer(bodiless=True)).headers == {"Content-Length": "6"}
        assert (await client.answer(bodiless=True)).headers == {"Transfer-Encoding": "chunked"}
        assert (await client.answer()).body == b"unseen"


@in_virtual_time
async def test_head_and_chunks_of_a_stream_are_out_at_once() -> None:
    handler = Streaming()
    async with serving(handler) as server:
        client = server.connect()
        await client.send(GET)
        assert "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n" in await client.head()
        for event in (b"a", b"x" * 300_000):
            await handler.give.send(event)
            assert await client.chunk() == event
        await handler.give.send(b"")
        assert await client.chunk() == b""
        await client.send(GET)
        assert "200 OK" in await client.head()
        await handler.give.send(b"")


@in_virtual_time
async def test_an_empty_write_ends_no_stream_and_tasks_may_write_at_once() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await response.open_stream()
        await response.write(b"")
        async with trio.open_nursery() as nursery:
            for letter in (b"a", b"b", b"c"):
                nursery.start_soon(response.write, letter * 100_000)

    async with serving(handler) as server:
        client = server.connect()
        await client.send(GET)
        await client.head()
        got = [chunk async for chunk in client.chunks()]
        assert sorted(got) == [letter * 100_000 for letter in (b"a", b"b", b"c")]


@in_virtual_time
async def test_http_1_0() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/stream":
            await response.open_stream()
            await response.write(b"one")
            await response.write(b"two")
        else:
            await response.send(200, b"whole")

    async with serving(handler) as server:
        client = server.connect()
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await client.answer()).headers == {"Content-Length": "5", "Connection": "keep-alive"}
        await client.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert await client.everything() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonetwo"
        client = server.connect()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert b"Connection: close" in await client.everything()


@in_virtual_time
async def test_connection_close_is_heeded_and_said() -> None:
    async with serving() as server:
        client = server.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET)
        assert (await client.answer()).headers["Connection"] == "close"
        assert await client.everything() == b""


async def breaks_the_rules(handler: Handler) -> str:
    with pytest.RaisesGroup(LocalProtocolError, flatten_subgroups=True) as caught:
        async with serving(handler) as server:
            await server.connect().send(GET)
            await trio.sleep_forever()
    return str(next(leaves(caught.value)))


RULES: dict[str, tuple[Any, str]] = {
    "no answer": (lambda response: None, "did not answer"),
    "two answers": (lambda response: [response.send(200), response.send(200)], "once"),
    "a stream behind an answer": (lambda response: [response.send(200), response.open_stream()], "once"),
    "a write without a stream": (lambda response: [response.write(b"x")], "no stream"),
    "a line break": (lambda response: [response.send(200, b"", {"X": "a\r\nY: b"})], "line break"),
    "a bare line feed": (lambda response: [response.send(200, b"", {"X": "a\nb"})], "line break"),
    "a line break in a name": (lambda response: [response.open_stream(200, {"X\r\n": "a"})], "line break"),
    "no latin": (lambda response: [response.send(200, b"", {"X": "…"})], "no form"),
    "a length of its own": (lambda response: [response.send(200, b"", {"content-length": "7"})], "server itself"),
    "a body that may not be": (lambda response: [response.send(204, b"x")], "no body"),
    "a stream that may not be": (lambda response: [response.open_stream(304)], "no body"),
    "no final answer": (lambda response: [response.send(102)], "no status"),
}


@pytest.mark.parametrize("case", RULES)
@in_virtual_time
async def test_a_handler_that_breaks_the_rules_ends_the_server(case: str) -> None:
    steps, said = RULES[case]

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        todo = steps(response) or []
        try:
            for step in todo:
                await step
        finally:
            for step in todo:
                step.close()

    assert said in await breaks_the_rules(handler)


@pytest.mark.parametrize("error", [ValueError, trio.BrokenResourceError, trio.ClosedResourceError])
@in_virtual_time
async def test_a_bug_in_a_handler_ends_the_server(error: type[Exception]) -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        raise error

    with pytest.RaisesGroup(error, flatten_subgroups=True):
        async with serving(handler) as server:
            await server.connect().send(GET)
            await trio.sleep_forever()


# -- clients that hang up


@pytest.mark.parametrize("with_rest", [b"", b"GET"])
@in_virtual_time
async def test_hanging_up_cancels_at_once(with_rest: bytes) -> None:
    handler = Hanging()
    async with serving(handler) as server:
        client = server.connect()
        await client.send(post(b"x") + with_rest)
        await handler.begun.wait()
        await trio.sleep(1000)
        assert not handler.cancelled
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert handler.cancelled == [trio.current_time()]


@in_virtual_time
async def test_one_whose_hanging_up_is_hidden_behind_what_it_sent_is_noticed_at_the_next_write() -> None:
    """Nobody reads on as long as so much waits; the handler itself need not look at what became of its write."""
    cancelled = trio.Event()

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await response.open_stream()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(beat, response)
                await trio.sleep_forever()
        finally:
            cancelled.set()

    async def beat(response: HttpResponse) -> None:
        with suppress(trio.BrokenResourceError):
            while True:
                await trio.sleep(15)
                await response.write(b":")

    async with serving(handler) as server:
        client = server.connect()
        await client.send(post(b"x") + b"x" * 2 * READ_AHEAD)
        await client.head()
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert not cancelled.is_set()
        with trio.fail_after(16):
            await cancelled.wait()


@in_virtual_time
async def test_a_request_is_begun_though_its_client_has_hung_up() -> None:
    handler = Hanging()
    async with serving(handler) as server:
        client = server.connect()
        await client.send(post(b"x"))
        await client.stream.aclose()
        await handler.begun.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(handler.cancelled) == 1


@in_virtual_time
async def test_a_hundred_abandoned_streams() -> None:
    handler = Streaming()
    gone = 0

    async def counting(request: HttpRequest, response: HttpResponse) -> None:
        nonlocal gone
        try:
            await handler(request, response)
        finally:
            gone += 1

    async with serving(counting, max_connections=2) as server:
        for _ in range(100):
            client = server.connect()
            await client.send(GET)
            await client.head()
            await client.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
        assert gone == 100
        client = server.connect()
        await client.send(GET)
        assert "200 OK" in await client.head()
        await handler.give.send(b"")


@pytest.mark.parametrize("cut", [1, 20, len(GET) - 1, len(post(b"abc")) - 1])
@in_virtual_time
async def test_a_request_that_is_cut_off_is_not_handled(cut: int) -> None:
    handler = Hanging()
    async with serving(handler) as server:
        client = server.connect()
        await client.send((GET if cut < len(GET) else post(b"abc"))[:cut])
        await client.stream.send_eof()
        assert await client.everything() == b""
        assert not handler.begun.is_set()


@in_virtual_time
async def test_a_chunked_body_that_is_cut_off_is_not_handled() -> None:
    handler = Hanging()
    async with serving(handler) as server:
        client = server.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await client.stream.send_eof()
        assert await client.everything() == b""
        assert not handler.begun.is_set()


@in_virtual_time
async def test_what_a_handler_writes_to_a_client_that_has_gone_breaks_nothing_else() -> None:
    broke = trio.Event()

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        await response.open_stream()
        with trio.CancelScope(shield=True):  # the server is told only when the write fails
            try:
                while True:
                    await response.write(b"x")
            except trio.BrokenResourceError:
                broke.set()
                raise

    async with serving(handler) as server:
        client = server.connect()
        await client.send(GET)
        await client.head()
        await client.stream.aclose()
        await broke.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert not server.ended.is_set()


# -- bounds in time


@in_virtual_time
async def test_a_client_that_says_nothing_is_closed_silently() -> None:
    async with serving() as server:
        client = server.connect()
        assert await client.everything() == b""
        takes(IDLE_TIME, since=0)


@in_virtual_time
async def test_a_connection_is_kept_while_it_is_used() -> None:
    async with serving() as server:
        client = server.connect()
        for _ in range(3):
            await trio.sleep(IDLE_TIME - 1)
            await client.send(GET)
            assert (await client.answer()).status == 200
        since = trio.current_time()
        assert await client.everything() == b""
        takes(IDLE_TIME, since)


@in_virtual_time
async def test_a_handler_has_all_the_time() -> None:
    async def slowly(request: HttpRequest, response: HttpResponse) -> None:
        await trio.sleep(10_000)
        await response.open_stream()
        await trio.sleep(10_000)

    async with serving(slowly) as server:
        client = server.connect()
        await client.send(GET)
        assert (await client.answer()).status == 200


@in_virtual_time
async def test_a_head_that_drips() -> None:
    async with serving() as server:
        client = server.connect()
        since = trio.current_time()

        async def drip() -> None:
            for byte in GET:
                await client.send(bytes([byte]))
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            said = await client.answer()
            nursery.cancel_scope.cancel()
        assert said.status == 408
        assert said.headers["Connection"] == "close"
        takes(HEAD_TIME, since)
        assert await client.everything() == b""


@in_virtual_time
async def test_a_body_that_pauses() -> None:
    async with serving() as server:
        client = server.connect()
        request = post(b"x" * 10)
        await client.send(request[:-5])
        await trio.sleep(BODY_TIME - 1)
        await client.send(request[-5:])
        assert (await client.answer()).status == 200
        await client.send(request[:-5])
        since = trio.current_time()
        assert (await client.answer()).status == 408
        takes(BODY_TIME, since)


@pytest.mark.parametrize("chunked", [False, True])
@in_virtual_time
async def test_a_body_that_drips(chunked: bool) -> None:
    async with serving() as server:
        client = server.connect()
        framing = "Transfer-Encoding: chunked" if chunked else "Content-Length: 100000"
        await client.send(f"POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode())
        since = trio.current_time()

        async def drip() -> None:
            while True:
                await trio.sleep(1)
                await client.send(b"1\r\nx\r\n" if chunked else b"x")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            assert (await client.answer()).status == 408
            nursery.cancel_scope.cancel()
        takes(BODY_TIME, since)


@in_virtual_time
async def test_a_large_body_on_a_slow_line_has_its_time() -> None:
    async with serving() as server:
        client = server.connect()
        request = post(b"x" * MAX_BODY)
        for at in range(0, len(request), LEAST_RATE * 30):
            await client.send(request[at : at + LEAST_RATE * 30])
            await trio.sleep(31)
        assert (await client.answer()).status == 200


@pytest.mark.parametrize("stream", [False, True])
@in_virtual_time
async def test_a_client_that_stops_reading_pins_nothing(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcpx.http")
    ended: list[float] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        try:
            if stream:
                await response.open_stream()
                while True:
                    await response.write(b"x" * 1000)
            await response.send(200, b"x" * 1000)
        finally:
            ended.append(trio.current_time())

    async with serving(handler) as server:
        client = server.connect(lockstep=True)
        await client.send(GET)
        since = trio.current_time()
        await trio.sleep(WRITE_TIME - 1)
        assert not ended
        await trio.sleep(1.5)
        assert ended == [pytest.approx(since + WRITE_TIME, abs=0.1)]
    assert [record.message for record in caplog.records] == ["A client did not read: nothing could be written for 30 s"]


@in_virtual_time
async def test_a_client_that_reads_slowly_gets_all() -> None:
    async with serving() as server:
        client = server.connect(lockstep=True)
        body = b"x" * MAX_BODY
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, post(body))
            got = b""
            while len(got) < MAX_BODY:
                await trio.sleep(5)
                got += bytes(await client.stream.receive_some(20_000))
        assert got.endswith(b"x")
        await client.stream.aclose()


# -- bounds in size


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MAX_BODY + 1), 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400),
        (b"\x16\x03\x01\x00\x05hello", 400),
        (b"hello\r\n", 400),
    ],
)
@in_virtual_time
async def test_what_is_refused_is_answered_and_the_connection_ends(data: bytes, status: int) -> None:
    handler = Hanging()
    async with serving(handler) as server:
        client = server.connect()
        await client.send(data)
        said = await client.answer()
        assert said.status == status
        assert said.headers["Connection"] == "close"
        assert said.headers["Content-Type"].startswith("text/plain")
        assert said.body.endswith(b".\n")
        assert await client.everything() == b""
        assert not handler.begun.is_set()


@in_virtual_time
async def test_a_refused_client_that_goes_on_sending_is_heard_out_for_a_while() -> None:
    async with serving(max_connections=1) as server:
        client = server.connect()
        await client.send(post(b"x" * (MAX_BODY + 1)) + b"x" * 1_000_000)
        assert (await client.answer()).status == 413
        since = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"x")  # it has not been closed
        await trio.sleep(LINGER_TIME + 0.1)
        with pytest.raises(trio.BrokenResourceError):
            await client.send(b"x")
        other = server.connect()
        await other.send(post(b"x" * (MAX_BODY + 1)) + b"x" * LINGER_BYTES)
        assert (await other.answer()).status == 413
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await other.send(b"x")
        takes(LINGER_TIME + 0.1, since)


@in_virtual_time
async def test_one_connection_too_many(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(max_connections=2) as server:
        clients = [server.connect() for _ in range(2)]
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            late = server.connect()
            said = await late.answer()
            assert (said.status, said.headers["Connection"]) == (503, "close")
            assert await late.everything() == b""
        assert [record.message for record in caplog.records] == [
            "A host was refused: 2 are connected already (maxConnections)"
        ]
        await clients[0].stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        again = server.connect()
        await again.send(GET)
        assert (await again.answer()).status == 200
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


# -- the check


def forbid(request: HttpRequest) -> Answer | None:
    assert request.body == b""
    return Answer(403, b"no", {"X-Why": "forbidden"}) if request.path != "/allowed" else None


@in_virtual_time
async def test_a_check_refuses_before_the_body() -> None:
    handler = Hanging()
    async with serving(handler, forbid) as server:
        client = server.connect()
        for body in (b"", b"small", b"x" * DRAINED):
            request = post(body)
            head = request[: len(request) - len(body)]
            await client.send(head)
            assert await client.answer() == Said(403, {"X-Why": "forbidden", "Content-Length": "2"}, b"no")
            await client.send(body)
        large = post(b"x" * (DRAINED + 1))
        await client.send(large[:-5])
        assert (await client.answer()).headers["Connection"] == "close"
        assert await client.everything() == b""
        assert not handler.begun.is_set()


@pytest.mark.parametrize(("path", "interim"), [("/allowed", True), ("/forbidden", False)])
@in_virtual_time
async def test_continue_is_said_once_the_head_has_passed(path: str, interim: bool) -> None:
    async with serving(echo, forbid) as server:
        client = server.connect()
        await client.send(
            f"POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n".encode()
        )
        first = await client.answer()
        if interim:
            assert first.status == 100
            await client.send(b"hi")
            assert (await client.answer()).body == b"POST /allowed hi"
        else:
            assert (first.status, first.headers["Connection"]) == (403, "close")


@in_virtual_time
async def test_continue_is_not_said_to_who_did_not_wait() -> None:
    async with serving() as server:
        client = server.connect()
        await client.send(post(b"hi", "Expect: 100-continue"))
        assert (await client.answer()).status == 200


# -- upgrades


@in_virtual_time
async def test_a_connection_is_taken_over_without_losing_a_byte() -> None:
    got: list[bytes] = []
    streams: list[trio.abc.Stream] = []

    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        stream = response.upgrade()
        streams.append(stream)
        await trio.sleep(1)
        while data := bytes(await stream.receive_some(100)):
            assert len(data) <= 100
            got.append(data)
        await stream.send_all(b"bye")

    async with serving(handler) as server:
        client = server.connect()
        head = b"GET /ws?x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        await client.send(head + b"one")
        await trio.sleep(0.5)
        await client.send(b"two")
        await trio.sleep(5)
        await client.send(b"three")
        await client.stream.send_eof()
        assert await client.everything() == b"bye"
    again, _, rest = b"".join(got).partition(b"\r\n\r\n")
    assert again + b"\r\n\r\n" == head.replace(b"Host", b"host").replace(b"Connection", b"connection").replace(
        b"Upgrade:", b"upgrade:"
    )
    assert rest == b"onetwothree"
    with pytest.raises(trio.BrokenResourceError):
        await streams[0].send_all(b"x")


@in_virtual_time
async def test_a_websocket() -> None:
    async def handler(request: HttpRequest, response: HttpResponse) -> None:
        async with trio.open_nursery() as nursery:
            asked = await wrap_server_stream(nursery, response.upgrade())  # type: ignore[arg-type]
            socket = await asked.accept(subprotocol="mcp")
            await socket.send_message(f"{asked.path} {await socket.get_message()}")
            await socket.aclose()

    async with serving(handler) as server, trio.open_nursery() as nursery:
        client = server.connect()
        socket = await wrap_client_stream(nursery, client.stream, "here", "/ws", subprotocols=["mcp"])
        await socket.send_message("hello")
        assert await socket.get_message() == "/ws hello"
        await socket.aclose()


@in_virtual_time
async def test_an_offer_to_upgrade_may_be_left_alone() -> None:
    async with serving() as server:
        client = server.connect()
        await client.send(post(b"hi", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x") + GET)
        assert (await client.answer()).body == b"POST /mcp hi"
        assert (await client.answer()).body == b"GET /mcp "


# -- the end


@in_virtual_time
async def test_stopping_closes_what_is_idle_and_lets_the_rest_finish() -> None:
    go = trio.Event()

    async def waits(request: HttpRequest, response: HttpResponse) -> None:
        if request.path == "/stream":
            await response.open_stream()
        await go.wait()
        if not response.started:
            await response.send(200, request.body)

    async with serving(waits) as server:
        fresh, used, busy, streaming, half = (server.connect() for _ in range(5))
        go.set()
        await used.send(GET)
        await used.answer()
        go = trio.Event()
        await busy.send(post(b"x"))
        await streaming.send(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
        await half.send(post(b"half")[:-2])
        await streaming.head()
        await trio.testing.wait_all_tasks_blocked()
        server.stop.set()
        assert await fresh.everything() == b""
        assert await used.everything() == b""
        assert server.listener.closed
        await half.send(b"lf")
        await trio.sleep(10)
        assert not server.ended.is_set()
        go.set()
        assert await busy.answer() == Said(200, {"Content-Length": "1", "Connection": "close"}, b"x")
        assert await half.answer() == Said(200, {"Content-Length": "4", "Connection": "close"}, b"half")
        assert await streaming.everything() == b"0\r\n\r\n"
        await server.ended.wait()
        takes(10, 0)


@in_virtual_time
async def test_cancelling_ends_everything_at_once() -> None:
    handler = Hanging()
    async with serving(handler) as server:
        clients = [server.connect() for _ in range(4)]
        await clients[1].send(GET)
        await clients[2].send(GET[:10])
        await clients[3].send(post(b"abc")[:-1])
        await handler.begun.wait()
        server.scope.cancel()
        for client in clients:
            assert await client.everything() == b""
        await server.ended.wait()
        assert len(handler.cancelled) == 1


def test_the_client_of_these_tests_tells_an_end_too_soon() -> None:
    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_eof()
        with pytest.raises(AssertionError, match="ended"):
            await Client(ours).head()

    trio.run(main)
