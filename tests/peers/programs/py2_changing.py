"""A server on the Python SDK 2.x whose tools and resource change: see ``ts2_changing.mjs``."""

import os

from mcp.server.mcpserver import Context, MCPServer
from py_server import main


def build():
    """A server."""
    server = MCPServer("changing-py2", version="2.0.0", log_level="ERROR")
    added: list[str] = []

    @server.tool()
    async def change(ctx: Context) -> str:
        """Change."""
        added.append(f"added_{len(added) + 1}")
        server.add_tool(lambda: "added", name=added[-1], description="Was added.")
        await ctx.notify_tools_changed()
        await ctx.notify_resource_updated("peer://motto")
        return str(len(added))

    @server.tool()
    async def die() -> str:
        """End."""
        os._exit(7)

    @server.resource("peer://motto", mime_type="text/plain")
    def motto() -> str:
        """A line of text."""
        return f"motto {len(added)}"

    return server


if __name__ == "__main__":
    main(lambda: build().run("stdio"), lambda: [build().streamable_http_app()])
