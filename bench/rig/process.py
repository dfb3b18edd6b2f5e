"""Programs that are measured: started with pipes, priced by the system's own account, and ended within a bound.

Two ways to run one: ``running`` for plain programs, ``open_running`` under Trio. Both end all of its process group, in
steps, and wait. What it costs is read from ``/proc`` by its id with ``cpu``, ``resident`` and ``peak``, each of the
program and, with ``tree=True``, of all that descend from it: where a launcher such as npx stands in between.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence

PATIENCE = 3.0  # seconds after its stdin was closed, and again after SIGTERM, before the next step
_ENDED = (FileNotFoundError, ProcessLookupError)  # what reading of a process raises that is no more
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def running(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = None,
) -> Generator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, with pipes for stdin and stdout; ended when the block is left."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, env=env, start_new_session=True
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
                break
            _signal_group(process.pid, number)
        process.wait()
        _signal_group(process.pid, signal.SIGKILL)  # whoever outlived it
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def bounded(process: subprocess.Popen[bytes], seconds: float) -> Generator[None]:
    """Kill it where it takes too long: whoever reads from it then hears that it has gone."""
    timer = threading.Timer(seconds, _signal_group, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@asynccontextmanager
async def open_running(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: int | None = subprocess.PIPE,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = None,
) -> AsyncGenerator[trio.Process]:
    """The same under Trio, with other streams where another is asked for."""
    process: trio.Process = await trio.lowlevel.open_process(
        list(command), env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )
    try:
        yield process
    finally:
        with trio.CancelScope(shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
            for number in (signal.SIGTERM, signal.SIGKILL):
                with trio.move_on_after(PATIENCE if process.stdin is not None or number == signal.SIGKILL else 0):
                    await process.wait()
                if process.returncode is not None:
                    break
                _signal_group(process.pid, number)
            await process.wait()
            _signal_group(process.pid, signal.SIGKILL)  # whoever outlived it
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    await stream.aclose()


def heed_sigterm() -> None:
    """Let SIGTERM end a benchmark as Ctrl-C does, so that what it started is ended as well."""

    def interrupt(_number: int, _frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, interrupt)


@contextmanager
def interruptible() -> Generator[None]:
    """A whole benchmark, that Ctrl-C or SIGTERM ends without a traceback, under Trio as well, once all is tidied up."""
    heed_sigterm()
    interrupted = False
    try:
        yield
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        sys.exit(130)


def cpu(pid: int, *, tree: bool = False) -> float:
    """Seconds of processor time so far, with that of its ended children; in steps of a hundredth on most machines."""

    def ticks(member: int) -> int:
        return sum(int(part) for part in _stat(member)[11:15])  # user, system, and both of the children it reaped

    return _sum(pid, tree, ticks) / _TICKS


def resident(pid: int, *, tree: bool = False) -> float:
    """MiB that it has in memory now. Of a tree the sum, in which shared pages count for each that has them."""
    return _memory(pid, "VmRSS", tree)


def peak(pid: int, *, tree: bool = False) -> float:
    """MiB that it has had at most, since its start or ``forget_peak``. Of a tree the sum of the peaks."""
    return _memory(pid, "VmHWM", tree)


def forget_peak(pid: int, *, tree: bool = False) -> None:
    """Let the most memory be counted from now on."""
    _sum(pid, tree, lambda member: Path(f"/proc/{member}/clear_refs").write_text("5"))


def descendants(pid: int) -> list[int]:
    """All that it started and they started, as far as they live and their parents do."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(*_ENDED):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _sum(pid: int, tree: bool, read: Callable[[int], int]) -> int:
    """What is read of it and, of a tree, of those below it that do not end meanwhile."""
    total = read(pid)
    for member in descendants(pid) if tree else ():
        with suppress(*_ENDED):
            total += read(member)
    return total


def _stat(pid: int) -> list[str]:
    """The fields of its stat behind the name, which may hold anything: the state first, then the parent."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _memory(pid: int, what: str, tree: bool) -> float:
    def kilobytes(member: int) -> int:
        found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{member}/status").read_text())
        return int(found[1]) if found else 0  # one that has ended and was not waited for has no memory

    return _sum(pid, tree, kilobytes) / 1024


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
