"""The params of requests and notifications, but for those of questions."""

from __future__ import annotations

from mcpx.spec.fields import may, need, record
from mcpx.spec.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    SUBSCRIPTION_ID,
)
from mcpx.spec.revisions import LATEST_LEGACY, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28
from mcpx.spec.tables.tasks import ASKED, ONLY, STATE

_META = may("_meta", of="RequestMetaObject", needed_in=(V2026_07_28,))
_LEGACY_META = may("_meta", until=LATEST_LEGACY, of="RequestMetaObject")
_MODERN_META = need("_meta", V2026_07_28, of="RequestMetaObject")
_NOTE_META = may("_meta", of="NotificationMetaObject")
_ANSWERS = (may("inputResponses", V2026_07_28), may("requestState", V2026_07_28))

RECORDS = (
    record(
        "RequestMetaObject",
        may(PROGRESS_TOKEN),
        need(PROTOCOL_VERSION, V2026_07_28),
        need(CLIENT_CAPABILITIES, V2026_07_28, of="ClientCapabilities"),
        may(CLIENT_INFO, V2026_07_28, of="Implementation"),
        may(LOG_LEVEL, V2026_07_28),
    ),
    record("NotificationMetaObject", may(SUBSCRIPTION_ID, V2026_07_28)),
    # requests
    record("RequestParams", _META),
    record(
        "InitializeRequestParams",
        _LEGACY_META,
        need("protocolVersion", until=LATEST_LEGACY),
        need("capabilities", until=LATEST_LEGACY, of="ClientCapabilities"),
        need("clientInfo", until=LATEST_LEGACY, of="Implementation"),
    ),
    record("PaginatedRequestParams", _META, may("cursor")),
    record("CallToolRequestParams", _META, need("name"), may("arguments"), ASKED, *_ANSWERS),
    record("GetPromptRequestParams", _META, need("name"), may("arguments"), *_ANSWERS),
    record("ReadResourceRequestParams", _META, need("uri"), *_ANSWERS),
    record("SubscribeRequestParams", _LEGACY_META, need("uri", until=LATEST_LEGACY)),
    record("UnsubscribeRequestParams", _LEGACY_META, need("uri", until=LATEST_LEGACY)),
    record("SetLevelRequestParams", _LEGACY_META, need("level", until=LATEST_LEGACY)),
    record(
        "SubscriptionsListenRequestParams",
        _MODERN_META,
        need("notifications", V2026_07_28, of="SubscriptionFilter"),
    ),
    record(
        "SubscriptionFilter",
        may("toolsListChanged", V2026_07_28),
        may("promptsListChanged", V2026_07_28),
        may("resourcesListChanged", V2026_07_28),
        may("resourceSubscriptions", V2026_07_28),
    ),
    record(
        "CompleteRequestParams",
        _META,
        need("ref", of="Reference"),
        need("argument", of="CompleteRequestParams.argument"),
        may("context", V2025_06_18, of="CompleteRequestParams.context"),
    ),
    record("CompleteRequestParams.argument", need("name"), need("value")),
    record("CompleteRequestParams.context", may("arguments", V2025_06_18)),
    record("GetTaskRequestParams", need("taskId", *ONLY)),
    record("GetTaskPayloadRequestParams", need("taskId", *ONLY)),
    record("CancelTaskRequestParams", need("taskId", *ONLY)),
    # notifications
    record("NotificationParams", _NOTE_META),
    record(
        "CancelledNotificationParams",
        _NOTE_META,
        need("requestId", optional_in=(V2025_11_25,)),
        may("reason"),
    ),
    record(
        "ProgressNotificationParams",
        _NOTE_META,
        need("progressToken"),
        need("progress"),
        may("total"),
        may("message", V2025_03_26),
    ),
    record("LoggingMessageNotificationParams", _NOTE_META, need("level"), may("logger"), need("data")),
    record("ResourceUpdatedNotificationParams", _NOTE_META, need("uri")),
    record(
        "SubscriptionsAcknowledgedNotificationParams",
        may("_meta", V2026_07_28, of="NotificationMetaObject"),
        need("notifications", V2026_07_28, of="SubscriptionFilter"),
    ),
    record(
        "TaskStatusNotificationParams",
        may("_meta", *ONLY, of="NotificationMetaObject"),
        *STATE,
    ),
    record("ElicitationCompleteNotificationParams", need("elicitationId", V2025_11_25, V2025_11_25)),
)
