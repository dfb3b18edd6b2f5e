"""HTTP served in front of a gateway of the test's own, on a real port of this machine, and hosts that come to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcpx.host import Service
from mcpx.host.ending import Ending
from mcpx.host.http import plan_access, serve_http
from mcpx.transports.websocket import open_websocket
from tests.support.http_wire import Wire, wired
from tests.support.waiting import PATIENCE
from tests.unit.host.talk import FakeGateway, Talk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcpx.gateway.gateway import Gateway
    from mcpx.host.http import Access
    from mcpx.transports.channel import Oversize

MAX_FRAME = 1 << 20


class Served:
    """Where it is served, and its end."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.ending = Ending()
        self.ended = trio.Event()
        self.urls: list[str] = []

    @property
    def port(self) -> int:
        return int(self.urls[0].split(":")[-1].partition("/")[0])

    def wired(self, **how: Any) -> Any:
        """A connection to it."""
        return wired(self.port, **how)


@asynccontextmanager
async def serving(
    gateway: FakeGateway | Gateway, address: tuple[str, int] = ("127.0.0.1", 0), token: str | None = None, **how: Any
) -> AsyncIterator[Served]:
    """Serve HTTP; on leaving it is stopped, and nothing may be left of it."""
    served = Served(Service(gateway))  # type: ignore[arg-type]
    access: Access = how.pop("access", None) or plan_access(address, token=token)

    async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await serve_http(served.service, address, served.ending, access=access, task_status=task_status, **how)
        served.ended.set()

    async with trio.open_nursery() as nursery:
        served.urls = await nursery.start(serve)
        yield served
        served.ending.stop.set()
    assert served.service.conversations == []
    if isinstance(gateway, FakeGateway):
        assert not gateway.watching
        assert all(call.state in ("done", "cancelled") for call in gateway.calls)


class SseChannel:
    """A host's end of HTTP with events, as far as ``Talk`` needs it."""

    def __init__(self, served: Served, wire: Wire, endpoint: str) -> None:
        self.endpoint = endpoint
        self._served = served
        self._wire = wire

    async def send(self, message: bytes) -> None:
        async with self._served.wired() as wire:
            reply = await wire.post(self.endpoint, message)
            assert (reply.status, reply.body) == (202, b"Accepted\n")

    async def receive(self) -> list[bytes | Oversize]:
        event = await self._wire.event()
        if event is None:
            return []
        assert event.event == "message"
        return [event.data]


@asynccontextmanager
async def sse_stream(served: Served, **headers: str) -> AsyncIterator[tuple[Wire, str]]:
    """A stream of events that has been opened, and the endpoint that it named first."""
    async with served.wired() as wire:
        await wire.send("GET", "/sse", headers={"Accept": "text/event-stream", **headers})
        head = await wire.head()
        assert head.status == 200
        assert head.headers["content-type"] == "text/event-stream"
        assert head.headers["x-accel-buffering"] == "no"
        first = await wire.event()
        assert first is not None
        assert first.event == "endpoint"
        yield wire, first.data.decode()


@asynccontextmanager
async def sse_host(served: Served) -> AsyncIterator[Talk]:
    """A host by HTTP with events; on leaving it is gone at once."""
    async with sse_stream(served) as (wire, endpoint), trio.open_nursery() as nursery:
        talk = Talk(SseChannel(served, wire, endpoint))  # type: ignore[arg-type]
        nursery.start_soon(talk.listen)
        yield talk
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def ws_host(served: Served, **headers: str) -> AsyncIterator[Talk]:
    """A host on a WebSocket; on leaving it closes that."""
    url = f"ws://127.0.0.1:{served.port}/ws"
    deadline = trio.current_time() + PATIENCE
    async with (
        open_websocket(url, headers, deadline=deadline, max_frame=MAX_FRAME) as channel,
        trio.open_nursery() as nursery,
    ):
        talk = Talk(channel)  # type: ignore[arg-type]
        nursery.start_soon(talk.listen)
        yield talk
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that nothing tells of."""
    while not condition():
        await trio.lowlevel.checkpoint()
