"""A server of HTTP+SSE, as 2024-11-05 had it, on the scripted HTTP server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.spec.revisions import V2024_11_05
from tests.support.http_up import TOOLS, initialized

if TYPE_CHECKING:
    from tests.support.http_up import Asked, Reply

OK = {"content": [{"type": "text", "text": "done"}]}


class OldServer:
    """A server of HTTP+SSE: one stream at a time, and an address to post to."""

    def __init__(self, revision: str = V2024_11_05, endpoint: str = "/messages?session=1") -> None:
        self.revision = revision
        self.endpoint = endpoint
        self.stream: Reply | None = None
        self.streams = 0
        self.post_status = 202

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        if asked.method == "GET":
            self.streams += 1
            self.stream = reply
            await reply.events()
            await reply.event(self.endpoint.encode(), event="endpoint")
            await reply.hang()
        elif asked.target == "/mcp":
            await reply.text(405)
        elif asked.target.startswith("/messages"):
            await reply.send(self.post_status)
            if self.post_status == 202:
                await self.answer(asked)
        else:
            await reply.text(404)

    async def answer(self, asked: Asked) -> None:
        assert self.stream is not None
        results = {"initialize": initialized(self.revision), "tools/list": TOOLS, "tools/call": OK}
        if asked.kind in results:
            frame = {"jsonrpc": "2.0", "id": asked.frame["id"], "result": results[asked.kind]}
            await self.stream.event(frame)
        elif "id" in asked.frame:
            error = {"code": -32601, "message": "Method not found"}
            await self.stream.event({"jsonrpc": "2.0", "id": asked.frame["id"], "error": error})
