"""A scripted host on ``/mcp``, of either era: each request on a connection of its own, all that comes is audited."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from mcpx.spec.headers import NAMED
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_MODERN, is_modern
from mcpx.wire.sse import SseDecoder
from tests.support.audit import HostAudit
from tests.support.http_wire import JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcpx.wire.sse import Event
    from tests.support.fake_down import Asked
    from tests.support.http_hosts import Site
    from tests.support.http_wire import Wire

INFO = {"name": "poster", "version": "4"}


class Said:
    """The whole answer to one request: its status, its headers, and its messages in whichever form they came."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.is_stream = headers.get("content-type") == "text/event-stream"
        self.events: list[Event] = SseDecoder(1 << 24).feed(body) if self.is_stream else []

    @property
    def frames(self) -> list[Any]:
        if self.is_stream:
            return [json.loads(event.data) for event in self.events if event.data]
        return [json.loads(self.body)] if self.headers.get("content-type") == "application/json" else []

    @property
    def frame(self) -> Any:
        """The last message, which is the answer."""
        return self.frames[-1]

    @property
    def code(self) -> tuple[int, int]:
        """The status, and the code of the error that is the answer."""
        return self.status, self.frame["error"]["code"]


class Poster:
    """A host. ``revision`` is what it speaks: with a legacy one it is to ``open`` a session first."""

    def __init__(self, site: Site, revision: str = LATEST_MODERN) -> None:
        self.site = site
        self.revision = revision
        self.session: dict[str, str] = {}
        self._audit = HostAudit()
        if is_modern(revision):
            self._audit.era_known = True

    async def open(self) -> Said:
        """The handshake, and a session by it."""
        params = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": INFO}
        said = await self.ask(0, "initialize", params)
        assert said.frame["result"]["protocolVersion"] == self.revision
        self.session = {"Mcp-Session-Id": said.headers["mcp-session-id"], "MCP-Protocol-Version": self.revision}
        assert (await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
        return said

    def frame(self, id: Any, method: str, params: Any = None, **meta: Any) -> dict[str, Any]:
        """A request; ``meta`` joins its metadata."""
        params = dict(params or {})
        if is_modern(self.revision):
            meta = {PROTOCOL_VERSION: self.revision, CLIENT_CAPABILITIES: {}, CLIENT_INFO: INFO} | meta
        if meta:
            params["_meta"] = meta
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    def headers(self, frame: Any, **more: str | None) -> dict[str, str]:
        """The headers of a message; those in ``more`` (with underscores) come over them, ``None`` takes one away."""
        said: dict[str, str | None] = {**JSON, **self.session}
        if is_modern(self.revision) and isinstance(frame, dict):
            said |= {"MCP-Protocol-Version": self.revision, "Mcp-Method": frame["method"]}
            if frame["method"] in NAMED:
                said["Mcp-Name"] = frame["params"][NAMED[frame["method"]]]
        lower = {name.lower(): value for name, value in said.items()}
        lower |= {name.replace("_", "-"): value for name, value in more.items()}
        return {name: value for name, value in lower.items() if value is not None}

    async def ask(self, id: Any, method: str, params: Any = None, *, meta: Any = None, **headers: str | None) -> Said:
        """A request and its answer."""
        return await self.post(self.frame(id, method, params, **(meta or {})), **headers)

    async def post(self, frame: Any, **headers: str | None) -> Said:
        """Any message, and what comes back."""
        async with self.started(frame, **headers) as wire:
            return await self.rest(wire, frame)

    @asynccontextmanager
    async def started(self, frame: Any, **headers: str | None) -> AsyncIterator[Wire]:
        """A message that was sent, whose answer is to be read; on leaving its connection is gone at once."""
        body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        async with self.site.wired() as wire:
            await wire.send("POST", "/mcp", body, self.headers(frame, **headers))
            yield wire

    @asynccontextmanager
    async def got(self, **headers: str | None) -> AsyncIterator[Wire]:
        """A GET that was sent; likewise."""
        async with self.site.wired() as wire:
            said = self.headers(None, accept="text/event-stream", content_type=None, **headers)
            await wire.send("GET", "/mcp", headers=said)
            yield wire

    async def rest(self, wire: Wire, frame: Any = None) -> Said:
        """The whole answer that comes on a connection; ``frame`` is what it answers."""
        reply = await wire.answer()
        said = Said(reply.status, reply.headers, reply.body)
        for message in said.frames:
            for one in message if isinstance(message, list) else [message]:
                self.check(one, frame)
        return said

    def check(self, message: dict[str, Any], asked: Any = None) -> None:
        """Hold one message against the rules; ``asked`` is what it answers, or belongs to."""
        revision = self.revision
        if "method" in message:
            self._audit.notification(message, revision)
        else:
            methods = {
                json.dumps(one["id"]): one["method"]
                for one in (asked if isinstance(asked, list) else [asked])
                if isinstance(one, dict) and "id" in one
            }
            method = methods.get(json.dumps(message.get("id", ...), default=str))
            known = None if method is None else SimpleNamespace(method=method, revision=revision)
            self._audit.response(message, cast("Asked | None", known))
        assert not self._audit.problems, self._audit.problems
