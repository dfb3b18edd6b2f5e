"""A host that talks to an app over its channel, and holds every frame that it gets against the schema."""

from __future__ import annotations

import json
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_MODERN
from tests.support.running import run_in_virtual_time
from tests.support.schemas import validate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcpx.app import App
    from mcpx.transports.channel import Channel

META: dict[str, Any] = {
    meta.PROTOCOL_VERSION: LATEST_MODERN,
    meta.CLIENT_CAPABILITIES: {},
    meta.CLIENT_INFO: {"name": "talk", "version": "1"},
}


class Host:
    """Sends requests, and sorts what comes back: ``frames`` holds all of it, in order."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.frames: list[dict[str, Any]] = []
        self._new: deque[dict[str, Any]] = deque()
        self._methods: dict[str, str] = {}
        self._ids = 0

    def send(self, frame: dict[str, Any] | bytes) -> None:
        self.channel.send_nowait(frame if isinstance(frame, bytes) else json.dumps(frame).encode())

    def begin(self, method: str, params: dict[str, Any] | None = None, *, id: Any = None, **extra: Any) -> Any:
        """Send a request; ``extra`` goes into its ``_meta``. Returns its id."""
        if id is None:
            self._ids += 1
            id = self._ids
        self._methods[json.dumps(id)] = method
        whole = {**(params or {}), "_meta": {**META, **extra}}
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": whole})
        return id

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def next(self) -> dict[str, Any]:
        """The next frame."""
        while not self._new:
            for message in await self.channel.receive():
                assert isinstance(message, bytes)
                frame = json.loads(message)
                self._judge(frame)
                self.frames.append(frame)
                self._new.append(frame)
        return self._new.popleft()

    async def answer(self, id: Any) -> dict[str, Any]:
        """The response to a request; what comes before it is in ``frames``."""
        while True:
            frame = await self.next()
            if frame.get("id") == id and "method" not in frame:
                return frame

    async def ask(self, method: str, params: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
        """The result of a request."""
        frame = await self.answer(self.begin(method, params, **extra))
        assert "result" in frame, frame
        return frame["result"]

    async def refused(self, method: str, params: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
        """The error that a request gets."""
        frame = await self.answer(self.begin(method, params, **extra))
        assert "error" in frame, frame
        return frame["error"]

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}}, **extra)

    async def said(self, name: str, arguments: dict[str, Any] | None = None) -> tuple[str, bool]:
        """The one text that a tool returns, and whether it is an error."""
        result = await self.call(name, arguments)
        [block] = result["content"]
        return block["text"], result.get("isError", False)

    async def silence(self) -> None:
        """Nothing more comes when all tasks have done what they can."""
        with trio.move_on_after(0.001):
            frame = await self.next()
            raise AssertionError(f"unexpected: {frame}")

    def _judge(self, frame: dict[str, Any]) -> None:
        method = self._methods.get(json.dumps(frame.get("id")))
        validate(frame, LATEST_MODERN, sender="server", method=method)


@asynccontextmanager
async def talk(app: App) -> AsyncGenerator[Host]:
    async with app.open_channel() as channel:
        yield Host(channel)


def run(app: App, script: Callable[[Host], Awaitable[None]]) -> None:
    """Play a host's part against an app."""

    async def main() -> None:
        async with talk(app) as host:
            await script(host)

    run_in_virtual_time(main)
