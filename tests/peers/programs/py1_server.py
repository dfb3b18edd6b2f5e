"""A server on the Python SDK 1.x, as its users write one: FastMCP and decorators. See ``py_server.main``."""

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from py_server import main, offer


def build(**settings):
    """A server; over HTTP the settings say where and how it is reached."""
    instructions = "Ask py1-peer to echo, add or wait."
    server = FastMCP("py1-peer", instructions=instructions, log_level="ERROR", **settings)
    offer(server, Context, ToolError)
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
