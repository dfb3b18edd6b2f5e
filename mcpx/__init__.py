"""mcpx: one MCP server in front of all of a person's MCP servers, every revision in both directions."""

__version__ = "0.1.0"
