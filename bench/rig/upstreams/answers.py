"""What the minimal servers answer, of either era: one frame in, one frame or none out, as bytes."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from json.encoder import encode_basestring_ascii
from typing import Any

Message = dict[str, Any]
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = "2026-07-28"
METHOD_NOT_FOUND, INVALID_PARAMS, UNSUPPORTED_VERSION = -32601, -32602, -32022
INFO = {"name": "minimal", "version": "1"}
CAPABILITIES: Message = {"tools": {}}
IMAGE_BYTES = 765 * 1024  # which are 1 MB in base64
ECHO = {
    "name": "echo",
    "description": "Gives back the text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
LARGE = {"name": "large", "description": "Gives an image of 1 MB.", "inputSchema": {"type": "object"}}


def image() -> str:
    """The data of the image: the same at every run."""
    return b64encode(random.Random(17).randbytes(IMAGE_BYTES)).decode()


def tool(number: int) -> Message:
    """One of the further tools, which all do what ``echo`` does."""
    return {**ECHO, "name": f"echo_{number}", "description": f"Gives back the text, as number {number}."}


class Answers:
    """The server, whatever it is reached by."""

    def __init__(self, era: str, tools: int) -> None:
        self._modern = era == "modern"
        signed = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
        self._every: Message = signed if self._modern else {}  # what every result has
        self._listed: Message = {"ttlMs": 60_000, "cacheScope": "public"} if self._modern else {}
        self._tools = [ECHO, LARGE, *(tool(number) for number in range(3, tools + 1))]
        text = self._result([{"type": "text", "text": ""}])
        self._before, _, self._behind = text.rpartition('""')  # the text of an echo stands between them
        self._large = self._result([{"type": "image", "data": image(), "mimeType": "image/png"}])

    def answer(self, line: bytes) -> bytes | None:
        """The answer to a frame, newline included; ``None`` for a notification."""
        frame = json.loads(line)
        id = frame.get("id")
        if id is None:
            return None
        written = str(id) if type(id) is int else json.dumps(id)
        if frame["method"] == "tools/call":
            return self._call(written, frame["params"])
        return self._other(written, frame["method"], frame.get("params") or {})

    def _result(self, content: list[Message]) -> str:
        """All of a call's answer behind the id."""
        result = {**self._every, "content": content}
        return f',"result":{json.dumps(result, separators=(",", ":"))}}}\n'

    def _call(self, id: str, params: Message) -> bytes:
        name = params["name"]
        if name == "large":
            return f'{{"jsonrpc":"2.0","id":{id}{self._large}'.encode()
        if name.startswith("echo"):
            text = encode_basestring_ascii(params["arguments"]["text"])
            return f'{{"jsonrpc":"2.0","id":{id}{self._before}{text}{self._behind}'.encode()
        return _error(id, INVALID_PARAMS, f"Unknown tool: {name}")

    def _other(self, id: str, method: str, params: Message) -> bytes:
        match method:
            case "server/discover" if self._modern:
                result: Message = {**self._listed, "supportedVersions": [MODERN], "capabilities": CAPABILITIES}
            case "initialize" if self._modern:
                data = {"supported": [MODERN], "requested": params.get("protocolVersion")}
                return _error(id, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
            case "initialize":
                asked = params.get("protocolVersion")
                version = asked if asked in LEGACY else LEGACY[0]
                result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
            case "ping" if not self._modern:
                result = {}
            case "tools/list":
                result = {**self._listed, "tools": self._tools}
            case _:
                return _error(id, METHOD_NOT_FOUND, f"Method not found: {method}")
        return f'{{"jsonrpc":"2.0","id":{id},"result":{json.dumps({**self._every, **result})}}}\n'.encode()


def _error(id: str, code: int, message: str, data: Message | None = None) -> bytes:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return f'{{"jsonrpc":"2.0","id":{id},"error":{json.dumps(error)}}}\n'.encode()
