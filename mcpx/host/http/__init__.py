"""Hosts by HTTP: Streamable HTTP of every revision on ``/mcp``, the older HTTP with events, WebSocket, and status.

``serve`` says what there is at which path, ``guard`` who may come in (``access`` is what that is planned from).
``endpoint`` is ``/mcp``; ``legacy_sse`` and ``websocket`` are duplexes of messages like any other; ``status`` is what
``/v1`` tells.
"""

from mcpx.host.http.access import Access, check_token, plan_access
from mcpx.host.http.serve import serve_http

__all__ = ["Access", "check_token", "plan_access", "serve_http"]
