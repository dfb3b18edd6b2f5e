"""What a function of an app may raise, and what becomes of what it raises without meaning to."""

from __future__ import annotations

from mcpx.errors import McpxError


class ToolError(McpxError):
    """Raise it in a tool to tell the model what went wrong and what to do about it: the message is the tool's result.

    The result is marked ``isError`` (2026-07-28 server/tools, Error Handling). Raised where a prompt or resource is
    made, whose results have no such mark, it is a JSON-RPC error with that message.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.encode("utf-8", "replace").decode())  # a file's name, for one, may be no Unicode text


class FunctionBug(McpxError):
    """A function raised what it did not mean to. The message names the function; the traceback is in the log."""
