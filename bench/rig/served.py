"""mcpx as a process that serves HTTP in front of the noisy server, and hosts that listen to it."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from rig.machine import require_linux
from rig.process import open_running

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

START_LIMIT = 30.0
REVISIONS = {"modern": LATEST_MODERN, "legacy": LATEST_LEGACY}
URI = "mcpx://noisy/noise://one"
_META = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}, CLIENT_INFO: {"name": "bench", "version": "1"}}
_NOISY = Path(__file__).parent / "upstreams" / "noisy.py"
_LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:(\d+)/mcp")


class Mcpx(NamedTuple):
    """The process, and where it listens."""

    pid: int
    port: int


@asynccontextmanager
async def serving(era: str, **limits: Any) -> AsyncGenerator[Mcpx]:
    """mcpx in front of the noisy server of an era, with a configuration of its own."""
    require_linux()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mcpx.json"
        noisy = {"command": sys.executable, "args": [str(_NOISY), era, REVISIONS[era]]}
        config.write_text(json.dumps({"mcpServers": {"noisy": noisy}, "limits": limits}))
        command = [sys.executable, "-m", "mcpx", "serve", "--http", "127.0.0.1:0", "--config", str(config)]
        async with open_running(command, stdin=subprocess.DEVNULL, stdout=None, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            log = bytearray()
            with trio.fail_after(START_LIMIT):
                while not (found := _LISTENING.search(log)):
                    data = await process.stderr.receive_some()
                    if not data:
                        sys.exit(f"mcpx did not start:\n{log.decode()}")
                    log += data
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, process.stderr)
                yield Mcpx(process.pid, int(found[1]))
                nursery.cancel_scope.cancel()


async def _drain(stream: trio.abc.ReceiveStream) -> None:
    """Read on, so that it never waits for someone to hear what it logs."""
    async for _ in stream:
        pass


class Stream:
    """An answer that is a stream of events, or one JSON message: its frames, one at a time."""

    def __init__(self, socket: trio.SocketStream) -> None:
        self._socket = socket
        self._held = bytearray()
        self.headers = b""

    async def open(self) -> None:
        """Read the head."""
        while b"\r\n\r\n" not in self._held:
            await self._more()
        self.headers, _, rest = bytes(self._held).partition(b"\r\n\r\n")
        if self.headers.split()[1] not in (b"200", b"202"):
            sys.exit(f"mcpx answered {self.headers.decode()}\n{rest.decode()}")
        self._held = bytearray(rest)

    async def next(self) -> dict[str, Any]:
        """The next frame. mcpx puts each event into one chunk, and an answer in JSON into one line."""
        while True:
            line, newline, rest = bytes(self._held).partition(b"\n")
            if not newline:
                if line.startswith(b"{") and b"Content-Length" in self.headers.replace(b"content-", b"Content-"):
                    try:
                        return json.loads(line)
                    except ValueError:
                        pass  # not all of it yet
                await self._more()
                continue
            self._held = bytearray(rest)
            text = line.strip().removeprefix(b"data:").strip()
            if text.startswith(b"{"):
                return json.loads(text)

    async def _more(self) -> None:
        data = await self._socket.receive_some()
        if not data:
            raise trio.BrokenResourceError("mcpx ended the stream")
        self._held += data


class Host:
    """A host of one era, each of whose requests has a connection of its own."""

    def __init__(self, mcpx: Mcpx, era: str) -> None:
        self._mcpx = mcpx
        self._modern = era == "modern"
        self._session: dict[str, str] = {}
        self._ids = itertools.count(1)

    async def enter(self) -> None:
        """Shake hands, where its era does."""
        if self._modern:
            return
        params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        async with self._post({"id": next(self._ids), "method": "initialize", "params": params}) as stream:
            await stream.next()
            found = re.search(rb"(?i)mcp-session-id: *(\S+)", stream.headers)
            assert found is not None
            self._session = {"Mcp-Session-Id": found[1].decode(), "MCP-Protocol-Version": LATEST_LEGACY}
        async with self._post({"method": "notifications/initialized"}):
            pass

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        async with self._post({"id": next(self._ids), "method": method, "params": params}) as stream:
            while True:
                frame = await stream.next()
                if "id" in frame:
                    return frame["result"]

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[Stream]:
        """A stream of changes of the tools and of one resource, open."""
        if self._modern:
            asked = {"toolsListChanged": True, "resourceSubscriptions": [URI]}
            request = {"id": next(self._ids), "method": "subscriptions/listen", "params": {"notifications": asked}}
            async with self._post(request) as stream:
                told = await stream.next()
                if told["params"]["notifications"] != asked:
                    sys.exit(f"mcpx does not deliver all: {told}")
                yield stream
            return
        async with self._send("GET", b"") as stream:
            await self.ask("resources/subscribe", uri=URI)
            yield stream

    @asynccontextmanager
    async def _post(self, frame: dict[str, Any]) -> AsyncGenerator[Stream]:
        headers = {"Content-Type": "application/json"}
        if self._modern:
            frame = {**frame, "params": {**frame.get("params", {}), "_meta": _META}}
            headers |= {"MCP-Protocol-Version": LATEST_MODERN, "Mcp-Method": frame["method"]}
            if name := frame["params"].get("name"):
                headers["Mcp-Name"] = name
        async with self._send("POST", json.dumps({"jsonrpc": "2.0", **frame}).encode(), **headers) as stream:
            yield stream

    @asynccontextmanager
    async def _send(self, verb: str, body: bytes, **headers: str) -> AsyncGenerator[Stream]:
        socket = await trio.open_tcp_stream("127.0.0.1", self._mcpx.port)
        async with socket:
            lines = {
                "Host": "127.0.0.1",
                "Accept": "application/json, text/event-stream",
                "Content-Length": str(len(body)),
                **self._session,
                **headers,
            }
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            await socket.send_all(f"{verb} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
            stream = Stream(socket)
            await stream.open()
            yield stream
