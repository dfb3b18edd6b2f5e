"""A relay on Trio that has HTTP, by h11, on one of its sides or on both.

    python bare_http.py PORT stdio COMMAND ...    hosts by HTTP, a program
    python bare_http.py PORT http TARGET          hosts by HTTP, a server at a port
    python bare_http.py - http TARGET             a host on its own pipes, a server at a port

Each request is a task; what is written to a pipe goes in one write with all that is due by then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import h11
import trio
from msgspec import UnsetType
from renumbering import Id, Lines, Numbers, decode, encode  # beside this script

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK = 256 * 1024
JSON = (b"content-type", b"application/json")
Headers = list[tuple[bytes, bytes]]


@dataclass
class Reply:
    """What came of a POST."""

    status: int
    headers: Headers  # those that are MCP's own
    body: bytes


class Back(Protocol):
    """The side of the upstream."""

    async def ask(self, frame: bytes, headers: Headers) -> Reply:
        """Hand a frame on, and wait for what it gets."""
        ...


class Writer:
    """The writing end of a pipe that many tasks have lines for."""

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self._stream = stream
        self._due: list[bytes] = []
        self._some = trio.Event()

    def put(self, line: bytes) -> None:
        self._due.append(line)
        self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            self._some = trio.Event()
            due, self._due = self._due, []
            await self._stream.send_all(b"\n".join([*due, b""]))


class Awaited:
    """A request whose answer has not come."""

    def __init__(self, id: Id) -> None:
        self.id = id
        self.answered = trio.Event()
        self.answer = b""


class Program:
    """An upstream on pipes."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._writer = Writer(process.stdin)
        self._stdout = process.stdout
        self._awaited: dict[Id, Awaited] = {}
        self._next = 0

    async def run(self) -> None:
        lines = Lines()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._writer.run)
            while chunk := await self._stdout.receive_some(CHUNK):
                for line in lines.feed(bytes(chunk)):
                    self._take(line)
            nursery.cancel_scope.cancel()

    def _take(self, line: bytes) -> None:
        frame = decode(line)
        assert not isinstance(frame.id, UnsetType)
        awaited = self._awaited.pop(frame.id)
        frame.id = awaited.id
        awaited.answer = encode(frame)
        awaited.answered.set()

    async def ask(self, frame: bytes, headers: Headers) -> Reply:
        said = decode(frame)
        if isinstance(said.id, UnsetType):
            self._writer.put(encode(said))
            return Reply(202, [], b"")
        self._next += 1
        awaited = self._awaited[self._next] = Awaited(said.id)
        said.id = self._next
        self._writer.put(encode(said))
        await awaited.answered.wait()
        return Reply(200, [], awaited.answer)


class Client:
    """One connection to an upstream at a port."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)

    async def post(self, body: bytes, headers: Headers) -> Reply:
        every = [(b"host", b"127.0.0.1"), JSON, (b"accept", b"application/json, text/event-stream"), *headers]
        request = h11.Request(method=b"POST", target=b"/mcp", headers=[*every, (b"content-length", b"%d" % len(body))])
        events: list[h11.Event] = [request, h11.Data(data=body), h11.EndOfMessage()]
        await self._stream.send_all(b"".join(self._http.send(event) or b"" for event in events))
        reply = Reply(0, [], b"")
        parts: list[bytes] = []
        while True:
            match await _next_event(self._http, self._stream):
                case h11.Response() as head:
                    reply.status, reply.headers = head.status_code, _of_mcp(head.headers)
                case h11.Data() as data:
                    parts.append(bytes(data.data))
                case _:
                    break
        self._http.start_next_cycle()
        reply.body = b"".join(parts)
        return reply


class Port:
    """An upstream at a port, by as many connections as it takes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[Client] = []
        self._numbers = Numbers()

    async def ask(self, frame: bytes, headers: Headers) -> Reply:
        client = self._idle.pop() if self._idle else Client(await trio.open_tcp_stream("127.0.0.1", self._port))
        reply = await client.post(self._numbers.there(frame), headers)
        self._idle.append(client)
        if reply.body:
            reply.body = self._numbers.back(reply.body)
        return reply


async def serve_connection(back: Back, stream: trio.SocketStream) -> None:
    """One connection of a host's."""
    http = h11.Connection(h11.SERVER)
    async with stream:
        while isinstance(request := await _next_event(http, stream), h11.Request):
            parts: list[bytes] = []
            while isinstance(data := await _next_event(http, stream), h11.Data):
                parts.append(bytes(data.data))
            if request.method == b"POST":
                reply = await back.ask(b"".join(parts), _of_mcp(request.headers))
            else:
                reply = Reply(405, [], b"")
            headers = [JSON, *reply.headers, (b"content-length", b"%d" % len(reply.body))]
            head = h11.Response(status_code=reply.status, headers=headers)
            events: list[h11.Event] = [head, h11.Data(data=reply.body), h11.EndOfMessage()]
            await stream.send_all(b"".join(http.send(event) or b"" for event in events))
            http.start_next_cycle()


async def serve_pipes(back: Back) -> None:
    """A host on this process's own pipes. What the upstream says of a session is told with every request after it."""
    stdin, stdout = (trio.lowlevel.FdStream(os.dup(number)) for number in (0, 1))
    lines, writer = Lines(), Writer(stdout)
    session: Headers = []

    async def relay(line: bytes) -> None:
        reply = await back.ask(line, session)
        if reply.headers:
            session[:] = reply.headers
        if reply.body:
            writer.put(reply.body.rstrip())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        async with trio.open_nursery() as requests:
            while chunk := await stdin.receive_some(CHUNK):
                for line in lines.feed(bytes(chunk)):
                    requests.start_soon(relay, line)
        nursery.cancel_scope.cancel()


async def _next_event(http: h11.Connection, stream: trio.SocketStream) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await stream.receive_some(CHUNK))
    return event


def _of_mcp(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    return [(name, value) for name, value in headers if name.startswith(b"mcp-")]


async def main(front: str, kind: str, rest: list[str]) -> None:
    async with trio.open_nursery() as nursery:
        if kind == "stdio":
            process = await trio.lowlevel.open_process(rest, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            back: Back = (program := Program(process))
            nursery.start_soon(program.run)
        else:
            back = Port(int(rest[0]))
        if front == "-":
            await serve_pipes(back)
            nursery.cancel_scope.cancel()
        else:
            await trio.serve_tcp(partial(serve_connection, back), int(front), host="127.0.0.1")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])
