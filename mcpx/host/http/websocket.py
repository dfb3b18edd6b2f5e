"""Hosts on a WebSocket: any revision, one message a text frame."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING

from mcpx.host.connection import serve_channel

if TYPE_CHECKING:
    from mcpx.host.ending import Ending
    from mcpx.host.service import Service
    from mcpx.transports.http_server import HttpRequest, HttpResponse

log = logging.getLogger("mcpx.host")


class WebSockets:
    """The hosts that connect in this way."""

    def __init__(self, service: Service, ending: Ending) -> None:
        self._service = service
        self._ending = ending
        self._names = (f"websocket {number}" for number in itertools.count(1))

    async def serve(self, request: HttpRequest, response: HttpResponse) -> None:
        """``GET /ws``: one host, which is served as long as its connection lasts."""
        # Late: it takes its time to load, and few hosts need it.
        from mcpx.transports.websocket_server import open_server_channel, refuse_handshake

        refusal = refuse_handshake(request)
        if refusal is not None:
            await response.send(*refusal)
            return
        limits = self._service.gateway.settings.limits
        async with open_server_channel(
            response.upgrade(),
            max_frame=limits.max_frame,
            keep_alive=limits.keep_alive,
            patience=limits.write_time,
            stop=self._ending.stop,
        ) as channel:
            if channel is None:
                return
            name = next(self._names)
            log.debug("Host %s: connected", name)
            await serve_channel(
                self._service, channel, host=name, transport="websocket", drain=self._drain, stop=self._ending.stop
            )
            log.debug("Host %s: disconnected", name)

    def _drain(self) -> float:
        """How long what is owed may take: nobody can be answered whose connection has ended by itself."""
        return self._ending.drain() if self._ending.stop.is_set() else 0.0
