"""A server that tells of changes as fast as it can, of either era: the standard library alone, on stdin and stdout.

    python noisy.py modern|legacy REVISION

It offers the tool ``storm``, which says ``count`` times that its tools and that the resource ``noise://one`` have
changed, and is answered behind all of them; ``tally``, which says how often each method was asked for; and a tool whose
name tells how often the list has changed, so that it shows which list a host has.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

URI = "noise://one"
META = "io.modelcontextprotocol/"
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"listChanged": True, "subscribe": True}}
INFO = {"name": "noisy", "version": "1"}
Message = dict[str, Any]


class Noisy:
    """The server. What it writes it collects, so that a storm is few writes."""

    def __init__(self, era: str, revision: str) -> None:
        self._modern = era == "modern"
        self._revision = revision
        self._asked: Counter[str] = Counter()
        self._changes = 0
        self._streams: dict[str, Any] = {}  # of open listen streams: the id, by how it is spelt

    def run(self) -> None:
        for line in sys.stdin:
            frame = json.loads(line)
            if "id" in frame and "method" in frame:
                self._serve(frame)
            elif frame.get("method") == "notifications/cancelled":
                self._streams.pop(json.dumps(frame["params"]["requestId"]), None)
            sys.stdout.flush()

    def _serve(self, frame: Message) -> None:
        method: str = frame["method"]
        params: Message = frame.get("params") or {}
        self._asked[method] += 1
        if method == "subscriptions/listen" and self._modern:
            self._streams[json.dumps(frame["id"])] = frame["id"]
            told = {"notifications": params["notifications"], "_meta": {META + "subscriptionId": frame["id"]}}
            self._say(method="notifications/subscriptions/acknowledged", params=told)
            return
        result = self._result(method, params)
        if result is None:
            self._say(id=frame["id"], error={"code": -32601, "message": "Method not found"})
            return
        if self._modern:
            cached = {"ttlMs": 0, "cacheScope": "public"} if method.endswith(("/list", "discover")) else {}
            result = {"resultType": "complete", "_meta": {META + "serverInfo": INFO}, **cached, **result}
        self._say(id=frame["id"], result=result)

    def _result(self, method: str, params: Message) -> Message | None:
        match method:
            case "server/discover" if self._modern:
                return {"supportedVersions": [self._revision], "capabilities": CAPABILITIES}
            case "initialize" if not self._modern:
                return {"protocolVersion": self._revision, "capabilities": CAPABILITIES, "serverInfo": INFO}
            case "resources/subscribe" | "resources/unsubscribe" if not self._modern:
                return {}
            case "tools/list":
                names = ("storm", "tally", f"changed_{self._changes}")
                return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
            case "resources/list":
                return {"resources": [{"uri": URI, "name": "one"}]}
            case "tools/call" if params["name"] == "storm":
                for _ in range(params["arguments"]["count"]):
                    self._change()
                return {"content": [{"type": "text", "text": str(self._changes)}]}
            case "tools/call":
                return {"content": [{"type": "text", "text": json.dumps(self._asked)}]}
            case _:
                return None

    def _change(self) -> None:
        self._changes += 1
        tags: list[Message] = [{}]
        if self._modern:
            tags = [{"_meta": {META + "subscriptionId": id}} for id in self._streams.values()]
        for tag in tags:
            self._say(method="notifications/tools/list_changed", params=tag)
            self._say(method="notifications/resources/updated", params={"uri": URI, **tag})

    def _say(self, **frame: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")


if __name__ == "__main__":
    Noisy(*sys.argv[1:]).run()
