"""Requests that an upstream answers: exchanges of the gateway, with their events as the host's revision says them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from mcpx.errors import LocalProtocolError
from mcpx.spec.carry import carry, carry_result, stamp_modern
from mcpx.spec.mend import mend
from mcpx.spec.meta import PER_HOP_KEYS, PROGRESS_TOKEN
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.upstream.call import LogMessage, Progress, Reply, Request
from mcpx.wire.frames import encode, notification, to_raw
from mcpx.wire.raws import members_of

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
    asked = Request(request.method, request.params, request.revision, request.asker, request.meta)
    with service.gateway.exchange(asked) as exchange:
        while True:
            event = await exchange.next()
            if type(event) is Reply:
                return event
            if type(event) is Progress:
                if request.token is not None and (said := _progress(event, request.token, request.revision)):
                    await turn.way.send(said)
            elif type(event) is not LogMessage:  # log messages are not declared to any host, so none of them gets one
                raise LocalProtocolError(f"{type(event).__name__} for a host that cannot be asked")


class _Measure(msgspec.Struct):
    """What a progress notification must be to be passed on (the progress pages of all revisions)."""

    progress: float
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


_measure = msgspec.json.Decoder(_Measure)


def _progress(event: Progress, token: Raw, revision: str) -> bytes | None:
    """``notifications/progress`` for the token of the host, in its exact spelling; ``None`` for what is none."""
    params = {PROGRESS_TOKEN: token, **event.params}
    if (meta := members_of(params.pop("_meta", None))) is not None:
        params["_meta"] = to_raw({key: value for key, value in meta.items() if key not in PER_HOP_KEYS})
    written = mend("ProgressNotificationParams", to_raw(params))
    try:
        _measure.decode(written)
    except msgspec.MsgspecError:
        return None
    # Taken as written in the newest revision, so that whatever the host's does not have is left out.
    said = carry("ProgressNotificationParams", written, LATEST_MODERN, revision)
    return encode(notification("notifications/progress", said))
