"""Requests that an upstream answers: exchanges of the gateway, with their events as the host's revision says them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import Raw

from mcpx.errors import LocalProtocolError
from mcpx.host.asking import Asking
from mcpx.host.events import Events
from mcpx.host.rounds import RETRY, call_in_rounds, may_ask
from mcpx.spec.carry import carry_result, stamp_modern
from mcpx.upstream.call import LogMessage, Progress, Question, Reply, Request, Withdrawn

if TYPE_CHECKING:
    from mcpx.gateway.exchange import Exchange
    from mcpx.host.inbound import Inbound, Relay, Turn
    from mcpx.host.service import Service


async def call(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``tools/call``, ``prompts/get``, ``resources/read``, ``completion/complete``.

    Between revisions alike the payload comes back as the very object that the upstream's answer held.
    """
    if may_ask(request):
        reply = await call_in_rounds(service, request, turn)
        if isinstance(reply, Raw):
            return reply
    else:
        reply = await _exchange(service, request, turn)
    return say_reply(request, reply, await service.server_info(request) if request.modern else None)


def open_exchange(service: Service, request: Inbound, relay: Relay) -> Exchange | None:
    """The exchange of a request that is made for the first time, not sent yet; ``None`` for a retry.

    It is one that ``call`` goes on with as the ``begun`` of its turn.
    """
    asks = may_ask(request)
    if asks and not request.params.keys().isdisjoint(RETRY):
        return None
    asker = request.asker if asks else relay.logs.asker(request.asker)
    asked = Request(request.method, request.params, request.revision, asker, request.meta, takes_input_required=asks)
    return service.gateway.exchange(asked)


def say_reply(request: Inbound, reply: Reply, info: Raw | None) -> Raw:
    """The upstream's result as the host's revision says it; ``info`` is who answers, for a modern one."""
    payload = carry_result(request.method, reply.payload, reply.revision, request.revision)
    if info is None:
        return payload
    # A legacy server says nothing of how long its answer holds: not at all, and for nobody else.
    return stamp_modern(request.method, payload, info, 0, "private")


async def _exchange(service: Service, request: Inbound, turn: Turn) -> Reply:
    events = Events(request, turn)
    asking: Asking | None = None
    with ExitStack() as entered:
        exchange = turn.begun or open_exchange(service, request, turn.relay)
        assert exchange is not None  # what may not ask is never a retry
        entered.enter_context(exchange)
        while True:
            event = await exchange.next()
            match event:
                case Reply():
                    return event
                case Progress() | LogMessage():
                    await events.tell(event)
                case Question():
                    asking = asking or entered.enter_context(Asking(exchange, request, turn))
                    await asking.ask(event)
                case Withdrawn():
                    if asking is not None:
                        await asking.withdraw(event.key)
                case _:
                    raise LocalProtocolError(f"{type(event).__name__} for a host that does not take it")
