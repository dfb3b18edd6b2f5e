"""A server driven by hand over its pipes: frames out, frames in, no client in between."""

from __future__ import annotations

import functools
import json
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.peers.running import Run

ANSWER_LIMIT = 15.0  # seconds for one answer; the slowest start takes three

HOST = {"name": "raw", "version": "1"}
ENVELOPE = {meta.PROTOCOL_VERSION: LATEST_MODERN, meta.CLIENT_CAPABILITIES: {}, meta.CLIENT_INFO: HOST}


def request(id_: int | str, method: str, **params: Any) -> dict[str, Any]:
    """A request as a legacy host writes it."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def modern(id_: int | str, method: str, **params: Any) -> dict[str, Any]:
    """A request as a modern host writes it."""
    return request(id_, method, _meta=ENVELOPE, **params)


def notification(method: str, **params: Any) -> dict[str, Any]:
    """A notification without an envelope."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


DISCOVER = modern("discover", "server/discover")
INITIALIZE = request("initialize", "initialize", protocolVersion=LATEST_LEGACY, capabilities={}, clientInfo=HOST)
INITIALIZED = notification("notifications/initialized")


class Wire:
    """The pipes of one running server."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.frames: list[Any] = []  # every frame read so far
        self._rest = b""

    async def send(self, *frames: dict[str, Any]) -> None:
        """Write these frames in one piece."""
        assert self.process.stdin
        await self.process.stdin.send_all(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))

    async def answer(self, id_: int | str) -> dict[str, Any]:
        """Read until the answer to ``id_`` has come."""
        assert self.process.stdout
        with trio.fail_after(ANSWER_LIMIT):
            while True:
                found = [frame for frame in self.frames if frame.get("id") == id_ and "method" not in frame]
                if found:
                    return found[0]
                chunk = await self.process.stdout.receive_some()
                assert chunk, f"the server ended; it had written {self.frames}"
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                self.frames += [json.loads(line) for line in lines]

    async def rest(self) -> list[Any]:
        """Close the server's stdin and wait for its end; what it still wrote."""
        assert self.process.stdin
        assert self.process.stdout
        await self.process.stdin.aclose()
        before = len(self.frames)
        with trio.fail_after(ANSWER_LIMIT):
            async for chunk in self.process.stdout:
                self._rest += chunk
            await self.process.wait()
        self.frames += [json.loads(line) for line in self._rest.split(b"\n") if line]
        return self.frames[before:]


@asynccontextmanager
async def open_wire(run: Run, command: list[str], **env: str) -> AsyncIterator[Wire]:
    """Start a server and drive it; it is killed on leaving if it has not ended by itself."""
    async with run.clearing(), trio.open_nursery() as nursery:
        start = functools.partial(
            trio.run_process,
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            env={**run.env, **env},
            cwd=run.home,
        )
        process = await nursery.start(start)
        yield Wire(process)
        process.kill()
