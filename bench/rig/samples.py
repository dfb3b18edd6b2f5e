"""The frames that the benchmarks work on: made, not captured, and the same at every run."""

from __future__ import annotations

import base64
import json
import random
from typing import Any, NamedTuple

Json = dict[str, Any]
KiB = 1024


class Sample(NamedTuple):
    """One frame as it comes off a pipe, newline included."""

    name: str
    stream: bytes
    holds: str  # "call" or "tools", which have names to rewrite, or "result"


def _padded(frame: Json, size: int, holder: Json, key: str) -> bytes:
    """The frame as a line of exactly ``size`` bytes: one of its texts is made as long as that takes."""
    holder[key] = ""
    missing = size - len(encoded(frame)) - 1
    assert missing >= 0
    holder[key] = "The quick brown fox jumps over the lazy dog. "[:missing].ljust(missing, "x")
    return encoded(frame) + b"\n"


def encoded(frame: Json) -> bytes:
    return json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode()


def _tool(number: int) -> Json:
    fields = ("path", "pattern", "recursive", "limit")
    return {
        "name": f"search_files_{number}",
        "title": f"Search files {number}",
        "description": "Search the tree below a path for files whose names match a pattern. Returns their full paths.",
        "inputSchema": {
            "type": "object",
            "properties": {name: {"type": "string", "description": f"The {name} of the search"} for name in fields},
            "required": ["path", "pattern"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def samples() -> list[Sample]:
    text: Json = {"type": "text", "text": ""}
    note: Json = {"note": ""}
    arguments: Json = {"path": "/srv", "pattern": ""}
    hits = [{"path": f"/srv/project/module_{n}.py", "line": n * 7, "score": n / 8} for n in range(16)]
    pixels = base64.b64encode(random.Random(17).randbytes(765 * KiB)).decode()
    image = {"type": "image", "data": pixels, "mimeType": "image/png"}

    call = {"name": "search_files", "arguments": arguments, "_meta": {"progressToken": 17}}
    request = {"jsonrpc": "2.0", "id": 17, "method": "tools/call", "params": call}
    short = _result({"content": [text], "isError": False})
    structured = _result({"content": [text], "structuredContent": {"hits": hits}, "isError": False})
    tools = _result({"tools": [_tool(n) for n in range(160)], "_meta": note})
    picture = _result({"content": [text, image], "isError": False})
    return [
        Sample("request 200 B", _padded(request, 200, arguments, "pattern"), "call"),
        Sample("response 200 B", _padded(short, 200, text, "text"), "result"),
        Sample("tool result 2 KB", _padded(structured, 2 * KiB, text, "text"), "result"),
        Sample("tool list 100 KB", _padded(tools, 100 * KiB, note, "note"), "tools"),
        Sample("image 1 MB", _padded(picture, KiB * KiB, text, "text"), "result"),
    ]


def _result(result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": 17, "result": result}
