"""The same cells over HTTP: every host revision × every upstream revision by Streamable HTTP on both sides; 2024-11-05
by HTTP+SSE, which it had, on either side and on both; hosts of every revision on a WebSocket.

Every frame is held against its revision's strict schema, and every request against its headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS, V2024_11_05
from tests.matrix import content
from tests.matrix.cell import check_arrived, use_everything
from tests.support.http_front import EventsFront, Front, fronted
from tests.support.http_hosts import http_host, serving_http, sse_host, ws_host

if TYPE_CHECKING:
    from tests.support.stage import Stage


async def play(stage: Stage, come: Any, host: str, front: type[Front], upstream: str) -> None:
    """One cell: how the host comes, its revision, what stands in front of the upstream, and its revision."""
    one = stage.upstream("one", upstream, **content.script(upstream))
    async with (
        fronted(one, front) as url,
        serving_http(stage, servers={"one": {"url": url}}) as site,
        come(site) as peer,
    ):
        await use_everything(peer, host, upstream)
    check_arrived(one, host, upstream)


@pytest.mark.parametrize("upstream", REVISIONS)
@pytest.mark.parametrize("host", REVISIONS)
async def test_cell(stage: Stage, host: str, upstream: str) -> None:
    """A host of one revision uses everything that an upstream of another offers."""
    await play(stage, http_host, host, Front, upstream)


@pytest.mark.parametrize("upstream", REVISIONS)
async def test_host_of_http_sse(stage: Stage, upstream: str) -> None:
    """``/sse`` and ``/messages`` in front of every upstream."""
    await play(stage, sse_host, V2024_11_05, Front, upstream)


@pytest.mark.parametrize("host", REVISIONS)
async def test_upstream_of_http_sse(stage: Stage, host: str) -> None:
    """An upstream of HTTP+SSE behind every host."""
    await play(stage, http_host, host, EventsFront, V2024_11_05)


async def test_http_sse_on_both_sides(stage: Stage) -> None:
    await play(stage, sse_host, V2024_11_05, EventsFront, V2024_11_05)


@pytest.mark.parametrize("host", REVISIONS)
@pytest.mark.parametrize("upstream", [LATEST_MODERN, LATEST_LEGACY])
async def test_host_on_a_websocket(stage: Stage, host: str, upstream: str) -> None:
    await play(stage, ws_host, host, Front, upstream)
