"""Servers behind a WebSocket on this machine: scripted ones, and apps. What they were asked can be looked at."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest, serve_websocket

from mcpx.transports.memory import memory_channel_pair
from tests.unit.upstream.fakes import FakeServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from mcpx.transports.channel import Channel

    Script = Callable[[FakeServer], Awaitable[None]]
    Attend = Callable[[WebSocketRequest], Awaitable[None]]


class Port:
    """Where WebSockets are accepted."""

    def __init__(self, tls: bool) -> None:
        self.number = 0
        self.requests: list[WebSocketRequest] = []
        self.sockets: list[WebSocketConnection] = []
        self._scheme = "wss" if tls else "ws"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.number}/mcp"


@asynccontextmanager
async def listening(
    attend: Callable[[Port, WebSocketRequest], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Port]:
    """A WebSocket server on a free port; ``attend`` has every request."""
    port = Port(tls is not None)

    async def take(request: WebSocketRequest) -> None:
        port.requests.append(request)
        await attend(port, request)

    async with trio.open_nursery() as nursery:
        serve = partial(serve_websocket, take, "127.0.0.1", 0, tls, max_message_size=1 << 24, disconnect_timeout=1)
        server = await nursery.start(serve)
        port.number = server.port
        yield port
        nursery.cancel_scope.cancel()


def playing(*scripts: Script, subprotocol: str | None = "mcp") -> Callable[[Port, WebSocketRequest], Awaitable[None]]:
    """Each connection plays a script to its end, which is the connection's; the last one plays for all that follow."""
    left = list(scripts)

    async def attend(port: Port, request: WebSocketRequest) -> None:
        script = left.pop(0) if len(left) > 1 else left[0]
        socket = await request.accept(subprotocol=subprotocol)
        port.sockets.append(socket)
        ours, theirs = memory_channel_pair()
        async with trio.open_nursery() as nursery:

            async def play() -> None:
                await script(FakeServer(theirs))
                await theirs.flush()
                theirs.close()

            nursery.start_soon(play)
            await pump(socket, ours)
            nursery.cancel_scope.cancel()  # who asks has gone

    return attend


def serving(
    open_channel: Callable[[], AbstractAsyncContextManager[Channel]],
) -> Callable[[Port, WebSocketRequest], Awaitable[None]]:
    """Each connection gets a server of its own that is reached over a channel, as an app is."""

    async def attend(port: Port, request: WebSocketRequest) -> None:
        socket = await request.accept(subprotocol="mcp")
        port.sockets.append(socket)
        async with open_channel() as channel:
            await pump(socket, channel)

    return attend


async def pump(socket: WebSocketConnection, channel: Channel) -> None:
    """Carry messages both ways until either end is over."""
    async with trio.open_nursery() as nursery:

        async def outwards() -> None:
            while messages := await channel.receive():
                for message in messages:
                    assert isinstance(message, bytes)
                    await socket.send_message(message.decode())
            nursery.cancel_scope.cancel()

        nursery.start_soon(outwards)
        try:
            while True:
                message = await socket.get_message()
                assert isinstance(message, str)
                channel.send_nowait(message.encode())
        except ConnectionClosed:
            nursery.cancel_scope.cancel()
