"""A host by each of the ways that mcpx serves, so that one test says of all of them what holds for all."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.http_hosts import http_host, serving_http, sse_host, ws_host
from tests.support.socket_hosts import connected, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

WAYS = ("stdio", "socket", "http", "sse", "ws")
_BY_HTTP: dict[str, Any] = {"http": http_host, "sse": sse_host, "ws": ws_host}


class Arrived(NamedTuple):
    """A host that is connected, and the process that it is connected to."""

    host: Host
    process: Host

    def stop(self) -> None:
        """Have mcpx end as a person would."""
        self.process.signal(signal.SIGTERM)


@asynccontextmanager
async def arriving(stage: Stage, way: str, *upstreams: Scripted, **how: Any) -> AsyncIterator[Arrived]:
    """Run mcpx in front of these upstreams, and a host that has come to it that way."""
    if way == "stdio":
        async with stage.mcpx(*upstreams, **how) as host:
            yield Arrived(host, host)
    elif way == "socket":
        async with serving(stage, *upstreams, **how) as served, connected(served) as host:
            yield Arrived(host, served.process)
    else:
        async with serving_http(stage, *upstreams, **how) as site, _BY_HTTP[way](site) as host:
            yield Arrived(host, site.process)
