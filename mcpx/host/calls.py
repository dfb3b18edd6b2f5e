"""Requests that an upstream answers: exchanges of the gateway, with their events as the host's revision says them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import Raw

from mcpx.errors import LocalProtocolError
from mcpx.host.asking import Asking
from mcpx.host.events import Events
from mcpx.host.rounds import call_in_rounds, may_ask
from mcpx.spec.carry import carry_result, stamp_modern
from mcpx.upstream.call import LogMessage, Progress, Question, Reply, Request, Withdrawn

if TYPE_CHECKING:
    from mcpx.host.inbound import Inbound, Turn
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
    payload = carry_result(request.method, reply.payload, reply.revision, request.revision)
    if request.modern:
        # A legacy server says nothing of how long its answer holds: not at all, and for nobody else.
        payload = stamp_modern(request.method, payload, await service.server_info(request), 0, "private")
    return payload


async def _exchange(service: Service, request: Inbound, turn: Turn) -> Reply:
    asker = turn.relay.logs.asker(request.asker)
    asked = Request(request.method, request.params, request.revision, asker, request.meta)
    events = Events(request, turn)
    asking: Asking | None = None
    with ExitStack() as entered:
        exchange = entered.enter_context(service.gateway.exchange(asked))
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
