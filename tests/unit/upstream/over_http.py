"""A supervisor and sessions for tests of servers over HTTP."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.errors import UpstreamError, UpstreamStartError
from mcpx.gateway import open_gateway
from mcpx.settings import Limits, ServerSettings, Settings
from mcpx.upstream.call import Asker, Reply, Request
from mcpx.wire import frames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from msgspec import Raw

    from mcpx.upstream.session import Session, SessionCall
    from mcpx.upstream.supervisor import Supervisor

ASKER = Asker("test")
QUICK = Limits(restart_backoff_step=0.05, restart_backoff_max=0.2)
SECRET = "very-secret-token"
HEADERS = {"Authorization": f"Bearer {SECRET}"}


@asynccontextmanager
async def supervised(
    url: str, limits: Limits = QUICK, state_dir: str | None = None, **more: Any
) -> AsyncIterator[Supervisor]:
    server = ServerSettings(name="far", url=url, limits=limits, **more)
    async with open_gateway(Settings(servers=(server,), state_dir=state_dir)) as gateway:
        yield gateway.supervisors[0]


@asynccontextmanager
async def session_with(supervisor: Supervisor) -> AsyncIterator[Session]:
    instance = await supervisor.lease(ASKER)
    assert instance.session is not None
    try:
        yield instance.session
    finally:
        supervisor.release(instance)


@asynccontextmanager
async def session_at(url: str, limits: Limits = QUICK, **more: Any) -> AsyncIterator[Session]:
    async with supervised(url, limits, **more) as supervisor, session_with(supervisor) as session:
        yield session


def calling(session: Session, tool: str = "echo", **arguments: Any) -> SessionCall:
    """A call of a tool, to be entered."""
    params = {"name": frames.to_raw(tool), "arguments": frames.to_raw(arguments)}
    return session.call(Request("tools/call", params, session.revision, ASKER))


async def outcome(call: SessionCall) -> Raw:
    """The result of a call that was entered; other events are passed over."""
    while True:
        event = await call.next()
        if isinstance(event, Reply):
            return event.payload


async def call(session: Session, tool: str = "echo", **arguments: Any) -> Raw:
    with calling(session, tool, **arguments) as one:
        return await outcome(one)


async def why_not(url: str, limits: Limits = QUICK, **more: Any) -> str:
    """Why a server does not start, which shows nothing of its headers."""
    async with supervised(url, limits, **more) as supervisor:
        with pytest.raises(UpstreamStartError) as caught:
            await supervisor.lease(ASKER)
    assert SECRET not in caught.value.reason
    return caught.value.reason


async def why_failed(session: Session, method: str = "tools/list") -> str:
    """Why a request fails."""
    with pytest.raises(UpstreamError) as caught:
        await session.ask(method, {}, ASKER)
    assert SECRET not in caught.value.reason
    return caught.value.reason
