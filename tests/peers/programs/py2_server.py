"""A server on the Python SDK 2.x, as its users write one: MCPServer and decorators. It speaks both eras.

See ``py_server.main``.
"""

from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from py_server import CAPITAL, NAME, Person, main, offer
from record import ASKS


def for_name() -> Elicit[Person]:
    """The question for a name."""
    return Elicit(NAME, Person)


def for_capital() -> Sample:
    """The question for the host's model."""
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=CAPITAL))], max_tokens=50)


def for_roots() -> ListRoots:
    """The question for roots."""
    return ListRoots()


def offer_questions(server):
    """Give the server the tools that ask, which this SDK does in either era: by a request, or in the result."""

    @server.tool()
    def ask_name(outcome: Annotated[ElicitationResult[Person], Resolve(for_name)]) -> str:
        """Ask for a name."""
        return f"accept {outcome.data.name}" if outcome.action == "accept" else outcome.action

    @server.tool()
    def ask_model(answer: Annotated[CreateMessageResult, Resolve(for_capital)]) -> str:
        """Ask the host's model."""
        return f"{answer.model}: {answer.content.text}"

    @server.tool()
    def ask_roots(answer: Annotated[ListRootsResult, Resolve(for_roots)]) -> str:
        """Ask for roots."""
        return " ".join(str(root.uri) for root in answer.roots)


def build():
    """A server."""
    instructions = "Ask py2-peer to echo, add or wait."
    server = MCPServer("py2-peer", version="2.0.0", instructions=instructions, log_level="ERROR")
    offer(server, Context, ToolError)
    if ASKS:
        offer_questions(server)
    return server


if __name__ == "__main__":
    main(
        lambda: build().run("stdio"),
        lambda: [
            build().streamable_http_app(),
            build().streamable_http_app(stateless_http=True, streamable_http_path="/stateless"),
            build().sse_app(),
        ],
    )
