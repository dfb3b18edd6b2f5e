"""Every method of every revision: who may send it, since and until when, and what its params and result are.

Taken from the unions ``ClientRequest``, ``ServerRequest``, ``ClientNotification`` and ``ServerNotification`` of the
schemas. In 2026-07-28 a server sends no requests: what it wants to know is an input request inside a result
(``Method.question``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mcpx.spec.revisions import LATEST_LEGACY, RANK, V2025_06_18, V2025_11_25, V2026_07_28
from mcpx.spec.span import ALWAYS, Span

Sender = Literal["host", "upstream"]
Kind = Literal["request", "notification"]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method. ``params`` and ``result`` name types of ``mcpx.spec.fields``."""

    name: str
    kind: Kind
    host: Span | None = None  # when a host may send it
    upstream: Span | None = None  # when an upstream may send it
    params: str
    result: str | None = None  # None for a notification
    question: Span | None = None  # when it is put inside a result instead of being sent
    interrupts: Span | None = None  # when its result may be an ``InputRequiredResult``
    cached: Span | None = None  # when its result carries ``ttlMs`` and ``cacheScope``

    @property
    def sender(self) -> Literal["host", "upstream", "both"]:
        """Who sends it, in whichever revision."""
        if self.host is None:
            return "upstream"
        return "host" if self.upstream is None else "both"

    @property
    def since(self) -> str:
        """The first revision in which anyone sends it."""
        return min((span.since for span in self._spans()), key=RANK.__getitem__)

    @property
    def until(self) -> str | None:
        """The last revision in which anyone sends it; ``None`` where the newest still has it."""
        ends = [span.until for span in self._spans()]
        if None in ends:
            return None
        return max((end for end in ends if end is not None), key=RANK.__getitem__)

    def span(self, sender: Sender) -> Span | None:
        """When ``sender`` may send it; ``None`` for never."""
        return self.host if sender == "host" else self.upstream

    def _spans(self) -> list[Span]:
        return [span for span in (self.host, self.upstream) if span is not None]


_LEGACY = Span(until=LATEST_LEGACY)
_MODERN = Span(V2026_07_28)
_TASKS = Span(V2025_11_25, V2025_11_25)
_ELICITS = Span(V2025_06_18, LATEST_LEGACY)


def _request(
    name: str,
    params: str,
    result: str,
    *,
    host: Span | None = None,
    upstream: Span | None = None,
    question: Span | None = None,
    interrupts: Span | None = None,
    cached: Span | None = None,
) -> Method:
    return Method(
        name=name,
        kind="request",
        params=params,
        result=result,
        host=host,
        upstream=upstream,
        question=question,
        interrupts=interrupts,
        cached=cached,
    )


def _notification(name: str, params: str, *, host: Span | None = None, upstream: Span | None = None) -> Method:
    return Method(name=name, kind="notification", params=params, host=host, upstream=upstream)


_ROWS = (
    _request("initialize", "InitializeRequestParams", "InitializeResult", host=_LEGACY),
    _request("server/discover", "RequestParams", "DiscoverResult", host=_MODERN, cached=_MODERN),
    _request("ping", "RequestParams", "EmptyResult", host=_LEGACY, upstream=_LEGACY),
    _request("tools/list", "PaginatedRequestParams", "ListToolsResult", host=ALWAYS, cached=_MODERN),
    _request("tools/call", "CallToolRequestParams", "CallToolResult", host=ALWAYS, interrupts=_MODERN),
    _request("prompts/list", "PaginatedRequestParams", "ListPromptsResult", host=ALWAYS, cached=_MODERN),
    _request("prompts/get", "GetPromptRequestParams", "GetPromptResult", host=ALWAYS, interrupts=_MODERN),
    _request("resources/list", "PaginatedRequestParams", "ListResourcesResult", host=ALWAYS, cached=_MODERN),
    _request(
        "resources/templates/list",
        "PaginatedRequestParams",
        "ListResourceTemplatesResult",
        host=ALWAYS,
        cached=_MODERN,
    ),
    _request(
        "resources/read",
        "ReadResourceRequestParams",
        "ReadResourceResult",
        host=ALWAYS,
        interrupts=_MODERN,
        cached=_MODERN,
    ),
    _request("resources/subscribe", "SubscribeRequestParams", "EmptyResult", host=_LEGACY),
    _request("resources/unsubscribe", "UnsubscribeRequestParams", "EmptyResult", host=_LEGACY),
    _request("subscriptions/listen", "SubscriptionsListenRequestParams", "SubscriptionsListenResult", host=_MODERN),
    _request("completion/complete", "CompleteRequestParams", "CompleteResult", host=ALWAYS),
    _request("logging/setLevel", "SetLevelRequestParams", "EmptyResult", host=_LEGACY),
    _request(
        "sampling/createMessage",
        "CreateMessageRequestParams",
        "CreateMessageResult",
        upstream=_LEGACY,
        question=_MODERN,
    ),
    _request("roots/list", "ListRootsRequestParams", "ListRootsResult", upstream=_LEGACY, question=_MODERN),
    _request("elicitation/create", "ElicitRequestParams", "ElicitResult", upstream=_ELICITS, question=_MODERN),
    _request("tasks/get", "GetTaskRequestParams", "GetTaskResult", host=_TASKS, upstream=_TASKS),
    _request("tasks/result", "GetTaskPayloadRequestParams", "GetTaskPayloadResult", host=_TASKS, upstream=_TASKS),
    _request("tasks/cancel", "CancelTaskRequestParams", "CancelTaskResult", host=_TASKS, upstream=_TASKS),
    _request("tasks/list", "PaginatedRequestParams", "ListTasksResult", host=_TASKS, upstream=_TASKS),
    _notification("notifications/initialized", "NotificationParams", host=_LEGACY),
    _notification("notifications/cancelled", "CancelledNotificationParams", host=ALWAYS, upstream=ALWAYS),
    _notification("notifications/progress", "ProgressNotificationParams", host=_LEGACY, upstream=ALWAYS),
    _notification("notifications/message", "LoggingMessageNotificationParams", upstream=ALWAYS),
    _notification("notifications/tools/list_changed", "NotificationParams", upstream=ALWAYS),
    _notification("notifications/prompts/list_changed", "NotificationParams", upstream=ALWAYS),
    _notification("notifications/resources/list_changed", "NotificationParams", upstream=ALWAYS),
    _notification("notifications/resources/updated", "ResourceUpdatedNotificationParams", upstream=ALWAYS),
    _notification("notifications/roots/list_changed", "NotificationParams", host=_LEGACY),
    _notification(
        "notifications/subscriptions/acknowledged", "SubscriptionsAcknowledgedNotificationParams", upstream=_MODERN
    ),
    _notification("notifications/tasks/status", "TaskStatusNotificationParams", host=_TASKS, upstream=_TASKS),
    _notification(
        "notifications/elicitation/complete",
        "ElicitationCompleteNotificationParams",
        upstream=Span(V2025_11_25, V2025_11_25),
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def defined(name: str, revision: str, sender: Sender) -> bool:
    """Whether ``revision`` lets ``sender`` send the method ``name``."""
    method = METHODS.get(name)
    span = method.span(sender) if method is not None else None
    return span is not None and span.covers(revision)


def removed(name: str, revision: str, sender: Sender | None = None) -> bool:
    """Whether an older revision had the method and ``revision`` has not.

    With ``sender``, whether that side could send it and no longer may; otherwise whether nobody may.
    """
    method = METHODS.get(name)
    if method is None:
        return False
    if sender is None:
        until = method.until
        return until is not None and RANK[revision] > RANK[until]
    span = method.span(sender)
    return span is not None and span.ended(revision)
