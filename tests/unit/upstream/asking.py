"""A session whose server asks: the server's end and the calls of a host are both in the hands of the test."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing
from msgspec import Raw

from mcpx.settings import Limits, ServerSettings
from mcpx.spec.revisions import LATEST_LEGACY
from mcpx.upstream.call import Asker, Question, Reply, Request
from mcpx.upstream.supervisor import Supervisor
from mcpx.wire import frames
from tests.unit.upstream.fakes import FakeServer, surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcpx.upstream.call import Unasked
    from mcpx.upstream.instance import Instance
    from mcpx.upstream.session import Session
    from mcpx.upstream.session_call import SessionCall

LIMITS = Limits(call_timeout=60, call_timeout_total=300, question_timeout=600)
EVERYTHING: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}
FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE: dict[str, Any] = {"messages": [], "maxTokens": 5}
ACCEPT: dict[str, Any] = {"action": "accept", "content": {"name": "a"}}
CANCEL: dict[str, Any] = {"action": "cancel"}
DONE: dict[str, Any] = {"content": []}


def asker(host: str = "host", told: dict[str, Any] | None = None, **more: Any) -> Asker:
    """A host that can be asked everything, or what is said."""
    declared = EVERYTHING if told is None else told
    return Asker(host, {name: frames.to_raw(value) for name, value in declared.items()}, **more)


class Field:
    """A supervisor, its servers, and what was asked while no call was under way."""

    def __init__(self) -> None:
        self.supervisor: Supervisor
        self.servers: list[FakeServer] = []
        self.unasked: list[Unasked] = []
        self.takes = False  # whether hosts are asked at once

    def take(self, unasked: Unasked) -> bool:
        self.unasked.append(unasked)
        return self.takes

    @asynccontextmanager
    async def using(self, who: Asker) -> AsyncGenerator[Session]:
        """A session that a host uses, and its server, the last one that was started, in the hands of the test."""
        instance: Instance = await self.supervisor.lease(who)
        assert instance.session is not None
        await trio.testing.wait_all_tasks_blocked()  # the server has taken all of its opening
        try:
            yield instance.session
        finally:
            self.supervisor.release(instance)


@asynccontextmanager
async def field(
    opening: Callable[[FakeServer], Awaitable[None]], *, scope: Any = "host", limits: Limits = LIMITS
) -> AsyncGenerator[Field]:
    """A supervisor whose servers take their opening, and from then on are in the hands of the test."""
    found = Field()

    async def script(server: FakeServer) -> None:
        await opening(server)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        found.supervisor = Supervisor(
            ServerSettings(name="fake", builtin="demo", limits=limits, scope=scope),
            surroundings(script, found.servers),
            None,
            nursery,
            heard=lambda *news: None,
            came_up=lambda supervisor: None,
            unasked=found.take,
        )
        yield found
        nursery.cancel_scope.cancel()


def request(who: Asker, method: str = "tools/call", revision: str = LATEST_LEGACY, **more: Any) -> Request:
    return Request(method, {"name": Raw(b'"echo"')}, revision, who, **more)


async def begin(call: SessionCall, server: FakeServer) -> dict[str, Any]:
    """Have a call send its request; gives that as the server got it. ``call`` has nothing else to say."""
    with trio.move_on_after(0.001) as scope:
        await call.next()
    assert scope.cancelled_caught
    return await server.take()


def ask(server: FakeServer, id: Any = 1, method: str = "elicitation/create", **params: Any) -> None:
    """A request of a legacy server."""
    given = params or (FORM if method == "elicitation/create" else SAMPLE if "sampling" in method else {})
    server.say(id=id, method=method, params=given)


async def question(call: SessionCall) -> Question:
    """The next event, which must be a question."""
    event = await call.next()
    assert isinstance(event, Question)
    return event


async def reply(call: SessionCall) -> Any:
    """The next event, which must be the end."""
    event = await call.next()
    assert isinstance(event, Reply)
    return json.loads(bytes(event.payload))


async def nothing(server: FakeServer, seconds: float = 0.01) -> None:
    """The server is sent nothing for so long."""
    with trio.move_on_after(seconds):
        raise AssertionError(await server.take())
