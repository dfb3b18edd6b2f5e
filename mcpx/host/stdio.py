"""Serving the host that started this process, over stdin and stdout, and ending when it wants mcpx to end."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import trio

from mcpx.host.connection import serve_channel
from mcpx.host.ending import STDIO_EOF, Ending, open_ending
from mcpx.transports.stdio import open_stdio_channel

if TYPE_CHECKING:
    from mcpx.host.service import Service

log = logging.getLogger("mcpx.host")

NAME = "stdio"  # of the host: there is one per process
PARENT_CHECK = 2.0  # seconds between two looks at who the parent is


async def serve_stdio(service: Service, ending: Ending | None = None) -> None:
    """Serve the host on stdin and stdout until its end of stdin, a signal that asks mcpx to end, or the death of the
    parent.

    Sets ``service.gateway.exit_plan.end`` by the exit budgets of the settings (``exitBudget``) when one of them comes,
    and returns with the answers that were owed written, as far as there was time; leaving the gateway is what ends the
    upstreams. ``ending`` is what ``open_ending`` gives where signals are to be heeded then as well; without it they are
    while this serves. Raises ``McpxError`` where this process has no stdin or stdout.
    """
    if ending is None:
        async with open_ending() as ending:
            await serve_stdio(service, ending)
        return
    ending.plan_for(service.gateway)
    max_frame = service.gateway.settings.limits.max_frame
    async with open_stdio_channel(max_frame, flush_limit=STDIO_EOF.flush) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(_heed_parent, ending.stop)
        await serve_channel(service, channel, host=NAME, transport=NAME, drain=ending.drain, stop=ending.stop)
        nursery.cancel_scope.cancel()


async def _heed_parent(stop: trio.Event) -> None:
    """Stop when the parent has died: its end of stdin may live on in a sibling of this process that inherited it.

    There is nothing to wait for on every system, so this looks now and then. A process that has lost its parent has
    another one from then on. A wrapper that leaves its server running is no parent to be found here: a shell gives what
    it starts in the background no stdin.
    """
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 nothing tells of it
        await trio.sleep(PARENT_CHECK)
    log.warning("The process that started mcpx has died: stopping")
    stop.set()
