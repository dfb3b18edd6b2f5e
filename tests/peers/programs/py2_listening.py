"""A host on the Python SDK 2.x that listens for changes: see ``ts2_listening.mjs``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.subscriptions import ResourceUpdated
from py2_client import server_of
from tour import Plan, report, wire

PATIENCE = 20.0


class Listener:
    """What a stream told, and how it ended."""

    def __init__(self, client: Client, plan: Plan, expected: list[str]) -> None:
        self.client = client
        self.plan = plan
        self.expected = expected
        self.heard: Counter[str] = Counter()
        self.ended = "graceful"
        self.news = asyncio.Condition()

    async def read(self, stream: Any) -> None:
        """Take every event until the stream ends."""
        try:
            async for event in stream:
                async with self.news:
                    self.heard[event.uri if isinstance(event, ResourceUpdated) else "tools"] += 1
                    self.news.notify_all()
        except SubscriptionLost:
            self.ended = "remote"

    async def hear(self, before: Counter[str]) -> None:
        """Wait until all that is expected was heard once more."""
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: all(self.heard[what] > before[what] for what in self.expected))

    async def change(self) -> list[str]:
        """Have the server change, wait for word of it, and list its tools."""
        before = self.heard.copy()
        await self.client.call_tool(self.plan.named("change"), {})
        await self.hear(before)
        return [tool.name for tool in (await self.client.list_tools()).tools]


async def main(plan: Plan, more: dict[str, Any]) -> None:
    motto = plan.uri("peer://motto")
    findings: dict[str, Any] = {}
    async with Client(server_of(plan), mode=plan.mode, read_timeout_seconds=30) as client:
        listener = Listener(client, plan, more["expect"])
        async with client.listen(tools_list_changed=True, resource_subscriptions=[motto]) as stream:
            findings["honoured"] = wire(stream.honored)
            reading = asyncio.ensure_future(listener.read(stream))
            findings["tools"] = await listener.change()
            if more.get("die"):
                before = listener.heard.copy()
                try:
                    await client.call_tool(plan.named("die"), {})
                except MCPError as error:
                    findings["died"] = error.error.message
                await listener.hear(before)
                findings["afterwards"] = await listener.change()
            if more.get("stay"):
                print("staying", file=sys.stderr, flush=True)
                await reading
                findings["ended"] = listener.ended
        if not more.get("stay"):
            await reading
            findings["ended"] = "local"
        findings["heard"] = list(listener.heard)
    report(**findings)


if __name__ == "__main__":
    asyncio.run(main(Plan(sys.argv[1:]), json.loads(sys.argv[1])))
