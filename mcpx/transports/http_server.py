"""An HTTP/1.1 server on Trio, which knows no MCP: who may connect, and how all of it ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from mcpx.transports.accept import Places, accept_all
from mcpx.transports.http_aloft import Aloft, Begin
from mcpx.transports.http_answer import Answer, HttpResponse, render_head
from mcpx.transports.http_connection import PLAIN, Check, Handler, HttpConnection, HttpLimits, HttpService, send_eof
from mcpx.transports.http_heads import Heads
from mcpx.transports.http_incoming import READ_SIZE
from mcpx.transports.http_parse import HttpRequest
from mcpx.transports.listeners import (
    as_tls,
    is_loopback,
    open_tcp_listeners,
    parse_address,
    server_tls,
    tls_listeners,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Aloft",
    "Answer",
    "Begin",
    "Check",
    "Handler",
    "HttpLimits",
    "HttpRequest",
    "HttpResponse",
    "is_loopback",
    "open_tcp_listeners",
    "parse_address",
    "serve_http",
    "server_tls",
    "tls_listeners",
]

log = logging.getLogger("mcpx.http")

TURN_AWAY_TIME = 1.0  # seconds that one client too many may take to hear so
TURNING_AWAY = 64  # of them at once; more are closed without a word

TOO_MANY = b"Too many clients are connected; try again later.\n"


async def serve_http(
    listeners: Sequence[trio.abc.Listener[Any]],
    check: Check,
    handler: Handler,
    limits: HttpLimits,
    *,
    stop: trio.Event,
    begin: Begin | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP to whoever connects, until ``stop`` is set and every request that was under way has been answered.

    ``check`` sees each head before the body is read, and may refuse it. ``handler`` answers the rest, each in the
    cancel scope of its request, which is cancelled when the client hangs up. ``begin``, where there is one, is asked
    before: what it begins goes on without a task, and comes to no handler. On ``stop`` the listeners, which become
    the server's own, are closed, and so are connections without a request; the caller bounds how long the others may
    take, by cancelling. Clients can break nothing but their own connection, while an exception of the handler's ends
    the server, as does its returning without an answer (``LocalProtocolError``). ``task_status`` is told when hosts
    can connect.
    """
    try:
        async with trio.open_nursery() as connections:
            server = _Server(HttpService(check, handler, limits, stop, Heads(limits.max_head), begin), connections)
            async with trio.open_nursery() as accepting:
                for listener in listeners:
                    accepting.start_soon(accept_all, listener, server.take, log)
                task_status.started()
                await stop.wait()
                accepting.cancel_scope.cancel()
            await _close_all(listeners)
            server.close_idle()
    finally:
        await _close_all(listeners)


async def _close_all(listeners: Sequence[trio.abc.Listener[Any]]) -> None:
    with trio.CancelScope(shield=True):  # none of it waits
        for listener in listeners:
            await trio.aclose_forcefully(listener)


class _Server:
    """The connections of a server."""

    def __init__(self, service: HttpService, nursery: trio.Nursery) -> None:
        self._service = service
        self._nursery = nursery
        self._connections: set[HttpConnection] = set()
        self._places = Places(service.limits.max_connections, log)
        self._turning_away = 0

    def take(self, stream: trio.abc.Stream) -> None:
        """Serve a connection, or turn it away."""
        self._nursery.start_soon(self._serve if self._places.take() else self._turn_away, stream)

    def close_idle(self) -> None:
        """Have connections without a request ended."""
        for connection in self._connections:
            connection.close_idle()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        connection = HttpConnection(self._service, stream)
        self._connections.add(connection)
        if self._service.stop.is_set():
            connection.close_idle()  # it came just before the end
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._places.give_back()

    async def _turn_away(self, stream: trio.abc.Stream) -> None:
        self._turning_away += 1
        try:
            # TLS would have to be agreed on first, which is work for whoever asks often enough.
            if self._turning_away <= TURNING_AWAY and as_tls(stream) is None:
                head = render_head(503, PLAIN, f"Content-Length: {len(TOO_MANY)}\r\nConnection: close\r\n")
                with trio.move_on_after(TURN_AWAY_TIME):
                    await stream.send_all(head + TOO_MANY)
                    await send_eof(stream)
                    while await stream.receive_some(READ_SIZE):
                        pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._turning_away -= 1
            await trio.aclose_forcefully(stream)
