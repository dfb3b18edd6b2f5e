"""A stdio server on the Python SDK 2.x, as its users write one: MCPServer and decorators. It speaks both eras."""

from __future__ import annotations

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference
from record import NAMES, TOPICS, begin, matching, note

server = MCPServer("py2-peer", version="2.0.0", instructions="Ask py2-peer to echo, add or wait.", log_level="ERROR")


@server.tool()
def echo(text: str) -> str:
    """Say the text again."""
    return text


@server.tool()
def add(a: int, b: int) -> int:
    """Add two integers; the sum is structured content as well."""
    return a + b


@server.tool()
async def slow(steps: int, pause: float, ctx: Context) -> str:
    """Report progress ``steps`` times, each followed by ``pause`` seconds."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        await anyio.sleep(pause)
    return f"{steps} steps"


@server.tool()
def fail() -> str:
    """Fail, as a tool error."""
    raise ToolError("this tool always fails")


@server.tool()
async def never() -> str:
    """Never answer; record being called and being cancelled."""
    note("called")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "unreachable"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


@server.resource("peer://motto", mime_type="text/plain")
def motto() -> str:
    """A line of text."""
    return "carried, not rebuilt"


@server.resource("peer://notes/{topic}", mime_type="text/plain")
def notes(topic: str) -> str:
    """Notes on a topic."""
    return f"notes on {topic}"


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    """Complete a name for the prompt and a topic for the template."""
    known = NAMES if isinstance(ref, PromptReference) else TOPICS
    return Completion(values=matching(known, argument.value), has_more=False)


if __name__ == "__main__":
    begin()
    server.run("stdio")
