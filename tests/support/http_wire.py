"""The client's end of an HTTP connection, for tests that say just what they want and look at just what comes."""

from __future__ import annotations

import json
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import h11
import trio

from mcpx.wire.sse import SseDecoder

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from mcpx.wire.sse import Event

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Reply(NamedTuple):
    """An answer. ``body`` is empty for one that is still to be read."""

    status: int
    headers: dict[str, str]  # by lower-case name
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection. Requests go one after the other."""

    def __init__(self, stream: trio.abc.Stream, host: str) -> None:
        self.stream = stream
        self.host = host
        self.comments = 0  # seen on streams of events
        self._http = h11.Connection(h11.CLIENT)
        self._decoder = SseDecoder(1 << 24)
        self._events: deque[Event] = deque()

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        """A request and its whole answer. ``headers`` are spelled with underscores."""
        await self.send(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return await self.answer()

    async def post(self, path: str, frame: Any, **headers: str) -> Reply:
        """The same for a message."""
        body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        await self.send("POST", path, body, {**JSON, **{name.replace("_", "-"): one for name, one in headers.items()}})
        return await self.answer()

    async def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """A request alone."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        said = {"Host": self.host, **(headers or {})}
        if body or method == "POST":
            said["Content-Length"] = str(len(body))
        data = self._http.send(h11.Request(method=method, target=path, headers=list(said.items())))
        data += self._http.send(h11.Data(data=body)) if body else b""
        data += self._http.send(h11.EndOfMessage())
        await self.stream.send_all(data)

    async def head(self) -> Reply:
        """The head of the answer."""
        event = await self._next()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next()
        assert isinstance(event, h11.Response), event
        return Reply(event.status_code, {name.decode(): value.decode() for name, value in event.headers})

    async def chunk(self) -> bytes | None:
        """More of the body; ``None`` at its proper end. One that is cut off raises ``h11.RemoteProtocolError``."""
        event = await self._next()
        if isinstance(event, h11.EndOfMessage):
            return None
        assert isinstance(event, h11.Data), event
        return bytes(event.data)

    async def answer(self) -> Reply:
        """The whole answer."""
        head = await self.head()
        body = b""
        while (chunk := await self.chunk()) is not None:
            body += chunk
        return head._replace(body=body)

    async def event(self) -> Event | None:
        """The next event of a stream of them that has a type or data; ``None`` at the proper end of the stream."""
        while not self._events:
            chunk = await self.chunk()
            if chunk is None:
                return None
            self.comments += sum(line.startswith(b":") for line in chunk.splitlines())
            self._events.extend(event for event in self._decoder.feed(chunk) if event.data)
        return self._events.popleft()

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self.stream.receive_some(1 << 16)))
        return event


@asynccontextmanager
async def wired(port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """A connection to a port of this machine; on leaving it is gone at once."""
    stream: trio.abc.Stream = await trio.open_tcp_stream(host, port)
    if tls is not None:
        stream = trio.SSLStream(stream, tls, server_hostname="localhost", https_compatible=True)
    try:
        yield Wire(stream, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    finally:
        await trio.aclose_forcefully(stream)
