"""A host on the Python SDK 1.x, which knows the handshake only. Mode: ``legacy``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.types import (
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    PromptReference,
    ResourceTemplateReference,
)
from pydantic import AnyUrl
from tour import Plan, Stopwatch, block_text, plan, recorded, report


async def refusal(call: Any) -> dict[str, Any]:
    """What a call that names nothing gets: the error's code and message, or the tool error's text."""
    try:
        result = await call
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message}
    return {"isError": result.isError, "message": block_text(result)}


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


async def tour(session: ClientSession, plan: Plan) -> dict[str, Any]:
    tools = (await session.list_tools()).tools
    prompts = (await session.list_prompts()).prompts
    resources = (await session.list_resources()).resources
    templates = (await session.list_resource_templates()).resourceTemplates
    echo = await session.call_tool(plan.named("echo"), {"text": "grüße, 世界 \u2028 end"})
    add = await session.call_tool(plan.named("add"), {"a": 2**40, "b": 2})
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    slow = await session.call_tool(plan.named("slow"), {"steps": 3, "pause": 0.05}, progress_callback=on_progress)
    fail = await session.call_tool(plan.named("fail"), {})
    unknown = await refusal(session.call_tool(plan.named("nothing"), {}))
    motto = await session.read_resource(AnyUrl(plan.uri("peer://motto")))
    notes = await session.read_resource(AnyUrl(plan.uri("peer://notes/probes")))
    prompt = await session.get_prompt(plan.named("greet"), {"name": "Ada"})
    names = await session.complete(
        PromptReference(type="ref/prompt", name=plan.named("greet")), {"name": "name", "value": "A"}
    )
    topics = await session.complete(
        ResourceTemplateReference(type="ref/resource", uri=plan.uri("peer://notes/{topic}")),
        {"name": "topic", "value": "pro"},
    )
    await cancelled_call(session, plan.named("never"))
    again = await session.call_tool(plan.named("echo"), {"text": "still here"})
    return {
        "tools": [tool.name for tool in tools],
        "add_schema": next((t.outputSchema for t in tools if t.name == plan.named("add")), None),
        "prompts": [prompt.name for prompt in prompts],
        "resources": [str(resource.uri) for resource in resources],
        "templates": [template.uriTemplate for template in templates],
        "echo": block_text(echo),
        "add": add.structuredContent,
        "add_text": block_text(add),
        "slow": block_text(slow),
        "progress": progress,
        "fail": {"isError": fail.isError, "message": block_text(fail)},
        "unknown": unknown,
        "motto": [[str(content.uri), content.text] for content in motto.contents],
        "notes": [[str(content.uri), content.text] for content in notes.contents],
        "prompt": [message.content.text for message in prompt.messages],
        "names": names.completion.values,
        "topics": topics.completion.values,
        "again": block_text(again),
    }


async def main(plan: Plan) -> None:
    server = StdioServerParameters(command=plan.command, args=plan.args, env=plan.env)
    async with stdio_client(server) as streams:
        async with ClientSession(*streams) as session:
            hello = await session.initialize()
            findings = {
                "protocol": hello.protocolVersion,
                "server": hello.serverInfo.name,
                "instructions": hello.instructions,
                **await tour(session, plan),
            }
        closing = Stopwatch()
    report(**findings, closed=closing.read())


if __name__ == "__main__":
    asyncio.run(main(plan()))
