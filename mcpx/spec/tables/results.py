"""Results, and the metadata in them."""

from __future__ import annotations

from mcpx.spec.fields import may, need, record
from mcpx.spec.meta import SERVER_INFO, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, V2025_06_18, V2026_07_28
from mcpx.spec.tables.tasks import ONLY, STATE

_META = may("_meta", of="ResultMetaObject")
_TYPE = need("resultType", V2026_07_28)
_CACHED = (_TYPE, need("ttlMs", V2026_07_28), need("cacheScope", V2026_07_28))
_PAGED = (_META, *_CACHED, may("nextCursor"))
_ONLY_META = may("_meta", *ONLY, of="ResultMetaObject")

RECORDS = (
    record("EmptyResult", _META, _TYPE),
    record(
        "InitializeResult",
        may("_meta", until=LATEST_LEGACY, of="ResultMetaObject"),
        need("protocolVersion", until=LATEST_LEGACY),
        need("capabilities", until=LATEST_LEGACY, of="ServerCapabilities"),
        need("serverInfo", until=LATEST_LEGACY, of="Implementation"),
        may("instructions", until=LATEST_LEGACY),
    ),
    record(
        "DiscoverResult",
        may("_meta", V2026_07_28, of="ResultMetaObject"),
        *_CACHED,
        need("supportedVersions", V2026_07_28),
        need("capabilities", V2026_07_28, of="ServerCapabilities"),
        may("instructions", V2026_07_28),
    ),
    record("ListToolsResult", *_PAGED, need("tools", of="Tool", shape="list")),
    record("ListPromptsResult", *_PAGED, need("prompts", of="Prompt", shape="list")),
    record("ListResourcesResult", *_PAGED, need("resources", of="Resource", shape="list")),
    record("ListResourceTemplatesResult", *_PAGED, need("resourceTemplates", of="ResourceTemplate", shape="list")),
    record(
        "CallToolResult",
        _META,
        _TYPE,
        need("content", of="ContentBlock", shape="list"),
        may("structuredContent", V2025_06_18),
        may("isError"),
    ),
    record("GetPromptResult", _META, _TYPE, may("description"), need("messages", of="PromptMessage", shape="list")),
    record("ReadResourceResult", _META, *_CACHED, need("contents", of="ResourceContents", shape="list")),
    record("CompleteResult", _META, _TYPE, need("completion", of="CompleteResult.completion")),
    record("CompleteResult.completion", need("values"), may("total"), may("hasMore")),
    record(
        "InputRequiredResult",
        may("_meta", V2026_07_28, of="ResultMetaObject"),
        _TYPE,
        may("inputRequests", V2026_07_28),
        may("requestState", V2026_07_28),
    ),
    record(
        "SubscriptionsListenResult",
        need("_meta", V2026_07_28, of="SubscriptionsListenResultMetaObject"),
        _TYPE,
    ),
    record("Task", *STATE),
    record("TaskMetadata", may("ttl", *ONLY)),
    record("CreateTaskResult", _ONLY_META, need("task", *ONLY, of="Task")),
    record("GetTaskResult", _ONLY_META, *STATE),
    record("CancelTaskResult", _ONLY_META, *STATE),
    record("GetTaskPayloadResult", _ONLY_META),
    record("ListTasksResult", _ONLY_META, may("nextCursor", *ONLY), need("tasks", *ONLY, of="Task", shape="list")),
    record("ResultMetaObject", may(SERVER_INFO, V2026_07_28, of="Implementation")),
    record(
        "SubscriptionsListenResultMetaObject",
        may(SERVER_INFO, V2026_07_28, of="Implementation"),
        need(SUBSCRIPTION_ID, V2026_07_28),
    ),
)
