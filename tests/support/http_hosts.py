"""``mcpx serve --http`` as a process, and hosts that come to it in each of its ways."""

from __future__ import annotations

import json
import re
import signal
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import h11
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from mcpx.spec.headers import MCP_SESSION_ID, NAMED
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, VERSION_HEADER
from tests.support.fake_down import Host
from tests.support.http_wire import JSON, Wire, wired
from tests.support.scripted import TOOL
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

HELD: dict[str, Any] = {  # of an upstream: what it offers, one call of which it holds until it is told
    "tools": [TOOL, {**TOOL, "name": "held"}],
    "calls": {"held": [{"hold": "it"}, {"answer": True}]},
}
CALL: dict[str, Any] = {"name": "one__held", "arguments": {}}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

_META = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}, CLIENT_INFO: {"name": "poster", "version": "4"}}
POSTED = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**CALL, "_meta": _META}}
_POST_HEADERS = {"MCP-Protocol-Version": LATEST_MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "one__held"}
SHAKE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "session", "version": "5"},
    },
}

_LISTENING = re.compile(r"listening on https?://\S+:(\d+)/mcp")


class Site(NamedTuple):
    """A process that serves HTTP. ``process`` is a host that says nothing: it has its log, signals and end."""

    process: Host
    port: int

    def wired(self, **how: Any) -> Any:
        """A connection to it."""
        return wired(self.port, **how)

    async def stop(self) -> int:
        """End it as a person would; its exit status."""
        self.process.signal(signal.SIGTERM)
        return await self.process.wait()


@asynccontextmanager
async def serving_http(
    stage: Stage, *upstreams: Scripted, args: tuple[str, ...] = (), address: str = "127.0.0.1:0", **how: Any
) -> AsyncIterator[Site]:
    """Run ``mcpx serve --http`` in front of these upstreams; see ``Stage.mcpx`` for what is checked afterwards.

    On leaving it is ended by SIGTERM, where it has not ended before.
    """
    async with stage.mcpx(*upstreams, args=["--http", address, *args], **how) as process:
        await process.logged("listening on http")
        found = _LISTENING.search(process.log)
        assert found is not None
        site = Site(process, int(found[1]))
        yield site
        if process.process.returncode is None:
            await site.stop()
    assert process.received == []  # stdout is not used


class _Lines:
    """Messages as lines, which is how ``Host`` takes and gives them."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], receive: Callable[[], Awaitable[bytes | None]]
    ) -> None:
        self._send = send
        self._receive = receive

    async def send_all(self, data: bytes) -> None:
        for line in data.splitlines():
            await self._send(line)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        message = await self._receive()
        return b"" if message is None else message + b"\n"


@asynccontextmanager
async def _host(lines: _Lines) -> AsyncIterator[Host]:
    """A host over these; on leaving, what it was sent must break no rule."""
    host = Host(cast("trio.Process", SimpleNamespace(stdin=lines, stdout=lines, stderr=None)))

    async def read() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await host.read()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            yield host
        finally:
            nursery.cancel_scope.cancel()
    problems = host.audit()
    assert not problems, problems


@asynccontextmanager
async def sse_stream(site: Site) -> AsyncIterator[tuple[Wire, str]]:
    """A stream of events that has been opened, and the endpoint that it named first."""
    async with site.wired() as wire:
        await wire.send("GET", "/sse", headers={"Accept": "text/event-stream"})
        assert (await wire.head()).status == 200
        first = await wire.event()
        assert first is not None
        assert first.event == "endpoint"
        yield wire, first.data.decode()


@asynccontextmanager
async def sse_host(site: Site) -> AsyncIterator[Host]:
    """A host by HTTP with events; on leaving it goes at once."""
    async with sse_stream(site) as (stream, endpoint):

        async def send(message: bytes) -> None:
            async with site.wired() as wire:
                assert (await wire.post(endpoint, message)).status == 202

        async def receive() -> bytes | None:
            try:
                event = await stream.event()
            except h11.RemoteProtocolError as error:  # cut off, which is no end
                raise trio.BrokenResourceError from error
            return None if event is None else event.data

        async with _host(_Lines(send, receive)) as host:
            yield host


@asynccontextmanager
async def http_host(site: Site) -> AsyncIterator[Host]:
    """A host by Streamable HTTP, of any revision: each message is a POST of its own, and in a legacy session what is
    said unasked comes by a GET. On leaving the session is ended.
    """
    tell, told = trio.open_memory_channel[bytes](1000)
    session: dict[str, str] = {}

    async def take(wire: Wire) -> None:
        head = await wire.head()
        if head.headers.get("content-type", "").startswith("text/event-stream"):
            while (event := await wire.event()) is not None:
                tell.send_nowait(event.data)
            return
        body = b""
        while (chunk := await wire.chunk()) is not None:
            body += chunk
        if MCP_SESSION_ID in head.headers:
            session["Mcp-Session-Id"] = head.headers[MCP_SESSION_ID]
            revision = json.loads(body)["result"]["protocolVersion"]
            session.update({"MCP-Protocol-Version": revision} if revision in VERSION_HEADER else {})
        tell.send_nowait(body)

    async def ask(message: bytes, headers: dict[str, str]) -> None:
        async with site.wired() as wire:
            await wire.send("POST", "/mcp", message, {**JSON, **headers})
            await take(wire)

    async def listen() -> None:
        async with site.wired() as wire:
            await wire.send("GET", "/mcp", headers={"Accept": "text/event-stream", **session})
            await take(wire)

    async with trio.open_nursery() as nursery:

        async def send(message: bytes) -> None:
            frame = json.loads(message)
            if "id" in frame and "method" in frame:
                nursery.start_soon(ask, message, {**session, **_modern_headers(frame)})
                return
            async with site.wired() as wire:
                assert (await wire.post("/mcp", message, **session)).status == 202
            if frame.get("method") == "notifications/initialized":
                nursery.start_soon(listen)

        async with _host(_Lines(send, told.receive)) as host:
            yield host
        nursery.cancel_scope.cancel()
    if session:
        async with site.wired() as wire:
            assert (await wire.ask("DELETE", "/mcp", **session)).status in (200, 204)


def _modern_headers(frame: dict[str, Any]) -> dict[str, str]:
    """What a modern request says in its headers too; nothing for a legacy one."""
    params = frame.get("params", {})
    version = params.get("_meta", {}).get(PROTOCOL_VERSION)
    if version is None:
        return {}
    named = NAMED.get(frame["method"])
    name = {} if named is None else {"Mcp-Name": params[named]}
    return {"MCP-Protocol-Version": version, "Mcp-Method": frame["method"], **name}


@asynccontextmanager
async def ws_socket(site: Site) -> AsyncIterator[WebSocketConnection]:
    """A WebSocket, of another implementation than ours as far as there is one; on leaving it goes at once."""
    stream = await trio.open_tcp_stream("127.0.0.1", site.port)
    try:
        async with trio.open_nursery() as nursery:
            yield await wrap_client_stream(nursery, stream, f"127.0.0.1:{site.port}", "/ws", subprotocols=["mcp"])
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def ws_host(site: Site) -> AsyncIterator[Host]:
    """A host on a WebSocket; on leaving it goes at once."""
    async with ws_socket(site) as socket:

        async def send(message: bytes) -> None:
            await socket.send_message(message.decode())

        async def receive() -> bytes | None:
            try:
                message = await socket.get_message()
            except ConnectionClosed:
                return None
            assert isinstance(message, str)
            return message.encode()

        async with _host(_Lines(send, receive)) as host:
            yield host


async def post_call(wire: Wire, **headers: str) -> None:
    """Send ``CALL`` as a modern host does, whose answer is to be read."""
    await wire.send("POST", "/mcp", json.dumps(POSTED).encode(), {**JSON, **_POST_HEADERS, **headers})


async def open_session(wire: Wire) -> dict[str, str]:
    """Open a legacy session; the headers of its requests."""
    reply = await wire.post("/mcp", SHAKE)
    assert reply.json["result"]["protocolVersion"] == LATEST_LEGACY
    said = {"Mcp-Session-Id": reply.headers["mcp-session-id"], "MCP-Protocol-Version": LATEST_LEGACY}
    assert (await wire.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **said)).status == 202
    return said


async def status_of(wire: Wire) -> Any:
    """What ``/v1/status`` says."""
    return (await wire.ask("GET", "/v1/status")).json


async def until_quiet(wire: Wire) -> Any:
    """Ask for status until nobody is connected any more; the last one."""
    with trio.fail_after(PATIENCE):
        while (said := await status_of(wire))["hosts"]:
            pass
    return said
