"""Serving the host that started this process, over stdin and stdout, and ending when it wants mcpx to end."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from mcpx.host.connection import serve_channel
from mcpx.transports.stdio import open_stdio_channel

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.gateway.gateway import Gateway

log = logging.getLogger("mcpx.host")

NAME = "stdio"  # of the host: there is one per process
SIGNALS = (signal.SIGTERM, signal.SIGINT)

# Of the time that mcpx has to end in, what is not for answers that are owed: the shutdown ladder of the upstreams, with
# the last 0.3 s of it for SIGKILL, and what a host that is slow to read gets for the last answers.
LADDER_EOF = 0.8
LADDER_SIGNAL = 0.5
FLUSH = 0.1

PARENT_CHECK = 2.0  # seconds between two looks at who the parent is


async def serve_stdio(gateway: Gateway, ending: Ending | None = None) -> None:
    """Serve the host on stdin and stdout until its end of stdin, SIGTERM, SIGINT, or the death of the parent.

    Sets ``gateway.exit_plan.end`` by the exit budgets of the settings (``exitBudget``) when one of them comes, and
    returns with the answers that were owed written, as far as there was time; leaving the gateway is what ends the
    upstreams. ``ending`` is what ``open_ending`` gives where signals are to be heeded then as well; without it they are
    while this serves. Raises ``McpxError`` where this process has no stdin or stdout.
    """
    if ending is None:
        async with open_ending() as ending:
            await serve_stdio(gateway, ending)
        return
    ending.plan_for(gateway)
    max_frame = gateway.settings.limits.max_frame
    async with open_stdio_channel(max_frame, flush_limit=FLUSH) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(_heed_parent, ending.stop)
        await serve_channel(gateway, channel, host=NAME, drain=ending.drain, stop=ending.stop)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_ending() -> AsyncGenerator[Ending]:
    """Heed SIGTERM and SIGINT while entered, around the gateway: a signal may come while that is being left.

    The first one ends the serving, and cuts what shutdown is under way to its own budget. A second one forces: nothing
    is waited for any more, and the body is cancelled.
    """
    ending = Ending()
    async with trio.open_nursery() as nursery:
        await nursery.start(_heed_signals, ending, nursery.cancel_scope)
        yield ending
        nursery.cancel_scope.cancel()


class Ending:
    """How mcpx ends: by itself when its host has left, faster when a signal says so. Opened by ``open_ending``."""

    def __init__(self) -> None:
        self.stop = trio.Event()
        self._gateway: Gateway | None = None
        self._signalled = False

    def plan_for(self, gateway: Gateway) -> None:
        """From now on it is this gateway's exit that is planned."""
        self._gateway = gateway

    def drain(self) -> float:
        """The end begins, or is hastened: set when it must be over, and say how long what is owed may take."""
        assert self._gateway is not None
        limits = self._gateway.settings.limits
        budget, ladder = limits.exit_budget_eof, LADDER_EOF
        if self._signalled:
            budget, ladder = limits.exit_budget_signal, LADDER_SIGNAL
        self._bring_forward(budget)
        return max(0.0, budget - ladder - FLUSH)

    def signalled(self) -> bool:
        """Take a signal; say whether it is a second one, which forces."""
        again, self._signalled = self._signalled, True
        if self._gateway is not None:
            self._bring_forward(0.0 if again else self._gateway.settings.limits.exit_budget_signal)
        self.stop.set()
        return again

    def _bring_forward(self, budget: float) -> None:
        assert self._gateway is not None
        plan, moment = self._gateway.exit_plan, trio.current_time() + budget
        if plan.end is None or moment < plan.end:
            plan.end = moment


async def _heed_signals(
    ending: Ending, force: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(*SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            log.info("%s: stopping", signal.Signals(number).name)
            if ending.signalled():
                force.cancel()


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
