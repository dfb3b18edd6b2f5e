"""A host on the Python SDK 2.x. Modes: ``legacy``, ``auto`` (probe in place), or a modern version (no probe at all)."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.types import PromptReference, ResourceTemplateReference
from tour import Plan, Stopwatch, block_text, plan, recorded, report


async def refusal(call: Any) -> dict[str, Any]:
    """What a call that names nothing gets: the error's code and message, or the tool error's text."""
    try:
        result = await call
    except MCPError as error:
        return {"code": error.code, "message": error.message}
    return {"isError": result.is_error, "message": block_text(result)}


async def tour(client: Client, plan: Plan) -> dict[str, Any]:
    tools = (await client.list_tools()).tools
    prompts = (await client.list_prompts()).prompts
    resources = (await client.list_resources()).resources
    templates = (await client.list_resource_templates()).resource_templates
    echo = await client.call_tool(plan.named("echo"), {"text": "grüße, 世界 \u2028 end"})
    add = await client.call_tool(plan.named("add"), {"a": 2**40, "b": 2})
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    slow = await client.call_tool(plan.named("slow"), {"steps": 3, "pause": 0.05}, progress_callback=on_progress)
    fail = await client.call_tool(plan.named("fail"), {})
    unknown = await refusal(client.call_tool(plan.named("nothing"), {}))
    motto = await client.read_resource(plan.uri("peer://motto"))
    notes = await client.read_resource(plan.uri("peer://notes/probes"))
    prompt = await client.get_prompt(plan.named("greet"), {"name": "Ada"})
    names = await client.complete(
        PromptReference(type="ref/prompt", name=plan.named("greet")), {"name": "name", "value": "A"}
    )
    topics = await client.complete(
        ResourceTemplateReference(type="ref/resource", uri=plan.uri("peer://notes/{topic}")),
        {"name": "topic", "value": "pro"},
    )
    call = asyncio.ensure_future(client.call_tool(plan.named("never"), {}))
    await recorded("called")
    call.cancel()
    await recorded("cancelled")
    again = await client.call_tool(plan.named("echo"), {"text": "still here"})
    return {
        "tools": [tool.name for tool in tools],
        "add_schema": next((t.output_schema for t in tools if t.name == plan.named("add")), None),
        "prompts": [prompt.name for prompt in prompts],
        "resources": [str(resource.uri) for resource in resources],
        "templates": [template.uri_template for template in templates],
        "echo": block_text(echo),
        "add": add.structured_content,
        "add_text": block_text(add),
        "slow": block_text(slow),
        "progress": progress,
        "fail": {"isError": fail.is_error, "message": block_text(fail)},
        "unknown": unknown,
        "motto": [[str(content.uri), content.text] for content in motto.contents],
        "notes": [[str(content.uri), content.text] for content in notes.contents],
        "prompt": [message.content.text for message in prompt.messages],
        "names": names.completion.values,
        "topics": topics.completion.values,
        "again": block_text(again),
    }


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
        "results": [result.model_dump(mode="json", by_alias=True, exclude_none=True) for result in results],
    }


async def main(plan: Plan) -> None:
    server = StdioServerParameters(command=plan.command, args=plan.args, env=plan.env)
    async with Client(server, mode=plan.mode, read_timeout_seconds=30) as client:
        findings = {
            "protocol": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "instructions": client.instructions,
            **(await tour(client, plan) if plan.visit is None else await visit(client, plan.visit)),
        }
        closing = Stopwatch()
    report(**findings, closed=closing.read())


if __name__ == "__main__":
    asyncio.run(main(plan()))
