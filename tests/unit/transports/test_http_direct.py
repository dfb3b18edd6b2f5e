"""Connections to HTTP servers that do not behave: what is taken for an answer, and what is never sent twice."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from mcpx.errors import BrokenAnswer
from mcpx.transports.http_client import HttpClient, HttpClients
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Raw:
    """A server that a test writes byte by byte; ``heard`` is what each of its connections was sent."""

    def __init__(self) -> None:
        self.heard: list[bytearray] = []
        self.ended: list[trio.Event] = []

    async def until(self, stream: trio.SocketStream, number: int, end: bytes) -> None:
        while end not in self.heard[number]:
            self.heard[number] += await stream.receive_some()


@asynccontextmanager
async def raw_server(
    act: Callable[[Raw, trio.SocketStream, int], Awaitable[None]],
) -> AsyncIterator[tuple[Raw, HttpClient]]:
    """``act`` serves one connection, which is closed when it returns."""
    server = Raw()

    async def serve(stream: trio.SocketStream) -> None:
        number = len(server.heard)
        server.heard.append(bytearray())
        server.ended.append(trio.Event())
        async with stream:
            with suppress(trio.BrokenResourceError):
                await act(server, stream, number)
        server.ended[number].set()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), serve, 0)
        port = listener.socket.getsockname()[1]
        async with HttpClients({}).lease(f"http://127.0.0.1:{port}/mcp", {}) as client:
            with trio.fail_after(PATIENCE):
                yield server, client
        nursery.cancel_scope.cancel()


async def ask(client: HttpClient, body: bytes = b"{}") -> tuple[int, bytes | None]:
    async with client.open_answer("POST", {"Content-Type": "application/json"}, body) as answer:
        return answer.status, await answer.read(1 << 20)


async def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    async def once(server: Raw, stream: trio.SocketStream, number: int) -> None:
        await server.until(stream, number, b"\r\n\r\n{}")
        await stream.send_all(OK)

    async with raw_server(once) as (server, client):
        for number in range(5):
            assert await ask(client) == (200, b"ok")
            await server.ended[number].wait()
        assert [heard.count(b"POST") for heard in server.heard] == [1] * 5


async def test_what_a_server_says_unasked_on_a_kept_connection_is_no_answer() -> None:
    told = trio.Event()

    async def chatty(server: Raw, stream: trio.SocketStream, number: int) -> None:
        await server.until(stream, number, b"\r\n\r\n{}")
        await stream.send_all(OK)
        if number == 0:
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
            told.set()
        await trio.sleep_forever()

    async with raw_server(chatty) as (server, client):
        assert await ask(client) == (200, b"ok")
        await told.wait()
        assert await ask(client) == (200, b"ok")
        assert len(server.heard) == 2


async def test_a_request_that_is_lost_on_a_kept_connection_is_not_sent_a_second_time() -> None:
    async def dies(server: Raw, stream: trio.SocketStream, number: int) -> None:
        await server.until(stream, number, b"\r\n\r\n{}")
        await stream.send_all(OK)
        await server.until(stream, number, b"second")

    async with raw_server(dies) as (server, client):
        assert await ask(client) == (200, b"ok")
        with pytest.raises(BrokenAnswer, match="closed the connection without an answer"):
            await ask(client, b"second")
        assert len(server.heard) == 1


async def test_an_answer_before_the_request_was_read_is_taken() -> None:
    async def hasty(server: Raw, stream: trio.SocketStream, number: int) -> None:
        await server.until(stream, number, b"\r\n\r\n")
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
        await trio.sleep_forever()  # and reads no more

    async with raw_server(hasty) as (_, client):
        assert await ask(client, b"x" * (20 << 20)) == (413, b"big")


async def test_many_at_once_have_a_connection_each_and_their_own_answers() -> None:
    everybody = trio.Event()

    async def echo(server: Raw, stream: trio.SocketStream, number: int) -> None:
        await server.until(stream, number, b"!")
        if len(server.heard) == 64:
            everybody.set()
        await everybody.wait()
        said = bytes(server.heard[number]).rpartition(b"\r\n\r\n")[2]
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
        await trio.sleep_forever()

    found: dict[int, tuple[int, bytes | None]] = {}
    async with raw_server(echo) as (server, client):

        async def one(number: int) -> None:
            found[number] = await ask(client, b"%d!" % number)

        async with trio.open_nursery() as nursery:
            for number in range(64):
                nursery.start_soon(one, number)
        assert found == {number: (200, b"%d!" % number) for number in range(64)}
        assert len(server.heard) == 64


async def test_a_stream_is_handed_out_as_it_comes() -> None:
    more = trio.Event()

    async def slow(server: Raw, stream: trio.SocketStream, number: int) -> None:
        await server.until(stream, number, b"\r\n\r\n{}")
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n")
        await more.wait()
        await stream.send_all(b"2\r\n\n\n\r\n0\r\n\r\n")
        await trio.sleep_forever()

    async with raw_server(slow) as (_, client), client.open_answer("POST", {}, b"{}") as answer:
        assert await answer.receive_some() == b"data: "
        more.set()
        assert await answer.receive_some() == b"\n\n"
        assert await answer.receive_some() == b""
        assert await answer.receive_some() == b""
