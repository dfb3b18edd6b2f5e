"""How servers over HTTP are listened to, where that differs: streams that break, sessions, and the era."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import UpstreamError
from mcpx.settings import ServerSettings
from mcpx.upstream.call import Change, Interest
from mcpx.upstream.supervisor import Supervisor
from mcpx.upstream.target import open_surroundings
from tests.support.http_up import Asked, Reply, discovered, initialized, legacy, modern, serving
from tests.support.scripted import TELLS_ALL
from tests.support.waiting import PATIENCE, Changes
from tests.unit.upstream.fakes import CLIENT_INFO
from tests.unit.upstream.over_http import ASKER, QUICK

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

TOOLS = Interest(frozenset({"tools"}))
NOTES = "file:///notes"
BOTH = TOOLS | Interest(uris=frozenset({NOTES}))
LISTEN = "subscriptions/listen"


class Heard:
    """What a supervisor has said of its server's changes."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str | None]] = []
        self.changes = Changes()

    def take(self, supervisor: Supervisor, key: object, news: object) -> None:
        assert isinstance(news, Change)
        self.all.append((news.kind, news.uri))
        self.changes.tell()

    async def until(self, *expected: tuple[str, str | None]) -> None:
        await self.changes.until(lambda: self.all == [*expected], f"{expected}; there is {self.all}")


@asynccontextmanager
async def listening_to(url: str) -> AsyncGenerator[tuple[Supervisor, Heard]]:
    heard = Heard()
    async with (
        open_surroundings(QUICK, builtins={}, client_info=CLIENT_INFO, environ={}) as surroundings,
        trio.open_nursery() as nursery,
    ):
        server = ServerSettings(name="far", url=url, limits=QUICK)
        yield (
            Supervisor(server, surroundings, None, nursery, heard=heard.take, came_up=lambda supervisor: None),
            heard,
        )
        nursery.cancel_scope.cancel()


async def opens(asked: Asked, reply: Reply) -> None:
    await reply.result(initialized(capabilities=TELLS_ALL), {"Mcp-Session-Id": "s1"})


async def empty(asked: Asked, reply: Reply) -> None:
    await reply.result({})


def told(**handlers: Any) -> Any:
    """A legacy server with one session, which keeps subscriptions."""
    script = legacy(initialize=opens, **{"resources__subscribe": empty, **handlers})
    script.known.add("s1")
    return script


@pytest.mark.parametrize("numbered", [True, False])
async def test_the_stream_of_a_session_that_broke_may_have_lost_changes(numbered: bool) -> None:
    """Unless its events are numbered, so that the server goes on where it was."""
    broken = trio.Event()

    async def stream(asked: Asked, reply: Reply) -> None:
        await reply.events()
        if numbered and not broken.is_set():
            await reply.event(b"", id="1")
        if not broken.is_set():
            await broken.wait()
            await reply.cut()
        assert asked.headers.get("last-event-id") == ("1" if numbered else None)
        await reply.event({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
        await reply.hang()

    async with serving(told(GET=stream)) as up, listening_to(up.url) as (supervisor, heard):
        with supervisor.interested(ASKER, BOTH, keep=True) as interested:
            with trio.fail_after(PATIENCE):
                assert await interested.settled() == BOTH
            await up.got("GET")
            broken.set()
            await up.got("GET", 2)
            lost = [] if numbered else [("tools", None), ("resources", NOTES)]
            await heard.until(*lost, ("prompts", None))


async def test_a_subscription_that_does_not_get_through_is_made_again() -> None:
    answers = iter([503, 502, 200])

    async def busy(asked: Asked, reply: Reply) -> None:
        if (status := next(answers)) == 200:
            await reply.result({})
        else:
            await reply.text(status)

    async with serving(told(resources__subscribe=busy)) as up, listening_to(up.url) as (supervisor, _):
        with supervisor.interested(ASKER, BOTH, keep=True) as interested:
            with trio.fail_after(PATIENCE):
                assert await interested.settled() == BOTH
            assert len(up.of("resources/subscribe")) == 3


async def discover(asked: Asked, reply: Reply) -> None:
    await reply.result(discovered(capabilities=TELLS_ALL))


async def acknowledge(asked: Asked, reply: Reply) -> None:
    tag = {"io.modelcontextprotocol/subscriptionId": asked.frame["id"]}
    params = {"notifications": asked.frame["params"]["notifications"], "_meta": tag}
    await reply.events()
    await reply.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
    await reply.hang()


async def test_a_server_that_is_listened_to_is_still_looked_at_anew() -> None:
    """The request to listen is always under way, and is no reason to believe in the era of what answers there now."""

    async def gone(asked: Asked, reply: Reply) -> None:
        await reply.text(404)

    handlers: dict[str, Any] = {"server__discover": discover, "subscriptions__listen": acknowledge, "tools__list": gone}
    async with serving(modern(**handlers)) as up, listening_to(up.url) as (supervisor, heard):
        with supervisor.interested(ASKER, BOTH, keep=True) as interested:
            with trio.fail_after(PATIENCE):
                assert await interested.settled() == BOTH
            instance = await supervisor.lease(ASKER)
            assert instance.session is not None
            with pytest.raises(UpstreamError):
                await instance.session.ask("tools/list", {}, ASKER)
            supervisor.release(instance)
            await up.got("server/discover", 2)
            await heard.until(("tools", None), ("resources", NOTES))


async def test_a_listen_stream_is_no_work_in_status() -> None:
    handlers: dict[str, Any] = {"server__discover": discover, "subscriptions__listen": acknowledge}
    async with serving(modern(**handlers)) as up, listening_to(up.url) as (supervisor, _):
        with supervisor.interested(ASKER, BOTH, keep=True) as interested:
            with trio.fail_after(PATIENCE):
                await interested.settled()
            [row] = supervisor.status()
            assert (row.state, row.in_flight, row.leases) == ("up", 0, 0)
        assert len(up.of(LISTEN)) == 1
