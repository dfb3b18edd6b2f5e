"""A scripted upstream behind HTTP: the same program as on pipes, which a server on this machine reads and writes for.

So what an upstream offers, what it records and what it is held to are the same on every transport. A legacy session
and a stream of HTTP+SSE have a process of their own; modern requests share one.
"""

from __future__ import annotations

import functools
import json
import subprocess
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import trio

from mcpx.spec.headers import MCP_SESSION_ID
from mcpx.spec.meta import PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcpx.spec.revisions import is_modern
from tests.support.audit import upstream_problems
from tests.support.http_up import serving
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.http_up import Asked, Reply
    from tests.support.scripted import Scripted

OF_CALLS = ("notifications/cancelled", "notifications/message")
NO_SESSION = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Bad Request: no session"}}


class Program:
    """A running process of the upstream: messages in, messages out one by one."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._rest = b""
        self._lines: list[bytes] = []
        self._turn = trio.Lock()
        self._asked: dict[Any, trio.MemorySendChannel[dict[str, Any]]] = {}  # by id
        self._calls: list[Any] = []  # ids of those under way
        self._put, self.unasked = trio.open_memory_channel[dict[str, Any]](1000)  # what belongs to no request

    async def tell(self, message: bytes) -> None:
        assert self._process.stdin is not None
        async with self._turn:
            await self._process.stdin.send_all(message.replace(b"\n", b"") + b"\n")

    async def next(self) -> dict[str, Any] | None:
        """The next message; ``None`` once it has ended."""
        assert self._process.stdout is not None
        while not self._lines:
            data = await self._process.stdout.receive_some(1 << 20)
            if not data:
                return None
            *self._lines, self._rest = (self._rest + data).split(b"\n")
        return json.loads(self._lines.pop(0))

    async def route(self) -> None:
        """Read to the end, and give each message to the request that it is about: a question, its withdrawal and a log
        message to the last call.
        """
        while (message := await self.next()) is not None:
            about = message.get("params", {}).get("_meta", {}).get(SUBSCRIPTION_ID)
            if "method" not in message:
                about = message["id"]
            elif self._calls and ("id" in message or message["method"] in OF_CALLS):
                about = self._calls[-1]
            self._asked.get(about, self._put).send_nowait(message)

    @contextmanager
    def called(self, id: Any) -> Iterator[trio.MemoryReceiveChannel[dict[str, Any]]]:
        """The same for a call, which may ask."""
        with self.asked(id) as messages:
            self._calls.append(id)
            try:
                yield messages
            finally:
                self._calls.remove(id)

    @contextmanager
    def asked(self, id: Any) -> Iterator[trio.MemoryReceiveChannel[dict[str, Any]]]:
        """What the program says about one request."""
        self._asked[id], messages = trio.open_memory_channel[dict[str, Any]](1000)
        try:
            yield messages
        finally:
            del self._asked[id]

    async def ask(self, request: bytes) -> dict[str, Any]:
        """The answer to a request, which the program gives at once."""
        with self.asked(json.loads(request)["id"]) as messages:
            await self.tell(request)
            with trio.fail_after(PATIENCE):
                return await messages.receive()

    async def end(self) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        with trio.fail_after(PATIENCE):
            await self._process.wait()


class Front:
    """Streamable HTTP, both eras. Calls are answered by events, everything else by JSON."""

    path = "/mcp"
    routed = True  # whether each message has an HTTP answer of its own to go into

    def __init__(self, upstream: Scripted, nursery: trio.Nursery) -> None:
        self.programs: dict[str, Program] = {}  # of each session that has not ended
        self._modern: Program | None = None
        self._starting = trio.Lock()
        self._upstream = upstream
        self._nursery = nursery
        self._names = (f"s{number}" for number in count(1))

    async def start(self) -> Program:
        run = functools.partial(trio.run_process, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program = Program(await self._nursery.start(run, self._upstream.command))
        if self.routed:
            self._nursery.start_soon(program.route)
        return program

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        session = asked.headers.get(MCP_SESSION_ID)
        if asked.method == "GET" and session in self.programs:
            await reply.events()
            await self._relay(self.programs[session].unasked, asked, reply)
        elif asked.method == "GET":
            await reply.text(405)
        elif asked.method == "DELETE":
            assert session is not None
            await self.programs.pop(session).end()
            await reply.send(200)
        elif asked.kind == "initialize":
            name = next(self._names)
            self.programs[name] = await self.start()
            await reply.json(await self.programs[name].ask(asked.body), headers={"Mcp-Session-Id": name})
        elif session is not None:
            await self._serve(self.programs[session], asked, reply)
        elif PROTOCOL_VERSION in asked.frame.get("params", {}).get("_meta", {}) and self._is_modern():
            async with self._starting:
                self._modern = self._modern or await self.start()
            await self._serve(self._modern, asked, reply)
        else:
            await reply.json(NO_SESSION, 400)

    def _is_modern(self) -> bool:
        return any(is_modern(revision) for revision in self._upstream.revisions)

    async def _serve(self, program: Program, asked: Asked, reply: Reply) -> None:
        if "id" not in asked.frame or "method" not in asked.frame:
            await program.tell(asked.body)
            await reply.send(202)
        elif asked.kind == "tools/call":
            with program.called(asked.frame["id"]) as messages:
                await program.tell(asked.body)
                await reply.events()
                await self._relay(messages, asked, reply)
        elif asked.kind == "subscriptions/listen":
            await self._listen(program, asked, reply)
        else:
            await reply.json(await program.ask(asked.body))

    async def _listen(self, program: Program, asked: Asked, reply: Reply) -> None:
        """Say on the stream what is about it, until either side ends it."""
        number = asked.frame["id"]
        with program.asked(number) as messages:
            await program.tell(asked.body)
            await reply.events()
            await self._relay(messages, asked, reply)
        if not reply.done:
            ended = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            await program.tell(json.dumps(ended).encode())

    async def _relay(self, messages: trio.MemoryReceiveChannel[dict[str, Any]], asked: Asked, reply: Reply) -> None:
        """Say each as an event, until an answer or until the client has gone."""

        async def say_all(scope: trio.CancelScope) -> None:
            async for message in messages:
                await reply.event(message)
                if "method" not in message:
                    await reply.end()
                    scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_all, nursery.cancel_scope)
            await asked.gone.wait()
            nursery.cancel_scope.cancel()


class EventsFront(Front):
    """HTTP+SSE: a process for each stream of events."""

    path = "/sse"
    routed = False

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        if asked.method == "GET" and asked.target == self.path:
            name = next(self._names)
            program = self.programs[name] = await self.start()
            await reply.events()
            await reply.event(f"/messages/{name}".encode(), event="endpoint")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._say_all, program, reply)
                await reply.hang()
                nursery.cancel_scope.cancel()
            await self.programs.pop(name).end()
        elif asked.method == "POST" and asked.target.startswith("/messages/"):
            await self.programs[asked.target.removeprefix("/messages/")].tell(asked.body)
            await reply.send(202)
        else:
            await reply.text(405)

    async def _say_all(self, program: Program, reply: Reply) -> None:
        while (frame := await program.next()) is not None:
            await reply.event(frame)


@asynccontextmanager
async def fronted(upstream: Scripted, kind: type[Front] = Front) -> AsyncIterator[str]:
    """Serve the upstream by HTTP; its URL. What mcpx said to it must break no rule, and every session must be ended."""
    async with trio.open_nursery() as nursery:
        await nursery.start(upstream.serve)
        front = kind(upstream, nursery)
        async with serving(front) as up:
            yield up.url.removesuffix("/mcp") + front.path
            await upstream.changes.until(lambda: not front.programs, "the end of every session")
        nursery.cancel_scope.cancel()
    problems = upstream_problems(upstream)
    assert not problems, "\n".join(problems)
