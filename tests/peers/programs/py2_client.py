"""A host on the Python SDK 2.x. Modes: ``legacy``, ``auto`` (probe in place), or a modern version (no probe at all)."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tour import Plan, Stopwatch, plan, recorded, report, times, tours, wire


def server_of(plan: Plan) -> Any:
    """The server of the plan, as this SDK's client takes it."""
    if plan.url is None:
        return StdioServerParameters(command=plan.command, args=plan.args, env=plan.env)
    if plan.over == "sse":
        return sse_client(plan.url, headers=plan.headers)
    return streamable_http_client(plan.url, http_client=create_mcp_http_client(headers=plan.headers))


async def cancelled_call(client: Client, name: str) -> None:
    """Call and cancel; this SDK tells the server."""
    called, cancelled = times("called"), times("cancelled")
    call = asyncio.ensure_future(client.call_tool(name, {}))
    await recorded("called", called)
    call.cancel()
    await recorded("cancelled", cancelled)


async def visit(client: Client, calls: list[Any]) -> dict[str, Any]:
    """List everything and make the calls of the plan; results as the wire has them."""
    methods = {"tool": client.call_tool, "resource": client.read_resource, "prompt": client.get_prompt}
    offered = client.server_capabilities
    tools = (await client.list_tools()).tools if offered.tools else []
    prompts = (await client.list_prompts()).prompts if offered.prompts else []
    resources = (await client.list_resources()).resources if offered.resources else []
    templates = (await client.list_resource_templates()).resource_templates if offered.resources else []
    results = [await methods[kind](*arguments) for kind, *arguments in calls]
    return {
        "tools": [tool.name for tool in tools],
        "prompts": [prompt.name for prompt in prompts],
        "resources": [str(resource.uri) for resource in resources],
        "templates": [template.uri_template for template in templates],
        "results": [wire(result) for result in results],
    }


async def main(plan: Plan) -> None:
    async with Client(server_of(plan), mode=plan.mode, read_timeout_seconds=30, **plan.callbacks()) as client:
        if plan.visit is None:
            seen = await tours(client, plan, error=MCPError, cancelled_call=lambda name: cancelled_call(client, name))
        else:
            seen = await visit(client, plan.visit) | {"asked": plan.asked}
        findings = {
            "protocol": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "instructions": client.instructions,
            **seen,
        }
        closing = Stopwatch()
    report(**findings, closed=closing.read())


if __name__ == "__main__":
    asyncio.run(main(plan()))
