"""``resources/subscribe`` and ``resources/unsubscribe`` of legacy hosts (2024-11-05 to 2025-11-25 server/resources,
Subscriptions). What comes of them is said by the conversation's relay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from mcpx.errors import RemoteProtocolError
from mcpx.wire.frames import INVALID_PARAMS
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service

_EMPTY = Raw(b"{}")


async def subscribe(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``resources/subscribe``: answered once the server has agreed, so that what the host does next can be told of."""
    await turn.relay.subscribe(request.asker, _uri(request))
    return _EMPTY


async def unsubscribe(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``resources/unsubscribe``, also for what was never subscribed to."""
    turn.relay.unsubscribe(_uri(request))
    return _EMPTY


def _uri(request: Inbound) -> str:
    uri = string_of(request.params.get("uri"))
    if uri is None:
        raise RemoteProtocolError(INVALID_PARAMS, 'Invalid params: "uri" must be a string')
    return uri
