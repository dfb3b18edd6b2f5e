"""A host on the Python SDK 1.x, which knows the handshake only. Mode: ``legacy``."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification
from pydantic import AnyUrl
from tour import Plan, Stopwatch, plan, recorded, report, times, tours

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def connected(plan: Plan) -> AsyncIterator[tuple[Any, Any]]:
    """The streams to the server of the plan."""
    if plan.url is None:
        server = StdioServerParameters(command=plan.command, args=plan.args, env=plan.env)
        async with stdio_client(server) as streams:
            yield streams
    elif plan.over == "sse":
        async with sse_client(plan.url, headers=plan.headers) as streams:
            yield streams
    else:
        async with (
            create_mcp_http_client(headers=plan.headers) as client,
            streamable_http_client(plan.url, http_client=client) as (read, write, _),
        ):
            yield read, write


async def cancelled_call(session: ClientSession, name: str) -> None:
    """Call and cancel. This SDK has no way to cancel but to send the notification, with the id it gave the request."""
    request_id = session._request_id
    called, cancelled = times("called"), times("cancelled")
    call = asyncio.ensure_future(session.call_tool(name, {}))
    await recorded("called", called)
    await session.send_notification(
        ClientNotification(CancelledNotification(params=CancelledNotificationParams(requestId=request_id)))
    )
    await recorded("cancelled", cancelled)
    call.cancel()
    with suppress(asyncio.CancelledError, McpError):
        await call


async def main(plan: Plan) -> None:
    async with connected(plan) as streams:
        async with ClientSession(*streams, **plan.callbacks()) as session:
            hello = await session.initialize()
            seen = await tours(
                session,
                plan,
                error=McpError,
                cancelled_call=lambda name: cancelled_call(session, name),
                as_uri=AnyUrl,
            )
        closing = Stopwatch()
    report(
        protocol=hello.protocolVersion,
        server=hello.serverInfo.name,
        instructions=hello.instructions,
        **seen,
        closed=closing.read(),
    )


if __name__ == "__main__":
    asyncio.run(main(plan()))
