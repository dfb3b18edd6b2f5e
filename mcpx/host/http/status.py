"""What ``/v1`` tells of a gateway: the protocol that it speaks, and how it is. All of it is plain data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import trio

from mcpx.gateway.status import Now, agreements, upstreams, words
from mcpx.spec.render import as_data
from mcpx.spec.revisions import SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.gateway.gateway import Gateway
    from mcpx.host.conversation import Conversation
    from mcpx.host.service import Service

_CLIENT_INFO = ("name", "title", "version")


def now() -> Now:
    """This moment."""
    return Now(trio.current_time(), time.time())


def protocol(gateway: Gateway) -> dict[str, Any]:
    """``/v1/protocol``: what each revision has, and what was agreed on with each upstream, or remembered of it."""
    return {
        "supported": list(SUPPORTED),
        "upstreams": agreements(gateway),
        **as_data(),
    }


def status(service: Service, sessions: int, moment: Now, redact: Callable[[str], str]) -> dict[str, Any]:
    """``/v1/status``: how each upstream is, who is connected, and how much is under way.

    ``sessions`` are the legacy ones over HTTP, which live on between requests.
    ``redact`` masks secrets in what servers said before they ended.
    """
    hosts = service.conversations
    return {
        "upstreams": upstreams(service.gateway, moment, redact),
        "hosts": [_host(one, moment) for one in hosts],
        "exchanges": sum(one.in_flight - one.listening for one in hosts),
        "subscriptions": sum(one.subscriptions for one in hosts),
        "sessions": sessions,
    }


def _host(conversation: Conversation, moment: Now) -> dict[str, Any]:
    return {
        "name": conversation.host,
        "transport": conversation.transport,
        **moment.since(conversation.since),
        "client": words(conversation.asker.client_info, _CLIENT_INFO),
        "revision": conversation.revision,
        "inFlight": conversation.in_flight - conversation.listening,
        "subscriptions": conversation.subscriptions,
    }
