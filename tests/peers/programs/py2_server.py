"""A server on the Python SDK 2.x, as its users write one: MCPServer and decorators. It speaks both eras.

See ``py_server.main``.
"""

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from py_server import main, offer


def build():
    """A server."""
    instructions = "Ask py2-peer to echo, add or wait."
    server = MCPServer("py2-peer", version="2.0.0", instructions=instructions, log_level="ERROR")
    offer(server, Context, ToolError)
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
