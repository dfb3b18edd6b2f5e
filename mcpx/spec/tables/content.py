"""Content: blocks of tool results, prompts and sampling, and the contents of resources."""

from __future__ import annotations

from mcpx.spec.fields import Union, may, need, record
from mcpx.spec.revisions import V2025_03_26, V2025_06_18, V2025_11_25
from mcpx.spec.span import ALWAYS, Span

# Kinds of content block: the value of `type`, and when it exists.
KINDS: dict[str, Span] = {
    "text": ALWAYS,
    "image": ALWAYS,
    "audio": Span(V2025_03_26),
    "resource": ALWAYS,
    "resource_link": Span(V2025_06_18),
    "tool_use": Span(V2025_11_25),  # in sampling only, as is the next
    "tool_result": Span(V2025_11_25),
}

_ANNOTATIONS = may("annotations", of="Annotations")
_META = may("_meta", V2025_06_18)

RECORDS = (
    record("Annotations", may("audience"), may("priority"), may("lastModified", V2025_06_18)),
    record("TextContent", need("type"), need("text"), _ANNOTATIONS, _META),
    record("ImageContent", need("type"), need("data"), need("mimeType"), _ANNOTATIONS, _META),
    record(
        "AudioContent",
        need("type", V2025_03_26),
        need("data", V2025_03_26),
        need("mimeType", V2025_03_26),
        may("annotations", V2025_03_26, of="Annotations"),
        _META,
    ),
    record("EmbeddedResource", need("type"), need("resource", of="ResourceContents"), _ANNOTATIONS, _META),
    record("TextResourceContents", need("uri"), may("mimeType"), need("text"), _META),
    record("BlobResourceContents", need("uri"), may("mimeType"), need("blob"), _META),
    record(
        "ResourceLink",
        need("type", V2025_06_18),
        need("uri", V2025_06_18),
        need("name", V2025_06_18),
        may("title", V2025_06_18),
        may("description", V2025_06_18),
        may("mimeType", V2025_06_18),
        may("size", V2025_06_18),
        may("annotations", V2025_06_18, of="Annotations"),
        may("icons", V2025_11_25, of="Icon", shape="list"),
        _META,
    ),
    record(
        "ToolUseContent",
        need("type", V2025_11_25),
        need("id", V2025_11_25),
        need("name", V2025_11_25),
        need("input", V2025_11_25),
        may("_meta", V2025_11_25),
    ),
    record(
        "ToolResultContent",
        need("type", V2025_11_25),
        need("toolUseId", V2025_11_25),
        need("content", V2025_11_25, of="ContentBlock", shape="list"),
        may("structuredContent", V2025_11_25),
        may("isError", V2025_11_25),
        may("_meta", V2025_11_25),
    ),
    record("PromptMessage", need("role"), need("content", of="ContentBlock")),
    record(
        "SamplingMessage",
        need("role"),
        need("content", of="SamplingMessageContentBlock", shape="one or list"),
        may("_meta", V2025_11_25),
    ),
)

UNIONS = (
    Union(
        "ContentBlock",
        by_tag={
            "text": "TextContent",
            "image": "ImageContent",
            "audio": "AudioContent",
            "resource": "EmbeddedResource",
            "resource_link": "ResourceLink",
        },
    ),
    Union(
        "SamplingMessageContentBlock",
        by_tag={
            "text": "TextContent",
            "image": "ImageContent",
            "audio": "AudioContent",
            "tool_use": "ToolUseContent",
            "tool_result": "ToolResultContent",
        },
    ),
    Union("ResourceContents", by_key={"text": "TextResourceContents", "blob": "BlobResourceContents"}),
)
