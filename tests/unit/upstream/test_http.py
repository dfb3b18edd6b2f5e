"""Servers over HTTP of either era: real sockets, a scripted server, the same supervisor as for a process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import RpcError, UpstreamError
from mcpx.gateway import open_gateway
from mcpx.settings import Limits, ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY
from mcpx.upstream.call import Asker
from tests.support.http_up import Asked, Reply, legacy, modern, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcpx.upstream.session import Session
    from mcpx.upstream.supervisor import Supervisor

ASKER = Asker("test")
QUICK = Limits(restart_backoff_step=0.05, restart_backoff_max=0.2)


@asynccontextmanager
async def supervised(url: str, limits: Limits = QUICK, **more: Any) -> AsyncIterator[Supervisor]:
    server = ServerSettings(name="far", url=url, limits=limits, **more)
    async with open_gateway(Settings(servers=(server,))) as gateway:
        yield gateway.supervisors[0]


@asynccontextmanager
async def session_with(supervisor: Supervisor) -> AsyncIterator[Session]:
    instance = await supervisor.lease(ASKER)
    assert instance.session is not None
    try:
        yield instance.session
    finally:
        supervisor.release(instance)


async def test_a_modern_server() -> None:
    async with serving(modern()) as up:
        async with supervised(up.url, headers={"Authorization": "Bearer x"}) as one, session_with(one) as session:
            assert session.revision == LATEST_MODERN
            assert b"echo" in bytes(await session.ask("tools/list", {}, ASKER))
            assert up.asked[-1].headers["authorization"] == "Bearer x"
        assert up.kinds == ["server/discover", "tools/list"]
        assert {asked.connection for asked in up.asked} == {1}


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("sessions", [True, False])
async def test_a_legacy_server(revision: str, sessions: bool) -> None:
    async with serving(legacy(revision, sessions=sessions)) as up:
        async with supervised(up.url) as one, session_with(one) as session:
            assert session.revision == revision
            assert b"echo" in bytes(await session.ask("tools/list", {}, ASKER))
        kinds = [kind for kind in up.kinds if kind != "GET"]
        expected = ["server/discover", "initialize", "notifications/initialized", "tools/list"]
        assert kinds == [*expected, "DELETE"] if sessions else expected
