"""A stdio server on the Python SDK 2.x, as its users write one: MCPServer and decorators. It speaks both eras."""

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from py_server import serve

if __name__ == "__main__":
    instructions = "Ask py2-peer to echo, add or wait."
    server = MCPServer("py2-peer", version="2.0.0", instructions=instructions, log_level="ERROR")
    serve(server, Context, ToolError)
