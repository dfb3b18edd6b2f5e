"""A stdio server on the Python SDK 1.x, as its users write one: FastMCP and decorators."""

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from py_server import serve

if __name__ == "__main__":
    server = FastMCP("py1-peer", instructions="Ask py1-peer to echo, add or wait.", log_level="ERROR")
    serve(server, Context, ToolError)
