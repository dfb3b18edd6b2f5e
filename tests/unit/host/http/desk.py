"""``/mcp`` without a wire: requests go to the endpoint as objects, and what it answers is there to be looked at.

Every JSON-RPC message that comes back is held against the schema of its revision.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import LocalProtocolError
from mcpx.host.ending import SERVER, Ending
from mcpx.host.http.endpoint import open_endpoint
from mcpx.host.listen import LISTEN
from mcpx.host.service import Service
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_03_26
from mcpx.transports.http_server import HttpRequest
from mcpx.upstream.call import Progress
from mcpx.wire.sse import SseDecoder
from tests.support.schemas import validate
from tests.unit.host.talk import FakeGateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from mcpx.host.http.endpoint import Endpoint
    from mcpx.host.http.sessions import Session
    from mcpx.spec.headers import ParamHeader
    from mcpx.transports.http_aloft import Landed
    from mcpx.upstream.call import Asker
    from mcpx.wire.sse import Event

BOTH = "application/json, text/event-stream"
POLITE = {"content-type": "application/json", "accept": BOTH}
CALL = {"name": "one__echo", "arguments": {"x": 1}}
MANY = 1 << 20


def progress(number: int, pad: int = 0) -> Progress:
    params = {"progress": Raw(b"%d" % number)}
    return Progress(params | ({"message": Raw(b'"%b"' % (b"x" * pad))} if pad else {}))


class HttpGateway(FakeGateway):
    """A gateway whose tools may repeat parameters in headers. ``mirroring`` is waited for before it says so."""

    def __init__(self, *script: Any, **limits: Any) -> None:
        super().__init__(*script, **limits)
        self.declared: tuple[ParamHeader, ...] = ()
        self.mirroring = trio.Event()
        self.mirroring.set()
        self.mirrored_for: list[str] = []

    def mirrored_nowait(self, tool: str, asker: Asker) -> tuple[ParamHeader, ...] | None:
        if not self.mirroring.is_set():
            return None
        self.mirrored_for.append(tool)
        return self.declared

    async def mirrored(self, tool: str, asker: Asker) -> tuple[ParamHeader, ...]:
        self.mirrored_for.append(tool)
        await self.mirroring.wait()
        return self.declared


class FakeResponse:
    """What a handler answers with. ``gone``: its client has; ``stuck``: it reads nothing until that is set."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.started = False
        self.streaming = False
        self.ended = False
        self.gone = False
        self.stuck: trio.Event | None = None
        self._cut = False

    async def send(self, status: int, body: bytes = b"", headers: Mapping[str, str] = {}) -> None:
        self._begin(status, headers)
        await self._out(body)

    async def open_stream(self, status: int = 200, headers: Mapping[str, str] = {}) -> None:
        self._begin(status, headers)
        self.streaming = True
        await self._out(b"")

    async def write(self, data: bytes) -> None:
        if not self.streaming:
            raise LocalProtocolError("no stream is open")
        assert data
        await self._out(data)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        if self.started:
            raise LocalProtocolError("a request is answered once")
        self.started = True
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}

    async def _out(self, data: bytes) -> None:
        """As ``Outgoing`` has it: a write that is cut is the end of all writing."""
        assert not self.ended, "written behind the end of an answer"
        if self.gone or self._cut:
            raise trio.BrokenResourceError
        self._cut = True
        await trio.lowlevel.checkpoint_if_cancelled()  # as a socket does that takes what it is given
        if self.stuck is not None:
            await self.stuck.wait()
        self._cut = False
        if self.gone:
            raise trio.BrokenResourceError
        self.body += data
        await trio.lowlevel.cancel_shielded_checkpoint()


class FakeAloft:
    """The way for the answer of a request without a task, or to one."""

    def __init__(self, request: HttpRequest, response: FakeResponse) -> None:
        self.request = request
        self.response = response
        self.answered: tuple[Any, ...] = ()
        self.landed: Landed | None = None
        self.over = trio.Event()

    def answer(self, *answer: Any) -> None:
        assert not self.over.is_set()
        self.answered = answer
        self.over.set()

    def land(self, landed: Landed) -> None:
        assert not self.over.is_set()
        self.landed = landed
        self.over.set()


class Sent:
    """One HTTP request under way. Frames are those of its body so far, whichever form it has."""

    def __init__(self, asked: Any, revision: str) -> None:
        self.response = FakeResponse()
        self.done = trio.Event()
        self.aloft: FakeAloft | None = None  # where it was under way without a task
        self._revision = revision
        self._methods = {
            json.dumps(one["id"]): one["method"]
            for one in (asked if isinstance(asked, list) else [asked])
            if isinstance(one, dict) and "id" in one and "method" in one
        }
        self._scope = trio.CancelScope()

    async def run(self, endpoint: Endpoint, request: HttpRequest) -> None:
        with self._scope:
            aloft = FakeAloft(request, self.response)
            hang_up = endpoint.begin(aloft)  # type: ignore[arg-type]
            if hang_up is None:
                assert not aloft.over.is_set()
                await endpoint.handle(request, self.response)  # type: ignore[arg-type]
            else:
                self.aloft = aloft
                await self._fly(aloft, hang_up)
            assert self.response.started
        self.response.ended = True
        self.done.set()

    async def _fly(self, aloft: FakeAloft, hang_up: Callable[[], None]) -> None:
        """As a connection has it."""
        landed = None
        try:
            await aloft.over.wait()
            landed = aloft.landed
        finally:
            if landed is None and not aloft.answered:
                hang_up()
        if landed is not None:
            await landed(self.response)  # type: ignore[arg-type]
        else:
            with suppress(trio.BrokenResourceError):
                await self.response.send(*aloft.answered)

    def hang_up(self) -> None:
        """The client goes, which the server notices at once."""
        self.response.gone = True
        self._scope.cancel()

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def is_stream(self) -> bool:
        return self.response.headers.get("content-type") == "text/event-stream"

    @property
    def events(self) -> list[Event]:
        """All events so far, those without data included."""
        return SseDecoder(MANY).feed(self.response.body)

    @property
    def comments(self) -> int:
        return self.response.body.count(b":\n\n")

    @property
    def ids(self) -> list[str | None]:
        return [event.id for event in self.events]

    @property
    def frames(self) -> list[Any]:
        """The messages of the body, a batch as a list."""
        bodies = [event.data for event in self.events if event.data] if self.is_stream else [self.response.body]
        frames = [json.loads(body) for body in bodies if body]
        for frame in frames:
            for one in frame if isinstance(frame, list) else [frame]:
                self._check(one)
        return frames

    @property
    def frame(self) -> Any:
        """The one message of the body."""
        [frame] = self.frames
        return frame

    def _check(self, frame: dict[str, Any]) -> None:
        if "method" in frame and frame["method"] not in METHODS:
            return
        method = self._methods.get(json.dumps(frame.get("id")))
        revision = self._revision
        if method == "initialize" and "result" in frame:
            revision = frame["result"]["protocolVersion"]
        if SUBSCRIPTION_ID in frame.get("params", {}).get("_meta", {}):
            revision = LATEST_MODERN
        if method == LISTEN and "result" in frame and revision != LATEST_MODERN:
            return  # legacy revisions have no streams, and so no result for one
        validate(frame, revision, sender="server", method=method)


class Desk:
    """Where requests are handed in."""

    def __init__(self, endpoint: Endpoint, ending: Ending, service: Service, nursery: trio.Nursery) -> None:
        self.endpoint = endpoint
        self.ending = ending
        self.service = service
        self._nursery = nursery

    def start(
        self, method: str, body: Any = b"", headers: Mapping[str, str | None] = {}, revision: str = V2025_03_26
    ) -> Sent:
        """Any request, as it is; a header that is ``None`` is left out."""
        said = {name: value for name, value in ({**POLITE, **headers}).items() if value is not None}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = Sent(None if isinstance(body, bytes) else body, revision)
        request = HttpRequest(method, "/mcp", "", said, data, "127.0.0.1")
        self._nursery.start_soon(sent.run, self.endpoint, request)
        return sent

    async def ask(self, *what: Any, **how: Any) -> Sent:
        """The same, and its end."""
        sent = self.start(*what, **how)
        await sent.done.wait()
        return sent

    def start_modern(self, id: Any, method: str, params: Any = None, *, meta: Any = None, **headers: Any) -> Sent:
        """A modern request; ``headers`` (with underscores) come over those that it has to have."""
        frame = modern(id, method, params, meta)
        return self.start("POST", frame, modern_headers(frame) | spelled(headers), LATEST_MODERN)

    async def modern(self, id: Any, method: str, params: Any = None, **how: Any) -> Sent:
        sent = self.start_modern(id, method, params, **how)
        await sent.done.wait()
        return sent

    async def open(self, revision: str = LATEST_LEGACY, *, initialized: bool = True, **params: Any) -> Client:
        """A legacy session, handshake and all."""
        said = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}} | params
        sent = await self.ask("POST", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": said})
        assert sent.status == 200
        assert sent.frame["result"]["protocolVersion"] == revision
        client = Client(self, sent.response.headers["mcp-session-id"], revision)
        if initialized:
            assert (await client.notify("notifications/initialized")).status == 202
        return client


class Client:
    """A legacy host with a session."""

    def __init__(self, desk: Desk, id: str, revision: str) -> None:
        self.id = id
        self.revision = revision
        self.headers: dict[str, str | None] = {"mcp-session-id": id, "mcp-protocol-version": revision}
        self._desk = desk

    @property
    def session(self) -> Session:
        found = self._desk.endpoint._sessions.find(self.id)
        assert found is not None
        return found

    def start(self, id: Any, method: str, params: Any = None, **headers: Any) -> Sent:
        return self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}, **headers)

    def call(self, id: Any, token: Any = None, **headers: Any) -> Sent:
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.start(id, "tools/call", CALL | meta, **headers)

    def post(self, body: Any, **headers: Any) -> Sent:
        return self._desk.start("POST", body, self.headers | spelled(headers), self.revision)

    async def ask(self, id: Any, method: str, params: Any = None, **headers: Any) -> Sent:
        sent = self.start(id, method, params, **headers)
        await sent.done.wait()
        return sent

    async def notify(self, method: str, params: Any = None, **headers: Any) -> Sent:
        sent = self.post({"jsonrpc": "2.0", "method": method, "params": params or {}}, **headers)
        await sent.done.wait()
        return sent

    async def cancel(self, id: Any) -> None:
        assert (await self.notify("notifications/cancelled", {"requestId": id})).status == 202

    def get(self, **headers: Any) -> Sent:
        return self._desk.start("GET", b"", self.headers | {"content-type": None} | spelled(headers), self.revision)

    def resume(self, event: str | None) -> Sent:
        return self.get(last_event_id=event)

    async def delete(self, **headers: Any) -> Sent:
        return await self._desk.ask("DELETE", b"", self.headers | spelled(headers))


def spelled(headers: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def modern(id: Any, method: str, params: Any = None, meta: Any = None) -> dict[str, Any]:
    """A modern request; ``meta`` comes over its envelope."""
    envelope = {
        PROTOCOL_VERSION: LATEST_MODERN,
        CLIENT_CAPABILITIES: {},
        CLIENT_INFO: {"name": "h", "version": "1"},
        **(meta or {}),
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": envelope}}


def modern_headers(frame: dict[str, Any]) -> dict[str, str | None]:
    params = frame["params"]
    name = params.get("uri") if frame["method"] == "resources/read" else params.get("name")
    return {"mcp-protocol-version": LATEST_MODERN, "mcp-method": frame["method"]} | (
        {"mcp-name": name} if isinstance(name, str) else {}
    )


@asynccontextmanager
async def open_desk(gateway: FakeGateway) -> AsyncIterator[Desk]:
    """Open the endpoint before a gateway; on leaving, the clients that are left hang up, and nothing may remain."""
    service, ending = Service(gateway), Ending()  # type: ignore[arg-type]
    ending.plan_for(gateway, SERVER, SERVER)  # type: ignore[arg-type]
    async with (
        trio.open_nursery() as crew,
        open_endpoint(service, ending) as endpoint,
        trio.open_nursery() as nursery,
    ):
        gateway.open(crew)
        yield Desk(endpoint, ending, service, nursery)
        nursery.cancel_scope.cancel()
        crew.cancel_scope.cancel()
    assert service.conversations == []
    assert gateway.watching == []
    assert all(call.state in ("done", "cancelled", "new") for call in gateway.calls)


def initialize(version: Any = LATEST_LEGACY, id: Any = 1) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def code(sent: Sent) -> tuple[int, int]:
    """The status, and the code of the error that is the answer."""
    return sent.status, sent.frame["error"]["code"]


def methods(sent: Sent) -> list[str]:
    """What each message is: its method, or an answer."""
    return [frame.get("method", "answer") for frame in sent.frames]


async def settled() -> None:
    """Until nothing moves that does not wait for time to pass."""
    await trio.testing.wait_all_tasks_blocked()
