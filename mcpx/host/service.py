"""Serves one request, whatever it came on: the table of methods, and what their handlers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.errors import RemoteProtocolError, UpstreamError
from mcpx.host.calls import call, open_exchange, say_reply
from mcpx.host.identity import OWN_INFO, server_info
from mcpx.host.listen import LISTEN, listen
from mcpx.host.lists import LISTS, Renderer, list_items
from mcpx.host.logs import set_level
from mcpx.host.openings import discover, initialize, ping
from mcpx.host.subscriptions import subscribe, unsubscribe
from mcpx.spec.methods import METHODS, removed
from mcpx.spec.revisions import REVISIONS
from mcpx.wire.frames import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from msgspec import Raw

    from mcpx.gateway.exchange import Exchange
    from mcpx.gateway.gateway import Gateway
    from mcpx.host.conversation import Conversation
    from mcpx.host.inbound import Inbound, Relay, Turn
    from mcpx.upstream.call import Reply

    Handler = Callable[["Service", Inbound, Turn], Awaitable[Raw]]


class Service:
    """Answers requests of any host and any revision out of one gateway, which all its hosts share.

    Of a host it holds nothing but that it is there.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.renderer = Renderer()
        self._conversations: dict[Conversation, None] = {}

    @property
    def conversations(self) -> list[Conversation]:
        """Those under way, in the order in which they began."""
        return list(self._conversations)

    def enter(self, conversation: Conversation) -> None:
        """A conversation begins."""
        self._conversations[conversation] = None

    def leave(self, conversation: Conversation) -> None:
        """A conversation is over."""
        self._conversations.pop(conversation, None)

    async def serve(self, request: Inbound, turn: Turn) -> Raw:
        """The result of a request, as its revision says it.

        ``turn`` is for what is said beside it. Raises ``RemoteProtocolError`` (``-32601``) for a method
        that the revision has removed or that mcpx does not serve, otherwise as the gateway does.
        """
        handler = _HANDLERS[request.revision].get(request.method)
        if handler is None and self.gateway.passthrough and request.method not in METHODS:
            handler = call  # of no revision: the upstream's own affair
        if handler is None:
            raise RemoteProtocolError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        return await handler(self, request, turn)

    def open_exchange(self, request: Inbound, relay: Relay) -> Exchange | None:
        """The exchange of a request that upstreams answer, if nothing has to be done for it first; not sent yet."""
        if _HANDLERS[request.revision].get(request.method) is not call:
            return None
        return open_exchange(self, request, relay)

    def say_nowait(self, request: Inbound, reply: Reply) -> Raw | None:
        """The result that ``serve`` makes of an upstream's, where nothing has to be waited for; else ``None``."""
        info = self._known_info(request) if request.modern else None
        return None if info is None and request.modern else say_reply(request, reply, info)

    def _known_info(self, request: Inbound) -> Raw | None:
        if not self.gateway.passthrough:
            return OWN_INFO[request.revision]
        identity = self.gateway.identity_nowait()
        return None if identity is None else server_info(identity, request.revision)

    async def server_info(self, request: Inbound) -> Raw:
        """Who answers, for the metadata of a modern result."""
        if (info := self._known_info(request)) is not None:
            return info
        try:
            identity = await self.gateway.identity(request.asker)
        except UpstreamError:  # it has just answered, so its answer is not given up for want of its name
            return OWN_INFO[request.revision]
        return server_info(identity, request.revision)


_METHODS: Mapping[str, Handler] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": ping,
    "tools/call": call,
    "prompts/get": call,
    "resources/read": call,
    "completion/complete": call,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "logging/setLevel": set_level,
    LISTEN: listen,
    **dict.fromkeys(LISTS, list_items),
}

# A method that a revision never had is served all the same; one that it removed is not: something has replaced it.
_HANDLERS: Mapping[str, Mapping[str, Handler]] = {
    revision: {name: handler for name, handler in _METHODS.items() if not removed(name, revision, "host")}
    for revision in REVISIONS
}
