"""Requests that an HTTP server begins without a task: their answers, landings, hang-ups, bounds and ends."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcpx.transports.http_heads import MAX_KEPT, MAX_SIZE, Heads
from mcpx.transports.http_parse import BadRequest
from mcpx.transports.http_server import Answer, HttpRequest, open_tcp_listeners
from tests.support.running import in_virtual_time
from tests.support.waiting import PATIENCE
from tests.unit.transports.http_clients import GET, Client, post, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.transports.http_server import Aloft, HttpResponse

IDLE_TIME = 75.0  # the limit when nothing else is said
settled = trio.testing.wait_all_tasks_blocked


class Tower:
    """Begins every POST, and leaves what becomes of it to the test."""

    def __init__(self) -> None:
        self.up: list[Aloft] = []
        self.hung_up: list[Aloft] = []
        self.handled: list[bytes] = []

    def begin(self, aloft: Aloft) -> Callable[[], None] | None:
        if aloft.request.method != "POST":
            return None
        self.up.append(aloft)
        return lambda: self.hung_up.append(aloft)

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        self.handled.append(request.body)
        await response.send(200, b"handled")


async def received(client: Client, size: int) -> int:
    """How much has come of a body, up to its size."""
    count = len(client.rest)
    while count < size and (data := await client.stream.receive_some(1 << 20)):
        count += len(data)
    return count


@in_virtual_time
async def test_what_comes_whole_is_answered_by_whoever_has_the_answer() -> None:
    tower = Tower()
    async with serving(tower.handle, begin=tower.begin) as server:
        client = server.connect()
        for number in range(3):
            await client.send(post(b"%d" % number))
            await settled()
            tower.up[-1].answer(200, b"answer", {"X-Number": str(number)})
            said = await client.answer()
            assert (said.status, said.body, said.headers["X-Number"]) == (200, b"answer", str(number))
        assert [one.request.body for one in tower.up] == [b"0", b"1", b"2"]
        await client.send(GET)
        assert (await client.answer()).body == b"handled"
        await client.send(post(b"3")[:-1])
        await settled()
        await client.send(b"3")
        assert (await client.answer()).body == b"handled"  # it came in parts
        assert tower.handled == [b"", b"3"]
    assert tower.hung_up == []


@in_virtual_time
async def test_pipelined_requests_wait_for_the_one_without_a_task() -> None:
    tower = Tower()
    async with serving(tower.handle, begin=tower.begin) as server:
        client = server.connect()
        await client.send(post(b"1"))
        await settled()
        await client.send(post(b"2") + post(b"3"))
        await settled()
        assert tower.handled == []
        tower.up[0].answer(200, b"first")
        assert [(await client.answer()).body for _ in range(3)] == [b"first", b"handled", b"handled"]
        assert tower.handled == [b"2", b"3"]


@in_virtual_time
async def test_a_request_that_lands_is_a_task_which_hanging_up_cancels() -> None:
    tower, cancelled = Tower(), trio.Event()

    async def stay(response: HttpResponse) -> None:
        await response.open_stream(200)
        await response.write(b"more")
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with serving(tower.handle, begin=tower.begin) as server:
        client = server.connect()
        await client.send(post(b"1"))
        await settled()
        tower.up[0].land(stay)
        assert "200 OK" in await client.head()
        assert await client.chunk() == b"more"
        await client.stream.aclose()
        await cancelled.wait()
    assert tower.hung_up == []


@in_virtual_time
async def test_hanging_up_is_told_at_once() -> None:
    tower = Tower()
    async with serving(tower.handle, begin=tower.begin) as server:
        client = server.connect()
        await client.send(post(b"1"))
        await settled()
        await client.stream.aclose()
        await settled()
        assert tower.hung_up == tower.up
        tower.up[0].answer(200, b"too late")


@in_virtual_time
async def test_hanging_up_in_the_moment_of_landing_is_told_or_cancels_the_task() -> None:
    for _ in range(20):  # who of the two is first is left to chance
        tower, cancelled = Tower(), []

        async def landed(response: HttpResponse, cancelled: list[bool] = cancelled) -> None:
            try:
                await trio.sleep_forever()
            finally:
                cancelled.append(True)

        async with serving(tower.handle, begin=tower.begin) as server:
            client = server.connect()
            await client.send(post(b"1"))
            await settled()
            client.stream.send_stream.close()
            tower.up[0].land(landed)
            await settled()
            assert len(tower.hung_up) + len(cancelled) == 1


@in_virtual_time
async def test_the_server_that_is_cut_short_tells_it_as_well() -> None:
    tower = Tower()
    async with serving(tower.handle, begin=tower.begin) as server:
        await server.connect().send(post(b"1"))
        await settled()
        server.scope.cancel()
        await server.ended.wait()
        assert tower.hung_up == tower.up


@in_virtual_time
async def test_a_stop_waits_for_the_answer_which_is_the_last_one() -> None:
    tower = Tower()
    async with serving(tower.handle, begin=tower.begin) as server:
        client, idle = server.connect(), server.connect()
        await client.send(post(b"1"))
        await settled()
        server.stop.set()
        assert await idle.everything() == b""
        await settled()
        assert not server.ended.is_set()
        tower.up[0].answer(200, b"bye")
        said = await client.answer()
        assert (said.body, said.headers["Connection"]) == (b"bye", "close")
        assert await client.everything() == b""
    assert tower.hung_up == []


@in_virtual_time
async def test_the_idle_time_begins_with_the_last_answer_and_not_while_one_is_owed() -> None:
    tower = Tower()
    async with serving(tower.handle, begin=tower.begin) as server:
        client = server.connect()
        for pause in (IDLE_TIME - 1, 0.0):
            await trio.sleep(pause)
            await client.send(post(b"1"))
            await settled()
            tower.up[-1].answer(200, b"one")
            assert (await client.answer()).body == b"one"
        await client.send(post(b"2"))
        await trio.sleep(10 * IDLE_TIME)
        tower.up[-1].answer(200, b"two")
        assert (await client.answer()).body == b"two"
        since = trio.current_time()
        assert await client.everything() == b""
        assert trio.current_time() - since == pytest.approx(IDLE_TIME)


@in_virtual_time
async def test_what_is_refused_or_too_large_is_not_begun() -> None:
    tower = Tower()
    refused: list[str] = []

    def check(request: HttpRequest) -> Answer | None:
        refused.append(request.path)
        return Answer(403, b"no") if "x-refuse" in request.headers else None

    async with serving(tower.handle, check, begin=tower.begin, max_body=10) as server:
        client = server.connect()
        await client.send(post(b"1", "X-Refuse: yes"))
        assert (await client.answer()).status == 403
        assert len(refused) == 1
        await client.send(post(b"x" * 11))
        assert (await client.answer()).status == 413
    assert tower.up == []


def test_a_slow_reader_gets_the_whole_answer_and_has_the_time_of_a_write_for_each_piece() -> None:
    trio.run(answer_slow_readers)


async def answer_slow_readers() -> None:
    tower = Tower()
    body = bytes(8 << 20)  # no socket buffer takes it whole

    async def ask(port: int, data: bytes) -> tuple[Client, Aloft]:
        before = len(tower.up)
        client = Client(await trio.open_tcp_stream("127.0.0.1", port))
        await client.send(post(data))
        while len(tower.up) == before:
            await trio.lowlevel.checkpoint()
        return client, tower.up[-1]

    with trio.fail_after(PATIENCE):
        async with (
            open_tcp_listeners("127.0.0.1", 0) as listeners,
            serving(tower.handle, begin=tower.begin, listeners=listeners, write_time=1.0),
        ):
            port = listeners[0].socket.getsockname()[1]
            reading, first = await ask(port, b"1")
            stuck, second = await ask(port, b"2")
            first.answer(200, body)
            second.answer(200, body)
            assert first.unsent
            assert second.unsent
            await reading.head()
            assert await received(reading, len(body)) == len(body)
            small, third = await ask(port, b"3")
            third.answer(200, b"small")
            assert not third.unsent
            assert (await small.answer()).body == b"small"
            await trio.sleep(1.5)  # longer than the time of a write, for which nothing of it is taken
            with suppress(trio.BrokenResourceError):
                assert await received(stuck, len(body)) < len(body)
            for client in (reading, stuck, small):
                await client.stream.aclose()
    assert tower.hung_up == []


def test_heads_are_known_again_but_for_the_length() -> None:
    heads = Heads(1000)
    first, again = post(b"one", "X-Y: z"), post(b"three", "X-Y: z")
    for data in (first, again, first):
        begun = heads.read(data, "me")
        assert begun is not None
        assert begun.head == heads._read(data, "me").head  # type: ignore[union-attr]
        assert begun.behind == data.partition(b"\r\n\r\n")[2]
    assert len(heads._kept) == 1


def test_heads_that_are_not_kept() -> None:
    heads = Heads(1 << 20)
    for data in (
        GET,
        post(b"", "Expect: 100-continue"),
        post(b"one", f"X-Long: {'x' * MAX_SIZE}"),
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):
        assert heads.read(data, "") is not None
    assert heads.read(post(b"")[:-3], "") is None
    for twice in ("Content-Length: 3", "Transfer-Encoding: chunked"):
        for _ in range(2):
            with pytest.raises(BadRequest):
                heads.read(post(b"one", twice), "")
    assert heads._kept == {}
    for number in range(MAX_KEPT + 10):
        heads.read(post(b"", f"X-Number: {number}"), "")
    assert len(heads._kept) == MAX_KEPT


def test_a_known_head_is_held_to_the_limit() -> None:
    whole = post(b"x" * 9, "A: b")
    heads = Heads(len(whole) - 9)
    assert heads.read(whole, "") is not None
    with pytest.raises(BadRequest):
        heads.read(post(b"x" * 10, "A: b"), "")
