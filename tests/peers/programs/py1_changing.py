"""A server on the Python SDK 1.x whose tools and resource change: see ``ts2_changing.mjs``.

As its users write one, FastMCP tells of changes that it does not declare, and has no say in what it declares.
"""

import os

from mcp.server.fastmcp import Context, FastMCP
from py_server import main


def build(**settings):
    """A server."""
    server = FastMCP("changing-py1", log_level="ERROR", **settings)
    added: list[str] = []

    @server.tool()
    async def change(ctx: Context) -> str:
        """Change."""
        added.append(f"added_{len(added) + 1}")
        server.add_tool(lambda: "added", name=added[-1], description="Was added.")
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_resource_updated("peer://motto")
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
