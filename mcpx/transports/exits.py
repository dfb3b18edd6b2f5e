"""Waiting for a child's exit without taking its status, so that its number stays its own while its group is swept."""

from __future__ import annotations

import math
import os
import select
import sys
from contextlib import suppress

import trio


async def wait_exited(pid: int) -> None:
    """Return when the child has exited; it still has to be reaped.

    Linux: a pidfd. macOS and the BSDs: kqueue. A kernel or sandbox that has neither: a thread in ``waitid``.
    """
    if hasattr(os, "pidfd_open"):
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:  # where SIGCHLD is ignored the kernel has reaped it
            await trio.lowlevel.checkpoint()
            return
        except OSError:  # an older kernel, or a sandbox that forbids the call
            await _wait_in_thread(pid)
            return
        try:
            await trio.lowlevel.wait_readable(pidfd)
        finally:
            os.close(pidfd)
    elif hasattr(select, "kqueue"):
        await _wait_kqueue(pid)
    else:
        await _wait_in_thread(pid)


async def _wait_in_thread(pid: int) -> None:
    """One thread per child, never more: whoever waits does so once. An abandoned one ends with the child."""
    limiter = trio.CapacityLimiter(math.inf)
    with suppress(ChildProcessError):  # where SIGCHLD is ignored the kernel has reaped it
        await trio.to_thread.run_sync(
            os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT, abandon_on_cancel=True, limiter=limiter
        )


async def _wait_kqueue(pid: int) -> None:
    if sys.platform == "linux" or sys.platform == "win32":
        raise RuntimeError("no kqueue here")
    else:  # noqa: RET506 the type checker follows the platform only so
        queue = trio.lowlevel.current_kqueue()

        def change(flags: int) -> None:
            queue.control([select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)], 0)

        def abort(_: object) -> trio.lowlevel.Abort:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has exited, and the watch gone with that
                change(select.KQ_EV_DELETE)
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            change(select.KQ_EV_ADD | select.KQ_EV_ONESHOT)
        except ProcessLookupError:  # it is on its way out already
            await trio.lowlevel.checkpoint()
            return
        await trio.lowlevel.wait_kevent(pid, select.KQ_FILTER_PROC, abort)
