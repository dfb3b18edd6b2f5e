"""Servers in memory behind a gateway in front of them, and what a host would ask it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Raw

from mcpx.gateway import Gateway, open_gateway
from mcpx.settings import Limits, ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY
from mcpx.upstream.call import Asker, Interest, Reply, Request
from tests.unit.upstream.fakes import FakeServer, initialized, surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

HOST = Asker("host")
LISTS = Interest(frozenset({"tools", "prompts", "resources"}))


def tool(name: str) -> dict[str, Any]:
    """A tool as a list has it."""
    return {"name": name, "inputSchema": {"type": "object"}}


class Scripted:
    """A legacy server in memory: handlers by method, and how often each method came."""

    def __init__(
        self,
        *,
        changes: bool = False,
        subscribe: bool = False,
        delay: float = 0,
        refuse: bool = False,
        **handlers: Any,
    ) -> None:
        self.handlers = {name.replace("_", "/"): handler for name, handler in handlers.items()}
        self.changes = changes
        self.subscribe = subscribe
        self.delay = delay
        self.refuse = refuse
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.server: FakeServer | None = None

    def count(self, method: str) -> int:
        return sum(1 for name, _ in self.asked if name == method)

    async def play(self, server: FakeServer) -> None:
        self.server = server
        await trio.sleep(self.delay)
        while True:
            frame = await server.take()
            method, params = frame["method"], frame.get("params", {})
            self.asked.append((method, params))
            if method == "server/discover" or self.refuse:
                server.refuse(frame, -32601)
            elif method == "initialize":
                capability = {"listChanged": True} if self.changes else {}
                resources = capability | ({"subscribe": True} if self.subscribe else {})
                capabilities = {"tools": capability, "prompts": capability, "resources": resources, "completions": {}}
                server.answer(frame, initialized(capabilities=capabilities, instructions="Be kind."))
            elif "id" in frame:
                handler = self.handlers.get(method)
                if handler is None:
                    server.refuse(frame, -32601)
                else:
                    server.answer(frame, handler(params) if callable(handler) else handler)

    def announce(self, method: str) -> None:
        assert self.server is not None
        self.server.say(method=method)


@asynccontextmanager
async def gateway_of(passthrough: tuple[str, ...] = (), **servers: Scripted) -> AsyncGenerator[Gateway]:
    """A gateway in front of these servers, with a list timeout of 10 s."""
    settings = Settings(
        servers=tuple(
            ServerSettings(name=name, builtin=name, passthrough=name in passthrough)  # type: ignore[arg-type]
            for name in servers
        ),
        limits=Limits(list_timeout=10, page_size=3),
    )
    builtins = {name: surroundings(server.play).builtins["demo"] for name, server in servers.items()}
    async with open_gateway(settings, builtins=builtins) as gateway:
        yield gateway


async def names_of(gateway: Gateway, kind: Any = "tools", asker: Asker = HOST) -> list[str]:
    """The names of a whole list, page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await gateway.list(kind, asker, cursor)
        found += [msgspec.json.decode(item)["name"] for part in page.parts for item in part.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def call(gateway: Gateway, method: str, **params: Any) -> Reply:
    """The answer to a request of ``HOST``."""
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in params.items()}
    with gateway.exchange(Request(method, raw, LATEST_LEGACY, HOST)) as exchange:
        while not isinstance(event := await exchange.next(), Reply):
            pass
        return event
