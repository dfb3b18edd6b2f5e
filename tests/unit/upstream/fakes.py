"""A scripted server on the other end of a channel in memory."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from msgspec import Raw

from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports import MemoryChannel, memory_channel_pair
from mcpx.transports.ladder import ExitPlan
from mcpx.upstream.target import Surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcpx.transports.channel import Channel

CLIENT_INFO = Raw(b'{"name":"mcpx","version":"1"}')


class FakeServer:
    """The server's end: every frame it was sent, and what it says."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel
        self.seen: list[dict[str, Any]] = []
        self._unread: list[dict[str, Any]] = []

    @property
    def methods(self) -> list[str]:
        """The methods of the frames that came, in order."""
        return [frame.get("method", "(answer)") for frame in self.seen]

    async def take(self) -> dict[str, Any]:
        """The next frame."""
        while not self._unread:
            batch = await self.channel.receive()
            assert batch, "the client hung up"
            for line in batch:
                frame = json.loads(line)
                self.seen.append(frame)
                self._unread.append(frame)
        return self._unread.pop(0)

    async def expect(self, method: str) -> dict[str, Any]:
        """The next frame, which must be this one."""
        frame = await self.take()
        assert frame["method"] == method
        return frame

    def say(self, **frame: Any) -> None:
        self.channel.send_nowait(json.dumps({"jsonrpc": "2.0", **frame}).encode())

    def answer(self, request: dict[str, Any], result: Any) -> None:
        self.say(id=request["id"], result=result)

    def refuse(self, request: dict[str, Any], code: int, message: str = "no", **data: Any) -> None:
        self.say(id=request["id"], error={"code": code, "message": message, **({"data": data} if data else {})})

    async def open_legacy(self, **more: Any) -> None:
        """Take the opening of a server of the legacy era, probed or remembered; ``more`` is in its answer."""
        frame = await self.take()
        if frame["method"] == "server/discover":
            self.refuse(frame, -32601)
            frame = await self.take()
        assert frame["method"] == "initialize"
        self.answer(frame, initialized(**more))
        await self.expect("notifications/initialized")

    async def open_modern(self, **capabilities: Any) -> None:
        """Take the opening of a modern server that declares these."""
        self.answer(await self.expect("server/discover"), discovered(capabilities=capabilities))

    def acknowledge(self, listen: dict[str, Any], granted: dict[str, Any] | None = None) -> None:
        """Agree to a request to listen, or to a part of what it asks for."""
        notifications = listen["params"]["notifications"] if granted is None else granted
        tag = {meta.SUBSCRIPTION_ID: listen["id"]}
        self.say(
            method="notifications/subscriptions/acknowledged", params={"notifications": notifications, "_meta": tag}
        )

    def tell(self, listen: dict[str, Any], method: str, **params: Any) -> None:
        """A notification on the stream that a request to listen opened."""
        self.say(method=method, params={**params, "_meta": {meta.SUBSCRIPTION_ID: listen["id"]}})

    @property
    def left_unread(self) -> list[str]:
        """The methods of what came and was not taken yet, as far as it was received."""
        return [frame.get("method", "(answer)") for frame in self._unread]

    async def rest(self) -> None:
        """Read what else comes, until the client hangs up."""
        while batch := await self.channel.receive():
            self.seen += [json.loads(line) for line in batch]


def discovered(*versions: str, **more: Any) -> dict[str, Any]:
    """A DiscoverResult."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or (LATEST_MODERN,)),
        "capabilities": {"tools": {}},
        "_meta": {meta.SERVER_INFO: {"name": "fake", "version": "1"}},
        "ttlMs": 0,
        "cacheScope": "public",
        **more,
    }


def initialized(version: str = LATEST_LEGACY, **more: Any) -> dict[str, Any]:
    """An InitializeResult."""
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "fake", "version": "1"},
        **more,
    }


def surroundings(
    script: Callable[[FakeServer], Awaitable[None]], started: list[FakeServer] | None = None, *, ladder: float = 0
) -> Surroundings:
    """Surroundings whose built-in server "demo" plays ``script`` at each start; ``started`` collects the servers, and
    each takes ``ladder`` seconds to end.
    """

    @asynccontextmanager
    async def start() -> AsyncGenerator[Channel]:
        ours, theirs = memory_channel_pair()
        server = FakeServer(theirs)
        if started is not None:
            started.append(server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play, script, server)
            yield ours
            nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(ladder)

    return Surroundings(
        watcher=None, exit_plan=ExitPlan(), builtins={"demo": start}, client_info=CLIENT_INFO, environ={}
    )


async def play(script: Callable[[FakeServer], Awaitable[None]], server: FakeServer) -> None:
    """Play a script to its end, which is the server's."""
    await script(server)
    server.channel.close()


# -- what servers do all their lives


async def legacy(server: FakeServer) -> None:
    """Refuse the probe, take the handshake, and answer nothing from then on."""
    await server.open_legacy()
    await server.rest()


async def modern(server: FakeServer) -> None:
    """Answer the probe, and nothing from then on."""
    server.answer(await server.expect("server/discover"), discovered())
    await server.rest()


async def silent(server: FakeServer) -> None:
    """Take everything and answer nothing."""
    await server.rest()
