"""What a server on either Python SDK offers, registered with the decorators that both have, and how it is run."""

# Annotations are evaluated here: the SDKs look for their own types among them.

import os
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from mcp.types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference
from pydantic import BaseModel
from record import NAMES, TOPICS, begin, matching, note

# What the tools that ask ask for.
NAME = "What is your name?"
CAPITAL = "What is the capital of France?"


class Person(BaseModel):
    """The form that asks for a name."""

    name: str


def offer(server, context: type, tool_error: type[Exception]) -> None:
    """Give the server of an SDK, whose context and whose error of a tool are these, all that it offers."""

    @server.tool()
    def echo(text: str) -> str:
        """Say the text again."""
        return text

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two integers; the sum is structured content as well."""
        return a + b

    @server.tool()
    async def slow(steps: int, pause: float, ctx: context) -> str:
        """Report progress ``steps`` times, each followed by ``pause`` seconds."""
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
            await anyio.sleep(pause)
        return f"{steps} steps"

    @server.tool()
    def fail() -> str:
        """Fail, as a tool error."""
        raise tool_error("this tool always fails")

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
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        """Complete a name for the prompt and a topic for the template."""
        known = NAMES if isinstance(ref, PromptReference) else TOPICS
        return Completion.model_validate({"values": matching(known, argument.value), "hasMore": False})


def main(serve_stdio, make_apps) -> None:
    """Serve stdio, or with the argument ``http`` these Starlette apps beside each other on one port.

    They are ``/mcp``, ``/stateless`` and ``/sse``, at ``PEER_PORT`` or a free port; the address is printed.
    """
    begin()
    if sys.argv[1:] != ["http"]:
        serve_stdio()
        return
    # Here, for a server on stdio is to start without them.
    import uvicorn
    from starlette.applications import Starlette

    apps = make_apps()

    @asynccontextmanager
    async def lifespan(_):
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    whole = Starlette(routes=[route for app in apps for route in app.routes], lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PEER_PORT", "0"))))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(whole, log_level="error")).run(sockets=[listener])
