"""Hosts on a WebSocket: how one is opened, what is no message, and how it ends. A real port."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS, is_modern
from mcpx.transports.http_server import server_tls
from mcpx.upstream.call import Change, Progress
from tests.support.certificate import make_certificate
from tests.support.waiting import PATIENCE
from tests.unit.host.http.serving import serving, until, ws_host
from tests.unit.host.talk import FakeGateway, raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.host.http.serving import Served

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = '{"jsonrpc":"2.0","id":1,"result":{}}'
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@asynccontextmanager
async def opened(served: Served, *protocols: str) -> AsyncIterator[WebSocketConnection]:
    """The library's own client."""
    stream = await trio.open_tcp_stream("127.0.0.1", served.port)
    try:
        async with trio.open_nursery() as nursery:
            yield await wrap_client_stream(
                nursery, stream, "localhost", "/ws", subprotocols=protocols, max_message_size=1 << 24
            )
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


async def end_of(socket: WebSocketConnection) -> int:
    """The code with which the other end closes."""

    async def read() -> None:
        while True:
            await socket.get_message()

    with trio.fail_after(PATIENCE), pytest.raises(ConnectionClosed) as caught:
        await read()
    assert caught.value.reason is not None
    return caught.value.reason.code


@pytest.mark.parametrize(
    ("offered", "agreed"), [((), None), (("mcp",), "mcp"), (("other", "mcp"), "mcp"), (("other",), None)]
)
async def test_the_subprotocol_is_agreed_where_it_is_offered(offered: tuple[str, ...], agreed: str | None) -> None:
    async with serving(FakeGateway()) as served, opened(served, *offered) as socket:
        assert socket.subprotocol == agreed
        await socket.send_message(PING)
        assert await socket.get_message() == PONG


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Upgrade": None, "Connection": None}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Version": None}, 426),
        ({"Connection": "keep-alive"}, 400),
        ({"Sec-WebSocket-Key": None}, 400),
        ({"Sec-WebSocket-Key": "c2hvcnQ="}, 400),
        ({"Sec-WebSocket-Key": "no base64 at all!"}, 400),
    ],
)
async def test_what_opens_none(changes: dict[str, str | None], status: int) -> None:
    async with serving(FakeGateway()) as served, served.wired() as wire:
        said = {name: value for name, value in {**HANDSHAKE, **changes}.items() if value is not None}
        await wire.send("GET", "/ws", headers=said)
        reply = await wire.answer()
        assert reply.status == status
        if status == 426:
            assert reply.headers["upgrade"] == "websocket"
            assert reply.headers["sec-websocket-version"] == "13"
        assert (await wire.ask("GET", "/v1/health")).status == 200


async def test_what_came_right_behind_the_handshake_is_heard() -> None:
    async with serving(FakeGateway()) as served, served.wired() as wire:
        head = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
        masked = bytes([0x81, 0x80 | len(PING), 0, 0, 0, 0]) + PING.encode()
        await wire.stream.send_all(f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode() + masked)
        said = b""
        with trio.fail_after(PATIENCE):
            while not said.endswith(PONG.encode()):
                said += bytes(await wire.stream.receive_some())
        assert said.startswith(b"HTTP/1.1 101 ")


async def test_over_tls(tmp_path: Path) -> None:
    path = make_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(path))
    async with (
        serving(FakeGateway(), tls=server_tls(str(path), str(path))) as served,
        served.wired(tls=trusting) as wire,
        trio.open_nursery() as nursery,
    ):
        socket = await wrap_client_stream(nursery, wire.stream, "localhost", "/ws", subprotocols=["mcp"])
        await socket.send_message(PING)
        assert await socket.get_message() == PONG
        served.ending.stop.set()
        assert await end_of(socket) == 1001
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_host_of_any_revision(revision: str) -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, ws_host(served) as talk:
        if not is_modern(revision):
            assert (await talk.shake(revision))["protocolVersion"] == revision
        await talk.call(7, revision if is_modern(revision) else None, progressToken="p")
        await until(lambda: gateway.calls)
        gateway.calls[0].put(Progress({"progress": raw(1)}))
        assert (await talk.hear())["params"] == {"progressToken": "p", "progress": 1}
        gateway.calls[0].reply()
        assert (await talk.hear())["result"]["content"]
        [conversation] = served.service.conversations
        assert (conversation.host, conversation.transport) == ("websocket 1", "websocket")


async def test_changes_are_said_unasked() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, ws_host(served) as talk:
        await talk.shake(LATEST_LEGACY)
        await until(lambda: gateway.watching)
        gateway.change(Change("one", "tools"))
        assert (await talk.hear())["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("politely", [True, False])
async def test_a_host_that_leaves_ends_its_calls_and_no_others(politely: bool) -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, ws_host(served) as stays:
        await stays.call(7, LATEST_MODERN)
        await until(lambda: len(gateway.calls) == 1)
        async with opened(served) as leaves:
            await leaves.send_message('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}')
            await until(lambda: len(gateway.calls) == 2)
            if politely:
                await leaves.aclose()
        await until(lambda: gateway.calls[1].state == "cancelled")
        assert gateway.calls[0].state == "open"
        gateway.calls[0].reply()
        assert (await stays.hear())["result"]["content"]


async def test_a_binary_message_is_none() -> None:
    async with serving(FakeGateway()) as served, opened(served) as socket:
        await socket.send_message(PING.encode())
        assert await end_of(socket) == 1003


async def test_a_message_over_the_limit_ends_the_connection() -> None:
    async with serving(FakeGateway(max_frame=2000)) as served, opened(served) as socket:
        await socket.send_message("x" * 2001)
        assert await end_of(socket) == 1009


async def test_one_that_is_over_it_in_bytes_alone_is_refused() -> None:
    async with serving(FakeGateway(max_frame=2000)) as served, opened(served) as socket:
        await socket.send_message('{"jsonrpc":"2.0","id":1,"method":"' + "\u00e9" * 1500 + '"}')
        assert "over the limit" in str(await socket.get_message())


@pytest.mark.parametrize("message", ["no json", "[]", '{"jsonrpc":"2.0","id":9}', "\u0000"])
async def test_what_is_no_message_is_answered_and_no_more(message: str) -> None:
    async with serving(FakeGateway()) as served, opened(served) as socket:
        await socket.send_message(message)
        await socket.send_message(PING)
        said = [str(await socket.get_message())]
        while said[-1] != PONG:
            said.append(str(await socket.get_message()))
        assert len(said) <= 2


async def test_at_the_end_it_is_closed_as_going_away() -> None:
    async with serving(FakeGateway()) as served, opened(served) as socket:
        await socket.send_message(PING)
        assert await socket.get_message() == PONG
        served.ending.stop.set()
        assert await end_of(socket) == 1001


async def test_a_quiet_connection_is_pinged_and_a_deaf_one_given_up() -> None:
    gateway = FakeGateway(keep_alive=0.05, write_time=0.2)
    async with serving(gateway) as served, opened(served) as quiet, served.wired() as deaf:
        head = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
        await deaf.stream.send_all(f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        said = b""
        with trio.fail_after(PATIENCE):  # it reads, but answers no ping
            try:
                while data := bytes(await deaf.stream.receive_some()):
                    said += data
            except trio.BrokenResourceError:
                pass
        assert b"\x89\x04" in said  # a ping with four bytes
        await quiet.send_message(PING)
        assert await quiet.get_message() == PONG


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x81\x05hello", b"\x83\x80\0\0\0\0", b"\x81\xfe"])
async def test_frames_that_make_no_sense_end_the_connection_and_nothing_else(garbage: bytes) -> None:
    async with serving(FakeGateway()) as served, opened(served) as other:
        async with served.wired() as wire:
            head = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
            await wire.stream.send_all(f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode() + garbage)
            assert bytes(await wire.stream.receive_some()).startswith(b"HTTP/1.1 101 ")
        await until(lambda: len(served.service.conversations) == 1)
        await other.send_message(PING)
        assert await other.get_message() == PONG


async def test_a_hundred_connections_that_are_abandoned_leave_nothing() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served:
        for _ in range(100):
            async with opened(served) as socket:
                await socket.send_message(PING)
        await until(lambda: not served.service.conversations)
        assert not gateway.watching


async def test_a_host_that_reads_nothing_holds_up_itself_alone() -> None:
    gateway = FakeGateway(write_time=1.0)
    async with serving(gateway) as served, served.wired() as deaf, opened(served) as other:
        head = "".join(f"{name}: {value}\r\n" for name, value in HANDSHAKE.items())
        await deaf.stream.send_all(f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        message = ('{"jsonrpc":"2.0","id":1,"method":"' + "x" * 60_000 + '"}').encode()
        frame = bytes([0x81, 0x80 | 126]) + len(message).to_bytes(2) + bytes(4) + message
        await until(lambda: len(served.service.conversations) == 2)

        async def flood(stream: Any) -> None:
            try:
                while True:
                    await stream.send_all(frame)
            except trio.BrokenResourceError:
                return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, deaf.stream)
            for _ in range(3):
                await other.send_message(PING)
                assert await other.get_message() == PONG
            with trio.fail_after(PATIENCE):  # it is given up
                await until(lambda: len(served.service.conversations) == 1)
            nursery.cancel_scope.cancel()
