"""A scripted HTTP server on this machine, which answers exactly what a test tells it, and remembers what it was asked.

A script is a function of one request and of the means to answer it. What mcpx posted is held against the rules
(``HttpAudit``) when the server ends, whatever the test is about.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import h11
import trio

from mcpx.spec.headers import MCP_PROTOCOL_VERSION, MCP_SESSION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, is_modern
from mcpx.wire.sse import encode_event
from tests.support.http_audit import Frame, HttpAudit
from tests.support.waiting import Changes

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable


class Asked:
    """One HTTP request as it came."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes, connection: int) -> None:
        self.method = method
        self.target = target
        self.headers = headers  # names in small letters
        self.body = body
        self.connection = connection  # the number of the connection that it came on
        self.at = trio.current_time()
        self.gone = trio.Event()  # the client has closed the connection
        self.gone_at: float | None = None

    @property
    def frame(self) -> Frame:
        """The JSON-RPC message in it."""
        return json.loads(self.body)

    @property
    def rpc(self) -> str | None:
        """The method of that message; ``None`` for an answer, or where there is none."""
        try:
            return self.frame.get("method")
        except ValueError:
            return None

    @property
    def kind(self) -> str:
        """What a test looks for: the JSON-RPC method of a POST, and the HTTP method of anything else."""
        return self.method if self.method != "POST" else self.rpc or "(answer)"


class Reply:
    """The means to answer one request."""

    def __init__(self, connection: h11.Connection, stream: trio.abc.Stream, asked: Asked, audit: HttpAudit) -> None:
        self._connection = connection
        self._stream = stream
        self._asked = asked
        self._audit = audit
        self.done = False

    async def send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """A whole answer."""
        all_headers = {"Content-Length": str(len(body)), **(headers or {})}
        await self._write(h11.Response(status_code=status, headers=list(all_headers.items())))
        if body:
            await self._write(h11.Data(data=body))
        await self._write(h11.EndOfMessage())
        self.done = True

    async def json(self, frame: Frame, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """An answer that is one message."""
        self._audit.answered(self._asked, frame, headers or {})
        await self.send(status, json.dumps(frame).encode(), {"Content-Type": "application/json", **(headers or {})})

    async def result(self, result: Any, headers: dict[str, str] | None = None) -> None:
        """A result for the request."""
        await self.json({"jsonrpc": "2.0", "id": self._asked.frame["id"], "result": result}, headers=headers)

    async def error(self, code: int, message: str = "no", *, status: int = 200, id: Any = ..., **data: Any) -> None:
        """An error for the request; ``id`` other than its own."""
        error = {"code": code, "message": message, **({"data": data} if data else {})}
        number = self._asked.frame["id"] if id is ... else id
        await self.json({"jsonrpc": "2.0", "id": number, "error": error}, status)

    async def text(self, status: int, text: str = "", content_type: str = "text/plain") -> None:
        await self.send(status, text.encode(), {"Content-Type": content_type})

    async def events(self, headers: dict[str, str] | None = None) -> None:
        """Begin a stream of events."""
        found = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
        await self._write(h11.Response(status_code=200, headers=list(found.items())))

    async def event(self, frame: Frame | bytes, **fields: Any) -> None:
        """One event of it."""
        if isinstance(frame, dict):
            self._audit.answered(self._asked, frame, {})
            frame = json.dumps(frame).encode()
        await self.write(encode_event(frame, **fields))

    async def write(self, data: bytes) -> None:
        await self._write(h11.Data(data=data))

    async def end(self) -> None:
        """End the stream properly."""
        await self._write(h11.EndOfMessage())
        self.done = True

    async def cut(self) -> None:
        """Close the connection in the middle."""
        self.done = True
        await trio.aclose_forcefully(self._stream)
        raise _Cut

    async def hang(self) -> None:
        """Do nothing until the client has gone."""
        await self._asked.gone.wait()

    async def _write(self, event: Any) -> None:
        await self._stream.send_all(self._connection.send(event) or b"")


class _Cut(Exception):
    pass


class HttpUp:
    """The server, over all of its connections."""

    def __init__(self, script: Callable[[Asked, Reply], Awaitable[None]], scheme: str) -> None:
        self.script = script  # may be changed while it runs
        self.asked: list[Asked] = []
        self.changes = Changes()
        self.audit = HttpAudit()
        self.audited = True
        self.port = 0
        self._scheme = scheme
        self._connections = count(1)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/mcp"

    def of(self, kind: str) -> list[Asked]:
        """The requests of a kind."""
        return [one for one in self.asked if one.kind == kind]

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.asked]

    async def got(self, kind: str, number: int = 1) -> Asked:
        """The ``number``-th request of a kind, waiting for it."""
        found = await self.changes.until(
            lambda: len(found := self.of(kind)) >= number and found, f"{kind} number {number}; there is {self.kinds}"
        )
        return found[number - 1]

    async def attend(self, stream: trio.abc.Stream) -> None:
        number = next(self._connections)
        connection = h11.Connection(h11.SERVER)
        try:
            async with stream:
                while (asked := await self._read(connection, stream, number)) is not None:
                    self.asked.append(asked)
                    if self.audited:
                        self.audit.asked(asked)
                    self.changes.tell()
                    reply = Reply(connection, stream, asked, self.audit)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._watch, connection, stream, asked)
                        await self.script(asked, reply)
                        if reply.done and not asked.gone.is_set():
                            nursery.cancel_scope.cancel()
                    if not reply.done or connection.our_state is not h11.DONE:
                        return
                    connection.start_next_cycle()
        except* (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError, _Cut):
            pass
        finally:
            self.changes.tell()

    async def _read(self, connection: h11.Connection, stream: trio.abc.Stream, number: int) -> Asked | None:
        request: h11.Request | None = None
        body: list[bytes] = []
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                headers = {name.decode().lower(): value.decode() for name, value in request.headers}
                return Asked(request.method.decode(), request.target.decode(), headers, b"".join(body), number)
            else:
                return None

    async def _watch(self, connection: h11.Connection, stream: trio.abc.Stream, asked: Asked) -> None:
        try:
            data = await stream.receive_some(65536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if data:
            connection.receive_data(data)
        else:
            asked.gone_at = trio.current_time()
            asked.gone.set()
            self.changes.tell()


@asynccontextmanager
async def serving(
    script: Callable[[Asked, Reply], Awaitable[None]], tls: ssl.SSLContext | None = None, *, audit: bool = True
) -> AsyncIterator[HttpUp]:
    """A scripted server on a free port. Raises ``AssertionError`` at the end for what mcpx may not say."""
    up = HttpUp(script, "http" if tls is None else "https")
    up.audited = audit

    async def attend(stream: trio.SocketStream) -> None:
        secured = stream if tls is None else trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        await up.attend(secured)

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, attend, 0, host="127.0.0.1"))
        up.port = listener.socket.getsockname()[1]
        yield up
        nursery.cancel_scope.cancel()
    assert up.audit.problems == [], "\n".join(up.audit.problems)


# -- what servers do all their lives

INFO = {"name": "fake", "version": "1"}
TOOLS = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}


def discovered(*versions: str, **more: Any) -> dict[str, Any]:
    """A DiscoverResult."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or (LATEST_MODERN,)),
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
        "ttlMs": 0,
        "cacheScope": "public",
        **more,
    }


def initialized(version: str = LATEST_LEGACY, **more: Any) -> dict[str, Any]:
    """An InitializeResult."""
    capabilities = {"tools": {"listChanged": True}}
    return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": INFO, **more}


def modern(**handlers: Any) -> Any:
    """A modern server; ``handlers`` answer methods, whose slash is written as two underscores."""
    own = {name.replace("__", "/"): handler for name, handler in handlers.items()}

    async def script(asked: Asked, reply: Reply) -> None:
        version = asked.headers.get(MCP_PROTOCOL_VERSION)
        if asked.method != "POST":
            await reply.text(405)
        elif version is None:
            await reply.error(-32020, "Header mismatch: MCP-Protocol-Version is missing", status=400)
        elif not is_modern(version):
            await reply.error(-32022, status=400, supported=[LATEST_MODERN], requested=version)
        elif asked.kind in own:
            await own[asked.kind](asked, reply)
        elif asked.kind == "server/discover":
            await reply.result(discovered())
        elif asked.kind == "tools/list":
            await reply.result({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **TOOLS})
        else:
            await reply.error(-32601, "Method not found", status=404)

    return script


def legacy(revision: str = LATEST_LEGACY, *, sessions: bool = True, **handlers: Any) -> Any:
    """A legacy server, whose sessions are called s1, s2 and so on; ``handlers`` as above, and of GET and DELETE."""
    own = {name.replace("__", "/"): handler for name, handler in handlers.items()}
    numbers = count(1)
    known: set[str] = set()

    async def script(asked: Asked, reply: Reply) -> None:
        if asked.kind == "initialize" and "initialize" not in own:
            name = f"s{next(numbers)}"
            known.add(name)
            await reply.result(initialized(revision), {"Mcp-Session-Id": name} if sessions else {})
            return
        opening = asked.kind in ("initialize", "server/discover")
        if sessions and asked.headers.get(MCP_SESSION_ID) not in known and not (opening and asked.kind in own):
            if opening:
                await reply.error(-32600, "Bad Request: Missing session ID", status=400, id="server-error")
            else:
                await reply.error(-32001, "Session not found", status=404, id=None)
        elif asked.kind in own:
            await own[asked.kind](asked, reply)
        elif asked.method == "DELETE":
            known.discard(asked.headers[MCP_SESSION_ID])
            await reply.send(200)
        elif asked.method == "GET":
            await reply.text(405)
        elif asked.kind == "server/discover":
            await reply.error(-32601, "Method not found")
        elif "id" not in asked.frame or asked.kind == "(answer)":
            await reply.send(202)
        elif asked.kind == "tools/list":
            await reply.result(TOOLS)
        else:
            await reply.error(-32601, "Method not found")

    script.known = known  # type: ignore[attr-defined]
    return script
