"""What a server offers (tools, prompts, resources, templates), a host's roots, and how both present themselves."""

from __future__ import annotations

from mcpx.spec.fields import Union, may, need, record
from mcpx.spec.revisions import V2025_03_26, V2025_06_18, V2025_11_25

_TITLE = may("title", V2025_06_18)
_ICONS = may("icons", V2025_11_25, of="Icon", shape="list")
_META = may("_meta", V2025_06_18)

RECORDS = (
    record(
        "Tool",
        need("name"),
        _TITLE,
        may("description"),
        need("inputSchema"),
        may("outputSchema", V2025_06_18),
        may("annotations", V2025_03_26, of="ToolAnnotations"),
        may("execution", V2025_11_25, V2025_11_25, of="ToolExecution"),
        _ICONS,
        _META,
    ),
    record(
        "ToolAnnotations",
        may("title", V2025_03_26),
        may("readOnlyHint", V2025_03_26),
        may("destructiveHint", V2025_03_26),
        may("idempotentHint", V2025_03_26),
        may("openWorldHint", V2025_03_26),
    ),
    record("ToolExecution", may("taskSupport", V2025_11_25, V2025_11_25)),
    record(
        "Prompt",
        need("name"),
        _TITLE,
        may("description"),
        may("arguments", of="PromptArgument", shape="list"),
        _ICONS,
        _META,
    ),
    record("PromptArgument", need("name"), _TITLE, may("description"), may("required")),
    record(
        "Resource",
        need("uri"),
        need("name"),
        _TITLE,
        may("description"),
        may("mimeType"),
        may("size"),
        may("annotations", of="Annotations"),
        _ICONS,
        _META,
    ),
    record(
        "ResourceTemplate",
        need("uriTemplate"),
        need("name"),
        _TITLE,
        may("description"),
        may("mimeType"),
        may("annotations", of="Annotations"),
        _ICONS,
        _META,
    ),
    record("PromptReference", need("type"), need("name"), _TITLE),
    record("ResourceTemplateReference", need("type"), need("uri")),
    record("Root", need("uri"), may("name"), _META),
    record(
        "Implementation",
        need("name"),
        _TITLE,
        need("version"),
        may("description", V2025_11_25),
        may("websiteUrl", V2025_11_25),
        _ICONS,
    ),
    record(
        "Icon",
        need("src", V2025_11_25),
        may("mimeType", V2025_11_25),
        may("sizes", V2025_11_25),
        may("theme", V2025_11_25),
    ),
)

UNIONS = (Union("Reference", by_tag={"ref/prompt": "PromptReference", "ref/resource": "ResourceTemplateReference"}),)
