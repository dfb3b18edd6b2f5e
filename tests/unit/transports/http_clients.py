"""An HTTP server under test, in memory or at an address, and clients that say exactly what a test says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
import trio.testing

from mcpx.transports.http_server import Answer, HttpLimits, HttpRequest, HttpResponse, serve_http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcpx.transports.http_server import Begin, Check, Handler

MAX_BODY = 200_000
GET = b"GET /mcp HTTP/1.1\r\nHost: here\r\n\r\n"


def post(body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in (f"Content-Length: {len(body)}", *headers))
    return f"POST /mcp HTTP/1.1\r\nHost: here\r\n{lines}\r\n".encode() + body


class Said(NamedTuple):
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One end of a connection."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.rest = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, *, bodiless: bool = False) -> Said:
        """The next answer."""
        head = await self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
        status = int(first.split()[1])
        if bodiless or status in (100, 204, 304):
            return Said(status, headers, b"")
        if headers.get("Transfer-Encoding") == "chunked":
            return Said(status, headers, b"".join([chunk async for chunk in self.chunks()]))
        return Said(status, headers, await self._exactly(int(headers["Content-Length"])))

    async def head(self) -> str:
        return (await self._until(b"\r\n\r\n")).decode("latin-1")

    async def chunk(self) -> bytes:
        """The next chunk; empty for the last one."""
        size = int(await self._until(b"\r\n"), 16)
        return (await self._exactly(size + 2))[:-2]

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunk():
            yield chunk

    async def everything(self) -> bytes:
        """What comes until the connection ends."""
        while data := bytes(await self.stream.receive_some(65536)):
            self.rest += data
        return self.rest

    async def _until(self, end: bytes) -> bytes:
        while end not in self.rest:
            await self._more()
        found, _, self.rest = self.rest.partition(end)
        return found + end

    async def _exactly(self, size: int) -> bytes:
        while len(self.rest) < size:
            await self._more()
        found, self.rest = self.rest[:size], self.rest[size:]
        return found

    async def _more(self) -> None:
        data = bytes(await self.stream.receive_some(65536))
        assert data, f"the connection ended behind {self.rest!r}"
        self.rest += data


class MemoryListener(trio.abc.Listener[Any]):
    """Hands out connections in memory."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Any](1000)
        self.closed = False

    def connect(self, *, lockstep: bool = False) -> Client:
        make = trio.testing.lockstep_stream_pair if lockstep else trio.testing.memory_stream_pair
        ours, theirs = make()
        self._send.send_nowait(theirs)
        return Client(ours)

    async def accept(self) -> Any:
        return await self._receive.receive()

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


class Server:
    """What a test knows of the server."""

    def __init__(self, listener: MemoryListener) -> None:
        self.listener = listener
        self.connect = listener.connect
        self.stop = trio.Event()
        self.ended = trio.Event()
        self.scope = trio.CancelScope()


def nothing_against(request: HttpRequest) -> Answer | None:
    return None


async def echo(request: HttpRequest, response: HttpResponse) -> None:
    """Answer with what was asked."""
    await response.send(200, f"{request.method} {request.path} ".encode() + request.body)


@asynccontextmanager
async def serving(
    handler: Handler = echo,
    check: Check = nothing_against,
    *,
    listeners: Sequence[Any] = (),
    begin: Begin | None = None,
    **limits: Any,
) -> AsyncIterator[Server]:
    """A server in memory, or at the ``listeners``; on leaving it is stopped, and is to end by itself."""
    server = Server(MemoryListener())
    bounds = HttpLimits(**{"max_body": MAX_BODY, "max_connections": 10, **limits})
    places = listeners or [server.listener]

    async def serve(*, task_status: trio.TaskStatus[None]) -> None:
        with server.scope:
            await serve_http(places, check, handler, bounds, stop=server.stop, begin=begin, task_status=task_status)
        server.ended.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield server
        server.stop.set()
        await server.ended.wait()
    assert listeners or server.listener.closed
