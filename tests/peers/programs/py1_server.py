"""A server on the Python SDK 1.x, as its users write one: FastMCP and decorators. See ``py_server.main``."""

import itertools

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import SamplingMessage, TextContent
from py_server import CAPITAL, NAME, Person, main, offer
from record import ASKS


def offer_questions(server):
    """Give the server the tools that ask, which this SDK does by requests of its own while the tool runs."""

    counted = itertools.count(1)

    @server.tool()
    def count() -> str:
        """How often this was called since the process started."""
        return str(next(counted))

    @server.tool()
    async def ask_name(ctx: Context) -> str:
        """Ask for a name."""
        outcome = await ctx.elicit(NAME, Person)
        return f"accept {outcome.data.name}" if outcome.action == "accept" else outcome.action

    @server.tool()
    async def ask_model(ctx: Context) -> str:
        """Ask the host's model."""
        message = SamplingMessage(role="user", content=TextContent(type="text", text=CAPITAL))
        answer = await ctx.session.create_message([message], max_tokens=50, related_request_id=ctx.request_id)
        return f"{answer.model}: {answer.content.text}"

    @server.tool()
    async def ask_roots(ctx: Context) -> str:
        """Ask for roots. This SDK does not say what for, so that over HTTP the question belongs to no request."""
        return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


def build(**settings):
    """A server; over HTTP the settings say where and how it is reached."""
    instructions = "Ask py1-peer to echo, add or wait."
    server = FastMCP("py1-peer", instructions=instructions, log_level="ERROR", **settings)
    offer(server, Context, ToolError)
    if ASKS:
        offer_questions(server)
    return server


if __name__ == "__main__":
    main(
        lambda: build().run("stdio"),
        lambda: [
            build().streamable_http_app(),
            build(stateless_http=True, streamable_http_path="/stateless").streamable_http_app(),
            build().sse_app(),
        ],
    )
