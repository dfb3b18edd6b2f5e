"""Peers over HTTP: servers on the SDKs that listen on this machine, and mcpx that does."""

from __future__ import annotations

import functools
import json
import queue
import re
import signal
import subprocess
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from mcpx.spec.revisions import LATEST_MODERN
from tests.peers.raw import modern
from tests.peers.running import HOSTS
from tests.support.http_wire import JSON, wired
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.peers.running import Run
    from tests.support.http_wire import Wire

START_LIMIT = 30.0  # seconds until a server or mcpx listens; the slowest takes two
END_LIMIT = 5.0 + BUSY  # seconds from SIGTERM to the end of mcpx: its budget when it serves HTTP
SERVER_END_LIMIT = 10.0  # seconds that a server has to end by itself; each needs less than one

# A host of ``HOSTS``, and how it comes: by Streamable HTTP or by HTTP+SSE.
HTTP_HOSTS = {
    "py1": ("py1", "http"),
    "py1-sse": ("py1", "sse"),
    "py2-legacy": ("py2-legacy", "http"),
    "py2-auto": ("py2-auto", "http"),
    "py2-modern": ("py2-modern", "http"),
    "ts2-legacy": ("ts2-legacy", "http"),
    "ts2-auto": ("ts2-auto", "http"),
    "ts2-modern": ("ts2-modern", "http"),
    "ts1-32": ("ts1-32", "http"),
    "ts1-32-sse": ("ts1-32", "sse"),
    "ts1-22": ("ts1-22", "http"),
    "ts1-22-sse": ("ts1-22", "sse"),
}

LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:(\d+))/mcp")


@dataclass
class Site:
    """mcpx that serves HTTP."""

    url: str
    port: int
    process: trio.Process
    log: bytearray

    def address(self, over: str) -> str:
        """Where a host finds it: by Streamable HTTP (``http``) or by HTTP+SSE (``sse``)."""
        return f"{self.url}/{'sse' if over == 'sse' else 'mcp'}"

    async def ask(self, path: str, **headers: str) -> Any:
        """What it tells at a path of ``/v1``."""
        async with wired(self.port) as wire:
            return (await wire.ask("GET", path, **headers)).json

    @asynccontextmanager
    async def calling(self, tool: str, **arguments: Any) -> AsyncIterator[Wire]:
        """A connection on which a modern host has called this tool; on leaving it hangs up."""
        async with wired(self.port) as wire:
            frame = modern(1, "tools/call", name=tool, arguments=arguments)
            said = {"MCP-Protocol-Version": LATEST_MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}
            await wire.send("POST", "/mcp", json.dumps(frame).encode(), {**JSON, **said})
            yield wire

    async def stop(self) -> None:
        """End it as a person would. It must do so in time, with status 0."""
        self.process.send_signal(signal.SIGTERM)
        with trio.move_on_after(END_LIMIT):
            assert await self.process.wait() == 0
            return
        raise AssertionError(f"mcpx has not ended within {END_LIMIT} s of SIGTERM")


@asynccontextmanager
async def serving(run: Run, command: list[str], **env: str) -> AsyncIterator[Site]:
    """Run this command of mcpx with ``--http`` on a free port; on leaving it is ended, if it has not ended before.

    Its log is ``run.log`` afterwards.
    """
    log = bytearray()
    listening = trio.Event()

    async def read(process: trio.Process) -> None:
        assert process.stderr
        async for data in process.stderr:
            log.extend(data)
            if LISTENING.search(log.decode(errors="replace")):
                listening.set()

    place = command.index("serve") + 1
    start = functools.partial(
        trio.run_process,
        [*command[:place], "--http", "127.0.0.1:0", *command[place:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
        env={**run.env, **env},
        cwd=run.home,
    )
    try:
        async with trio.open_nursery() as nursery:
            process = await nursery.start(start)
            nursery.start_soon(read, process)
            try:
                with trio.fail_after(START_LIMIT):
                    await listening.wait()
                found = LISTENING.search(log.decode())
                assert found
                site = Site(found[1], int(found[2]), process, log)
                yield site
                if process.returncode is None:
                    await site.stop()
            except BaseException:
                process.kill()
                raise
    finally:
        run.log = log.decode(errors="replace")
        print(f"--- log of mcpx\n{run.log}")


@contextmanager
def listening(run: Run, command: list[str], **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server that prints where it listens; on leaving it is ended by SIGTERM, and may take its time.

    It is not one of the processes that a host may not leave behind.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**run.env, "HOME": str(run.home.parent), **env},
        cwd=run.home,
    )
    addresses: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                if line.startswith("http://"):
                    addresses.put(line.strip())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield process, addresses.get(timeout=START_LIMIT)
    finally:
        process.terminate()
        try:
            process.wait(SERVER_END_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()


async def answer(wire: Wire) -> dict[str, Any]:
    """The answer to a call, as JSON or at the end of a stream of events."""
    head = await wire.head()
    if head.headers["content-type"].startswith("application/json"):
        body = b""
        while (chunk := await wire.chunk()) is not None:
            body += chunk
        return json.loads(body)
    while (event := await wire.event()) is not None:
        frame = json.loads(event.data)
        if "id" in frame:
            return frame
    raise AssertionError("the stream ended without an answer")


def command_of(run: Run, name: str, site: Site | str, **plan: Any) -> list[str]:
    """The command of a host of ``HTTP_HOSTS`` that comes to this mcpx, or this URL, and goes by the plan."""
    host, over = HTTP_HOSTS[name]
    program, mode, sdk = HOSTS[host]
    url = site if isinstance(site, str) else site.address(over)
    arguments = {"mode": mode, "sdk": sdk, "url": url, "over": over, **plan}
    return run.program(program, json.dumps(arguments))


async def visit(run: Run, name: str, site: Site | str, **plan: Any) -> dict[str, Any]:
    """Let a host of ``HTTP_HOSTS`` go by the plan; its report."""
    return json.loads(await run.output(command_of(run, name, site, **plan)))
