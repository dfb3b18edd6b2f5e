"""Requests that an upstream answers: exchanges of the gateway, with their events as the host's revision says them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.errors import LocalProtocolError
from mcpx.host.progress import ProgressRelay
from mcpx.spec.carry import carry_result, stamp_modern
from mcpx.upstream.call import LogMessage, Progress, Reply, Request

if TYPE_CHECKING:
    from msgspec import Raw

    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service


async def call(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``tools/call``, ``prompts/get``, ``resources/read``, ``completion/complete``.

    Between revisions alike the payload comes back as the very object that the upstream's answer held.
    """
    reply = await _exchange(service, request, turn)
    payload = carry_result(request.method, reply.payload, reply.revision, request.revision)
    if request.modern:
        # A legacy server says nothing of how long its answer holds: not at all, and for nobody else.
        payload = stamp_modern(request.method, payload, await service.server_info(request), 0, "private")
    return payload


async def _exchange(service: Service, request: Inbound, turn: Turn) -> Reply:
    logs, progress = turn.relay.logs, ProgressRelay(request.token, request.revision)
    asked = Request(request.method, request.params, request.revision, logs.asker(request.asker), request.meta)
    with service.gateway.exchange(asked) as exchange:
        while True:
            event = await exchange.next()
            if type(event) is Reply:
                return event
            if type(event) is Progress:
                if said := progress.say(event):
                    await turn.way.send(said)
            elif type(event) is LogMessage:
                if said := logs.say(event, request):
                    await turn.way.send(said)
            else:
                raise LocalProtocolError(f"{type(event).__name__} for a host that cannot be asked")
