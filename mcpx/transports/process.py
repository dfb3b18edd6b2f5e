"""A server as a child process: spawned in a session of its own, heard on stderr, ended by the ladder, its group swept.

The leader's exit is not the group's: wrappers (``npx``, ``uvx``, ``sh -c``) die before the server that they started. So
after every exit, a voluntary one too, the group is killed, and the leader reaped only then: until it is reaped its
number, which is the group's, cannot become anyone else's.
"""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from mcpx.transports.crew import open_crew
from mcpx.transports.exits import wait_exited
from mcpx.transports.ladder import ExitPlan, plan_ladder
from mcpx.transports.last_words import LastWords
from mcpx.transports.pipes import Pipe
from mcpx.transports.spawn import signal_group, spawn
from mcpx.transports.streams import LineChannel

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from mcpx.settings import Limits
    from mcpx.transports.channel import Channel
    from mcpx.transports.watcher import Watcher

LAST_WORDS_LIMIT = 0.2  # seconds that an exit waits for the end of stderr, which a stray may keep open


class ServerProcess:
    """A running child, opened by ``open_process``.

    ``channel`` is over its stdout and stdin. Its end and the child's exit are two things that come in either order,
    and a stray process may keep stdout open after the exit: whoever reads should wait for both.
    """

    channel: Channel
    pid: int
    returncode: int | None  # once it has been reaped; negative for a signal
    closed_stdin: bool  # it reads no more, though it may run on

    def __init__(
        self,
        process: trio.Process,
        channel: LineChannel,
        limits: Limits,
        watcher: Watcher | None,
        on_stderr: Callable[[str], None] | None,
    ) -> None:
        self.channel = channel
        self.pid = process.pid
        self.returncode = None
        self.closed_stdin = False
        self._process = process
        self._lines = channel
        self._limits = limits
        self._watcher = watcher
        self._on_stderr = on_stderr
        self._last_words = LastWords(limits.max_stderr_tail)
        self._stopping = False  # the ladder is on: it says when the group is swept
        self._swept = False
        self._leader_exited = trio.Event()
        self._may_sweep = trio.Event()
        self._stderr_ended = trio.Event()
        self._ended = trio.Event()
        self._lost = trio.Event()

    async def wait(self) -> int:
        """Wait until the child has exited, its group is swept, and its last words are in; return its exit status.

        Negative for a signal, as ``subprocess`` has it.
        """
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def wait_lost(self) -> None:
        """Wait until it can serve no more, whatever its stdout says: it has exited, or closed its stdin."""
        await self._lost.wait()

    def last_words(self, limit: int = 2000) -> str:
        """The last ``limit`` characters that it wrote to stderr, or fewer; whole lines where they fit."""
        return self._last_words.text(limit)

    async def run_stderr(self) -> None:
        """Read stderr to its end, so that the child never blocks on it; keep the tail, show the lines."""
        assert self._process.stderr is not None
        try:
            while data := await self._process.stderr.receive_some():
                self._show(self._last_words.feed(data, trio.current_time()))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # as good as its end
        self._show(self._last_words.finish(trio.current_time()))
        self._stderr_ended.set()

    async def run_writer(self) -> None:
        """Write what the channel holds, until the child reads no more."""
        await self._lines.run_writer()
        self.closed_stdin = True
        self._lost.set()

    async def run_reaper(self) -> None:
        """Wait for the leader's exit, sweep the group, reap the leader."""
        await wait_exited(self.pid)
        self._leader_exited.set()
        if self._stopping:
            await self._may_sweep.wait()
        self._signal(signal.SIGKILL)
        self._swept = True
        if self._watcher is not None:
            self._watcher.remove(self.pid)
        returncode = await self._process.wait()
        with trio.move_on_after(LAST_WORDS_LIMIT):
            await self._stderr_ended.wait()
        self.returncode = returncode
        self._ended.set()
        self._lost.set()

    async def shut_down(self, exit_plan: ExitPlan) -> None:
        """Walk the ladder, and close the pipes. Shielded, and bounded by the plan; nobody may be receiving any more.

        What the leader leaves behind of its group when it goes has what remains of the waits to end by itself: it
        counts as there while it holds stdout or stderr open.
        """
        self._stopping = True
        start = trio.current_time()
        flush, eof, term, last = (trio.CancelScope() for _ in range(4))

        def replan() -> None:
            ladder = plan_ladder(start, exit_plan.end, self._limits.stdin_grace, self._limits.term_grace)
            flush.deadline = start + (ladder.term_at - start) / 2  # a child that does not read still gets its EOF
            eof.deadline, term.deadline, last.deadline = ladder

        with trio.CancelScope(shield=True), exit_plan.followed(replan):
            async with trio.open_nursery() as nursery:
                stdout_ended = trio.Event()
                nursery.start_soon(self._drain_stdout, stdout_ended)
                if not self._leader_exited.is_set():  # otherwise the reaper is at it already
                    with flush:
                        await self._lines.flush()
                    await self._lines.close_sending()
                    with eof:
                        await self._leader_exited.wait()
                    self._signal(signal.SIGTERM)
                    with term:
                        await self._leader_exited.wait()
                        await self._stderr_ended.wait()
                        await stdout_ended.wait()
                    self._signal(signal.SIGKILL)
                    self._may_sweep.set()
                with last:
                    await self._ended.wait()
                nursery.cancel_scope.cancel()
            await self._lines.close()
            assert self._process.stderr is not None
            await trio.aclose_forcefully(self._process.stderr)

    async def _drain_stdout(self, ended: trio.Event) -> None:
        await self._lines.discard()
        ended.set()

    def _show(self, lines: list[str]) -> None:
        if self._on_stderr is not None:
            for line in lines:
                self._on_stderr(line)

    def _signal(self, number: int) -> None:
        if not self._swept:  # afterwards the leader is reaped, and the number may become a stranger's
            signal_group(self.pid, number)


def _pipe(stream: trio.abc.AsyncResource | None) -> Pipe:
    assert isinstance(stream, trio.lowlevel.FdStream)  # there are no processes of servers where it is anything else
    return Pipe(stream)


@asynccontextmanager
async def open_process(
    command: Sequence[str],
    *,
    name: str,
    env: Mapping[str, str],
    cwd: str | None,
    limits: Limits,
    exit_plan: ExitPlan | None = None,
    watcher: Watcher | None = None,
    on_stderr: Callable[[str], None] | None = None,
) -> AsyncGenerator[ServerProcess]:
    """Start a server and own it: leaving ends it, and everything of its process group, within the waits of ``limits``.

    ``command`` is looked for on the ``PATH`` of ``env``, the child's whole environment. ``name`` is the server's, for
    task names. ``exit_plan`` cuts the waits while mcpx itself ends; ``watcher`` ends the group should mcpx be killed.
    ``on_stderr`` is called with each line of stderr, shortened, rate-limited and free of control characters; it must
    neither block nor raise. Raises ``SpawnError`` when the child cannot be started. Whoever receives from the channel
    must have stopped when the body ends.
    """
    async with open_crew() as crew:
        if watcher is not None:
            await watcher.ensure_running()
        process = await spawn(command, env, cwd)
        # No checkpoint from here to the `try`, or a cancellation would lose the child.
        if watcher is not None:
            watcher.add(process.pid)
        channel = LineChannel(_pipe(process.stdout), _pipe(process.stdin), max_frame=limits.max_frame)
        server = ServerProcess(process, channel, limits, watcher, on_stderr)
        for task in (server.run_reaper, server.run_stderr, server.run_writer):
            crew.start_soon(task, name=f"{task.__name__} of {name}")
        try:
            yield server
        finally:
            await server.shut_down(exit_plan or ExitPlan())
