"""How mcpx ends: what a signal does, how long the end may take, and who gets how much of that."""

from __future__ import annotations

import logging
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.gateway.gateway import Gateway

log = logging.getLogger("mcpx.host")

# What asks a process to end. SIGHUP says that the terminal has gone; Windows has none.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))


class Budget(NamedTuple):
    """The time that mcpx has to end in, and what of it is not for answers that are owed."""

    limit: Literal["exit_budget_eof", "exit_budget_signal", "exit_budget_server"]
    ladder: float  # for the upstreams' shutdown ladder, with the last 0.3 s of it for SIGKILL
    flush: float  # what a host that is slow to read gets for the last answers

    def whole(self, gateway: Gateway) -> float:
        """The seconds that this gateway's settings give."""
        seconds: float = getattr(gateway.settings.limits, self.limit)
        return seconds


STDIO_EOF = Budget("exit_budget_eof", ladder=0.8, flush=0.1)
STDIO_SIGNAL = Budget("exit_budget_signal", ladder=0.5, flush=0.1)
SERVER = Budget("exit_budget_server", ladder=2.0, flush=0.5)


class Ending:
    """How mcpx ends: by itself when its host has left, faster when a signal says so. Opened by ``open_ending``."""

    def __init__(self) -> None:
        self.stop = trio.Event()
        self.number: int | None = None  # of the last signal that came
        self._gateway: Gateway | None = None
        self._alone, self._hastened = STDIO_EOF, STDIO_SIGNAL
        self._signalled = False

    def plan_for(self, gateway: Gateway, alone: Budget = STDIO_EOF, hastened: Budget = STDIO_SIGNAL) -> None:
        """From now on it is this gateway's exit that is planned.

        ``alone`` is what mcpx has to end in by itself, ``hastened`` what it has from a signal on.
        """
        self._gateway, self._alone, self._hastened = gateway, alone, hastened

    def drain(self) -> float:
        """The end begins, or is hastened: set when it must be over, and say how long what is owed may take."""
        assert self._gateway is not None
        budget = self._hastened if self._signalled else self._alone
        whole = budget.whole(self._gateway)
        self._bring_forward(whole)
        return max(0.0, whole - budget.ladder - budget.flush)

    def signalled(self) -> bool:
        """Take a signal; say whether it is a second one, which forces."""
        again, self._signalled = self._signalled, True
        if self._gateway is not None:
            self._bring_forward(0.0 if again else self._hastened.whole(self._gateway))
        self.stop.set()
        return again

    def _bring_forward(self, budget: float) -> None:
        assert self._gateway is not None
        plan, moment = self._gateway.exit_plan, trio.current_time() + budget
        if plan.end is None or moment < plan.end:
            plan.end = moment


@asynccontextmanager
async def open_ending() -> AsyncGenerator[Ending]:
    """Heed SIGTERM, SIGINT and SIGHUP while entered, around the gateway: a signal may come while that is being left.

    The first one ends the serving, and cuts what shutdown is under way to its own budget. A second one forces: nothing
    is waited for any more, and the body is cancelled.
    """
    ending = Ending()
    async with trio.open_nursery() as nursery:
        await nursery.start(_heed_signals, ending, nursery.cancel_scope)
        yield ending
        nursery.cancel_scope.cancel()


async def _heed_signals(
    ending: Ending, force: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    # One that whoever started mcpx had it ignore, as nohup does with SIGHUP, stays ignored.
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    with trio.open_signal_receiver(*heeded) as signals:
        task_status.started()
        async for number in signals:
            log.info("%s: stopping", signal.Signals(number).name)
            ending.number = number
            if ending.signalled():
                force.cancel()
