"""A host on the Python SDK 1.x, which knows the handshake only. Mode: ``legacy``."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification
from pydantic import AnyUrl
from tour import Plan, Stopwatch, plan, recorded, report, tour


async def cancelled_call(session: ClientSession, name: str) -> None:
    """Call and cancel. This SDK has no way to cancel but to send the notification, with the id it gave the request."""
    request_id = session._request_id
    call = asyncio.ensure_future(session.call_tool(name, {}))
    await recorded("called")
    await session.send_notification(
        ClientNotification(CancelledNotification(params=CancelledNotificationParams(requestId=request_id)))
    )
    await recorded("cancelled")
    call.cancel()
    with suppress(asyncio.CancelledError, McpError):
        await call


async def main(plan: Plan) -> None:
    server = StdioServerParameters(command=plan.command, args=plan.args, env=plan.env)
    async with stdio_client(server) as streams:
        async with ClientSession(*streams) as session:
            hello = await session.initialize()
            seen = await tour(
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
