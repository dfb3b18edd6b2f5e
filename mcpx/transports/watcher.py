"""A small shell that outlives mcpx: when mcpx is killed without a chance to end its children, it walks their ladder.

It reads the numbers of process groups from a pipe that only mcpx can write to. The pipe ends when mcpx does, however
that comes about. A parent-death signal would not do: Trio forks in a worker thread, and the signal fires when that
thread ends.
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.settings import Limits

log = logging.getLogger("mcpx.transports")

SHELL = "/bin/sh"
EXIT_LIMIT = 0.2  # seconds that leaving waits for the watcher, which has nothing left to do then

# POSIX shell and `sleep` only. $1 and $2 are the two waits in whole seconds. A group that was seen to be empty is
# forgotten at once, as its number may become a stranger's. Signals meant for mcpx's terminal cannot reach another
# session; the trap is for those who signal by name.
_SCRIPT = r"""
trap '' HUP INT QUIT TERM
groups=' '
while IFS= read -r line; do
    group=${line#?}
    case $line in
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;; esac ;;
    esac
done
keep_living() {
    living=' '
    for group in $groups; do
        kill -s 0 -- "-$group" 2>/dev/null && living="$living$group "
    done
    groups=$living
}
wait_for_end() {
    left=$1
    while keep_living; [ "$groups" != ' ' ] && [ "$left" -gt 0 ]; do
        sleep 1
        left=$((left - 1))
    done
}
send() {
    for group in $groups; do
        kill -s "$1" -- "-$group" 2>/dev/null
    done
}
wait_for_end "$1"
send TERM
wait_for_end "$2"
send KILL
"""


class Watcher:
    """The watcher of one gateway, opened by ``open_watcher``; it runs from the first ``ensure_running`` on."""

    def __init__(self, limits: Limits) -> None:
        self._waits = [str(math.ceil(wait)) for wait in (limits.stdin_grace, limits.term_grace)]
        self._groups: set[int] = set()
        self._process: trio.Process | None = None
        self._pipe: int | None = None  # the write end; it ends with mcpx if nothing closes it before
        self._starting = trio.Lock()
        self._impossible = os.name != "posix"

    @property
    def pid(self) -> int | None:
        """The shell's process id, once one was started."""
        return None if self._process is None else self._process.pid

    async def ensure_running(self) -> None:
        """Start the watcher, or start it again if it has gone. Where there is no shell, say so once and do without."""
        async with self._starting:
            if self._impossible or (self._process is not None and self._process.returncode is None):
                return
            self._close_pipe()
            try:
                self._pipe = await self._start()
            except OSError as error:
                # Without a shell there will never be one; where the system has run short of something, the next time.
                self._impossible = isinstance(error, (FileNotFoundError, PermissionError))
                log.warning("Servers may outlive mcpx if it is killed: their watcher does not start: %s", error)
                return
            for group in self._groups:
                self._tell(f"+{group}\n")

    async def _start(self) -> int:
        """Start the shell and return the pipe to it. Raises ``OSError``."""
        ours, pipe = os.pipe()
        try:
            self._process = await trio.lowlevel.open_process(
                [SHELL, "-c", _SCRIPT, "mcpx-watcher", *self._waits],
                stdin=ours,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(ours)
        os.set_blocking(pipe, False)
        return pipe

    def add(self, group: int) -> None:
        """Watch a process group from now on."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Forget a group; call it before its leader is reaped, while the number is still its own."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    async def close(self) -> None:
        """End the pipe and see the watcher off: with no group left it exits at once, else it finishes alone."""
        self._close_pipe()
        if self._process is not None:
            with trio.move_on_after(EXIT_LIMIT, shield=True):
                await self._process.wait()

    def _tell(self, line: str) -> None:
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, line.encode())
        except BrokenPipeError:
            self._close_pipe()  # somebody ended it; the next start of a server starts it again
        except BlockingIOError:  # somebody stopped it, thousands of lines ago: the same
            self._close_pipe()
            if self._process is not None:
                self._process.kill()

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


@asynccontextmanager
async def open_watcher(limits: Limits) -> AsyncGenerator[Watcher]:
    """Open the watcher of a gateway; enter it around all that opens processes. It starts with the first of them."""
    watcher = Watcher(limits)
    try:
        yield watcher
    finally:
        await watcher.close()
