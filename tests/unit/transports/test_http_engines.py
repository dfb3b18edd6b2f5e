"""The direct way to an HTTP server where TLS, large bodies, odd headers or the client's own end come into play."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.transports.http_client import HttpClient, HttpClients
from tests.support.certificate import make_certificate, server_context
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Act = Callable[[trio.abc.Stream], Awaitable[None]]
    Connect = Callable[[Act], AbstractAsyncContextManager[HttpClient]]

SECRET = "very-secret-token"
LARGE = b"x" * (20 << 20)  # more than any socket takes without a reader
HEAD_END = b"\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def read_until(stream: trio.abc.Stream, end: bytes) -> bytes:
    heard = b""
    while end not in heard:
        data = await stream.receive_some()
        assert data, "the client has gone"
        heard += data
    return heard


@pytest.fixture(params=["http", "https"])
def connected(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Opens a client of a server whose every connection a function attends, without TLS and with it."""
    tls = None
    if request.param == "https":
        certificate = make_certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        tls = server_context(certificate)

    @asynccontextmanager
    async def connect(act: Act) -> AsyncIterator[HttpClient]:
        async def serve(plain: trio.SocketStream) -> None:
            stream: trio.abc.Stream = plain
            if tls is not None:
                stream = trio.SSLStream(plain, tls, server_side=True, https_compatible=True)
            try:
                await act(stream)
            except trio.BrokenResourceError:
                pass
            finally:
                await trio.aclose_forcefully(stream)

        async with trio.open_nursery() as nursery:
            [listener] = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), serve, 0)
            url = f"{request.param}://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
            async with HttpClients({}).lease(url, {"Authorization": SECRET}) as client:
                with trio.fail_after(PATIENCE):
                    yield client
            nursery.cancel_scope.cancel()

    return connect


async def test_a_connection_is_used_again(connected: Connect) -> None:
    connections: list[int] = []

    async def act(stream: trio.abc.Stream) -> None:
        connections.append(0)
        while True:
            await read_until(stream, b"{}")
            connections[-1] += 1
            await stream.send_all(OK)

    async with connected(act) as client:
        for _ in range(5):
            async with client.open_answer("POST", {}, b"{}") as answer:
                assert await answer.read(10) == b"ok"
    assert connections == [5]


async def test_an_answer_that_came_whole_keeps_its_connection_though_nobody_read_it(
    connected: Connect,
) -> None:
    connections: list[int] = []

    async def act(stream: trio.abc.Stream) -> None:
        connections.append(0)
        while True:
            await read_until(stream, HEAD_END)
            connections[-1] += 1
            await stream.send_all(OK)

    async with connected(act) as client:
        for _ in range(3):
            async with client.open_answer("DELETE", {}) as answer:
                assert answer.status == 200
    assert connections == [3]


async def test_a_body_is_refused_before_it_was_read(connected: Connect) -> None:
    connections: list[bool] = []

    async def act(stream: trio.abc.Stream) -> None:
        connections.append(True)
        await read_until(stream, HEAD_END)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await trio.sleep_forever()

    sent: list[bool] = []
    async with connected(act) as client:
        for _ in range(2):
            async with client.open_answer("POST", {}, LARGE, sent=lambda: sent.append(True)) as answer:
                assert (answer.status, await answer.read(10)) == (413, b"big")
    assert len(connections) == 2  # what a request was cut off on is never used again
    assert sent == []


async def test_a_body_is_sent_whole_though_the_answer_has_begun(
    connected: Connect,
) -> None:
    async def act(stream: trio.abc.Stream) -> None:
        heard = await read_until(stream, HEAD_END)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        size = len(heard.partition(HEAD_END)[2])
        while size < len(LARGE):
            size += len(await stream.receive_some())
        await stream.send_all(b"8\r\n%8d\r\n0\r\n\r\n" % size)
        await trio.sleep_forever()

    sent: list[bool] = []
    async with (
        connected(act) as client,
        client.open_answer("POST", {}, LARGE, sent=lambda: sent.append(True)) as answer,
    ):
        assert sent == [True]
        assert await answer.read(10) == b"%8d" % len(LARGE)


async def test_a_large_request_that_is_cancelled_closes_its_connection(
    connected: Connect,
) -> None:
    began, ended = trio.Event(), trio.Event()

    async def act(stream: trio.abc.Stream) -> None:
        await read_until(stream, HEAD_END)
        began.set()
        try:
            await trio.testing.wait_all_tasks_blocked()
            while await stream.receive_some():
                pass
        finally:
            ended.set()

    async with connected(act) as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            async with client.open_answer("POST", {}, LARGE):
                pass

        nursery.start_soon(ask)
        await began.wait()
        nursery.cancel_scope.cancel()
    with trio.fail_after(PATIENCE):
        await ended.wait()


async def test_a_client_that_is_closed_breaks_what_is_under_way(
    connected: Connect,
) -> None:
    async def act(stream: trio.abc.Stream) -> None:
        await read_until(stream, HEAD_END)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await trio.sleep_forever()

    async with connected(act) as client, client.open_answer("GET", {}) as answer:
        assert await answer.receive_some() == b"a"
        async with trio.open_nursery() as nursery:

            async def read_on() -> None:
                with pytest.raises(BrokenAnswer, match="in the middle of the answer"):
                    await answer.receive_some()

            nursery.start_soon(read_on)
            await trio.testing.wait_all_tasks_blocked()
            await client.aclose()


@pytest.mark.parametrize(
    "headers",
    [{"X": f"{SECRET}\r\nY: z"}, {"X": f"{SECRET}\n"}, {"X": f"a\0{SECRET}"}, {"X\r\nY": SECRET}, {"X ": SECRET}],
)
async def test_a_header_that_would_be_two_is_never_sent(connected: Connect, headers: dict[str, str]) -> None:
    attended: list[bool] = []

    async def act(stream: trio.abc.Stream) -> None:
        attended.append(True)

    async with connected(act) as client:
        with pytest.raises(ConnectError, match="cannot be said in HTTP; look at its headers") as caught:
            async with client.open_answer("POST", headers, b"{}"):
                pass
    assert SECRET not in str(caught.value)
    assert attended == []
