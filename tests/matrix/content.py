"""What an upstream of each revision offers when it uses all that the revision has, and how a host of another sees it.

Nothing here is worked out by mcpx: ``Since`` marks what newer revisions added, and ``said`` leaves out what one lacks.
An item goes from an upstream of one revision to a host of another by being said in the older of the two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mcpx.spec.revisions import (
    LATEST_MODERN,
    RANK,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
)


class Since(NamedTuple):
    """A value that there is from one revision on, up to another."""

    value: Any
    since: str
    until: str = LATEST_MODERN


def said(value: Any, *revisions: str) -> Any:
    """A value in revisions' own words: without what any of them lacks."""
    if isinstance(value, Since):
        return said(value.value, *revisions)
    if isinstance(value, dict):
        return {key: said(one, *revisions) for key, one in value.items() if _there(one, revisions)}
    if isinstance(value, list):
        return [said(one, *revisions) for one in value if _there(one, revisions)]
    return value


def _there(value: Any, revisions: tuple[str, ...]) -> bool:
    return not isinstance(value, Since) or all(
        RANK[value.since] <= RANK[revision] <= RANK[value.until] for revision in revisions
    )


META = {"example.org/kept": {"a": 1.0}}
ICONS = [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]
ANNOTATIONS = {
    "audience": ["user"],
    "priority": 0.5,
    "lastModified": Since("2025-01-01T00:00:00Z", V2025_06_18),
    "x-own": 1,
}
TOOL_ANNOTATIONS = {"title": "T", "readOnlyHint": True, "openWorldHint": False}
SCHEMA = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "number"}}}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": Since(name.title(), V2025_06_18),
        "description": f"The tool {name}",
        "icons": Since(ICONS, V2025_11_25),
        "inputSchema": SCHEMA,
        "annotations": Since(TOOL_ANNOTATIONS, V2025_03_26),
        "execution": Since({"taskSupport": "forbidden"}, V2025_11_25, V2025_11_25),
        "_meta": META,
        "x-own": {"b": [1, None]},
        **more,
    }


TOOLS = [
    tool("plain"),
    tool("structured", outputSchema=Since({"type": "object", "properties": {"a": {"type": "number"}}}, V2025_06_18)),
    tool("listed", outputSchema=Since({"type": "array", "items": {"type": "number"}}, LATEST_MODERN)),
    tool("blocks"),
    tool("failing"),
    tool("broken"),
]
PROMPTS = [
    {
        "name": "greet",
        "title": Since("Greet", V2025_06_18),
        "description": "A greeting",
        "arguments": [{"name": "who", "title": Since("Who", V2025_06_18), "description": "whom", "required": True}],
        "icons": Since(ICONS, V2025_11_25),
        "_meta": META,
        "x-own": "kept",
    }
]
RESOURCES = [
    {
        "uri": "file:///notes.txt",
        "name": "notes",
        "title": Since("Notes", V2025_06_18),
        "description": "Some notes",
        "mimeType": "text/plain",
        "size": 12,
        "icons": Since(ICONS, V2025_11_25),
        "annotations": ANNOTATIONS,
        "_meta": META,
        "x-own": "kept",
    }
]
TEMPLATES = [
    {
        "uriTemplate": "file:///logs/{day}.txt",
        "name": "logs",
        "title": Since("Logs", V2025_06_18),
        "description": "A day's log",
        "mimeType": "text/plain",
        "icons": Since(ICONS, V2025_11_25),
        "annotations": ANNOTATIONS,
        "_meta": META,
        "x-own": "kept",
    }
]
TEXT = {"type": "text", "text": "words", "annotations": ANNOTATIONS, "_meta": META, "x-own": 1}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": ANNOTATIONS, "_meta": META}
AUDIO = {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav", "annotations": ANNOTATIONS, "_meta": META}
EMBEDDED = {
    "type": "resource",
    "resource": {"uri": "file:///notes.txt", "mimeType": "text/plain", "text": "note", "_meta": META},
    "annotations": ANNOTATIONS,
    "_meta": META,
}
LINK = {
    "type": "resource_link",
    "uri": "file:///linked.bin",
    "name": "linked",
    "title": Since("Linked", V2025_06_18),
    "mimeType": "application/x-linked",
    "size": 4321,
    "icons": Since(ICONS, V2025_11_25),
    "annotations": ANNOTATIONS,
    "_meta": META,
}
BLOCKS = [TEXT, IMAGE, Since(AUDIO, V2025_03_26), EMBEDDED, Since(LINK, V2025_06_18)]
# Words that stand for a block which a host's revision lacks.
REPLACED = {"audio": ["audio", "audio/wav", "6"], "resource_link": ["mcpx://one/file:///linked.bin", "linked", "4321"]}
BLOCK_SINCE = {"text": V2024_11_05, "image": V2024_11_05, "resource": V2024_11_05} | {
    "audio": V2025_03_26,
    "resource_link": V2025_06_18,
}
CONTENTS = [
    {"uri": "file:///notes.txt", "mimeType": "text/plain", "text": "note", "_meta": META, "x-own": 1},
    {"uri": "file:///blob", "blob": "AAAA"},
]


def script(revision: str) -> dict[str, Any]:
    """The script of an upstream that uses all that its revision has."""
    messages = [{"role": "user", "content": block} for block in said(BLOCKS, revision)]
    structured: dict[str, Any] = {"content": [], "structuredContent": Since({"a": 1}, V2025_06_18), "_meta": META}
    listed: dict[str, Any] = {"content": [], "structuredContent": Since([1, 2], LATEST_MODERN)}
    return {
        "tools": said(TOOLS, revision),
        "prompts": said(PROMPTS, revision),
        "resources": said(RESOURCES, revision),
        "templates": said(TEMPLATES, revision),
        "completes": {},
        "calls": {
            "structured": [{"result": said(structured, revision)}],
            "listed": [{"result": said(listed, revision)}],
            "blocks": [{"result": {"content": said(BLOCKS, revision), "x-own": "kept"}}],
            "failing": [{"result": {"content": [{"type": "text", "text": "no"}], "isError": True}}],
            "broken": [{"error": {"code": 1234, "message": "broken", "data": {"why": [1.0, None]}}}],
        },
        "gets": {"greet": [{"result": {"description": "hello", "messages": messages, "_meta": META}}]},
        "reads": {"file:///notes.txt": [{"result": {"contents": CONTENTS}}]},
    }
