"""Serving any number of hosts on a Unix socket, each on a connection of its own."""

from __future__ import annotations

import itertools
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio

from mcpx.host.connection import serve_channel
from mcpx.host.ending import SERVER, Ending, open_ending
from mcpx.transports.accept import Places, accept_all
from mcpx.transports.sockets import open_unix_listener
from mcpx.transports.streams import open_line_channel

if TYPE_CHECKING:
    from mcpx.host.service import Service

log = logging.getLogger("mcpx.host")

# A host that has closed its side may still read: what it is owed gets as long as on stdio, where most of the exit
# budget is for it. Nobody tells a host that has gone altogether from one that only has no more to say.
DRAIN = 0.8


async def serve_socket(
    service: Service,
    path: str,
    ending: Ending | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve hosts on a Unix socket at ``path`` until a signal asks mcpx to end, or ``ending.stop`` is set.

    The socket is this user's alone, and its file is removed as soon as the end begins. Sets
    ``service.gateway.exit_plan.end`` by ``exitBudget.server`` then, and returns with the answers that were owed
    written, as far as there was time; leaving the gateway is what ends the upstreams. ``ending`` is as for
    ``serve_stdio``. Raises ``McpxError`` where the path cannot be listened on. ``task_status`` is told when hosts can
    connect.
    """
    async with AsyncExitStack() as door:
        listener = await door.enter_async_context(open_unix_listener(path))
        log.info("listening on %s", path)
        if ending is not None:
            await _serve(service, door, listener, ending, task_status)
            return
        async with open_ending() as ending:
            await _serve(service, door, listener, ending, task_status)


async def _serve(
    service: Service,
    door: AsyncExitStack,
    listener: trio.SocketListener,
    ending: Ending,
    task_status: trio.TaskStatus[None],
) -> None:
    """Serve what comes in until the end begins; close the ``door`` then, and see those out who are in."""
    ending.plan_for(service.gateway, alone=SERVER, hastened=SERVER)
    async with trio.open_nursery() as connections:
        hosts = _Hosts(service, ending, connections)
        async with trio.open_nursery() as accepting:
            accepting.start_soon(accept_all, listener, hosts.take, log)
            task_status.started()
            await ending.stop.wait()
            accepting.cancel_scope.cancel()
        ending.drain()  # also where there is no host whose connection would begin the end
        await door.aclose()


class _Hosts:
    """The hosts that are connected to one socket."""

    def __init__(self, service: Service, ending: Ending, connections: trio.Nursery) -> None:
        self._service = service
        self._ending = ending
        self._limits = service.gateway.settings.limits
        self._names = (f"socket {number}" for number in itertools.count(1))
        self._places = Places(self._limits.max_connections, log)
        self._connections = connections

    def take(self, stream: trio.SocketStream) -> None:
        """Serve a host by a task of its own, or close its connection where there are too many."""
        if self._places.take():
            self._connections.start_soon(self._serve, stream, next(self._names))
        else:
            stream.socket.close()

    async def _serve(self, stream: trio.SocketStream, name: str) -> None:
        try:
            async with open_line_channel(
                stream, stream, max_frame=self._limits.max_frame, flush_limit=SERVER.flush
            ) as channel:
                log.debug("Host %s: connected", name)
                await serve_channel(
                    self._service,
                    channel,
                    host=name,
                    transport="socket",
                    drain=self._drain,
                    stop=self._ending.stop,
                )
            log.debug("Host %s: disconnected", name)
        finally:
            self._places.give_back()

    def _drain(self) -> float:
        """How long what is owed may take: as the exit has it once that has begun, else as for a host that left."""
        return self._ending.drain() if self._ending.stop.is_set() else DRAIN
