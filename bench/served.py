"""mcpx as a process that serves HTTP, what it costs by the system's own account, and hosts that listen to it."""

from __future__ import annotations

import functools
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from mcpx import __version__
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

START_LIMIT = 30.0
REVISIONS = {"modern": LATEST_MODERN, "legacy": LATEST_LEGACY}
URI = "mcpx://noisy/noise://one"
_META = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}, CLIENT_INFO: {"name": "bench", "version": "1"}}
_HERE = Path(__file__).parent
_LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:(\d+)/mcp")
_TICKS = os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """What the figures were measured on, in a line."""
    return (
        f"mcpx {__version__}, {platform.python_implementation()} {platform.python_version()}, trio {trio.__version__}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[0]:.2f} before the run"
    )


class Mcpx:
    """The process."""

    def __init__(self, pid: int, port: int) -> None:
        self.port = port
        self._folder = Path(f"/proc/{pid}")

    def memory(self, what: str = "VmRSS") -> float:
        """MiB that it has now, or with ``VmHWM`` has had at most."""
        found = re.search(rf"{what}:\s+(\d+) kB", (self._folder / "status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def forget_peak(self) -> None:
        """Let the most memory be counted from now on."""
        (self._folder / "clear_refs").write_text("5")

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@asynccontextmanager
async def serving(era: str, **limits: Any) -> AsyncGenerator[Mcpx]:
    """mcpx in front of the noisy server of an era, with a configuration of its own."""
    if sys.platform != "linux":
        sys.exit("This benchmark reads /proc, which only Linux has.")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mcpx.json"
        noisy = {"command": sys.executable, "args": [str(_HERE / "noisy.py"), era, REVISIONS[era]]}
        config.write_text(json.dumps({"mcpServers": {"noisy": noisy}, "limits": limits}))
        command = [sys.executable, "-m", "mcpx", "serve", "--http", "127.0.0.1:0", "--config", str(config)]
        log = bytearray()
        listening = trio.Event()

        async def read(process: trio.Process) -> None:
            assert process.stderr is not None
            async for data in process.stderr:
                log.extend(data)
                if _LISTENING.search(log):
                    listening.set()

        async with trio.open_nursery() as nursery:
            run = functools.partial(trio.run_process, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            process: trio.Process = await nursery.start(run, command)
            nursery.start_soon(read, process)
            try:
                with trio.fail_after(START_LIMIT):
                    await listening.wait()
                found = _LISTENING.search(log)
                assert found is not None
                yield Mcpx(process.pid, int(found[1]))
            finally:
                process.terminate()


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
    async def listening(self) -> AsyncIterator[Stream]:
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
    async def _post(self, frame: dict[str, Any]) -> AsyncIterator[Stream]:
        headers = {"Content-Type": "application/json"}
        if self._modern:
            frame = {**frame, "params": {**frame.get("params", {}), "_meta": _META}}
            headers |= {"MCP-Protocol-Version": LATEST_MODERN, "Mcp-Method": frame["method"]}
            if name := frame["params"].get("name"):
                headers["Mcp-Name"] = name
        async with self._send("POST", json.dumps({"jsonrpc": "2.0", **frame}).encode(), **headers) as stream:
            yield stream

    @asynccontextmanager
    async def _send(self, verb: str, body: bytes, **headers: str) -> AsyncIterator[Stream]:
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
