"""Real children for the tests of processes: programs, a way to run them, and a look at what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import trio

from mcpx.settings import Limits
from mcpx.transports.exits import wait_exited
from mcpx.transports.process import open_process
from tests.support.fake_down import alive
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcpx.transports.channel import Channel
    from mcpx.transports.process import ServerProcess

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

READY = """
import json, os, signal, sys, time
def say(**what): print(json.dumps(what), flush=True)
def until_eof(): sys.stdin.buffer.read()
def forever():
    while True: signal.pause()
"""


def python(program: str) -> list[str]:
    """The command of a Python program; it has the names of ``READY``."""
    return [sys.executable, "-I", "-S", "-c", READY + program]


POLITE = python("say(pid=os.getpid()); until_eof()")
IGNORES_EOF = python("say(pid=os.getpid()); forever()")
IGNORES_EOF_AND_TERM = python("signal.signal(signal.SIGTERM, signal.SIG_IGN); say(pid=os.getpid()); forever()")
SAVES_AT_EOF = python("say(pid=os.getpid()); until_eof(); time.sleep(1); print('saved', file=sys.stderr)")


@asynccontextmanager
async def child(
    command: Sequence[str],
    *,
    stdin_grace: float = 5.0,
    term_grace: float = 5.0,
    env: dict[str, str] | None = None,
    cwd: str | None = None,
    **options: Any,
) -> AsyncIterator[ServerProcess]:
    """Run a child; afterwards it is reaped and nothing is left of its group."""
    limits = Limits(stdin_grace=stdin_grace, term_grace=term_grace)
    try:
        async with open_process(command, name="it", env=env or ENV, cwd=cwd, limits=limits, **options) as server:
            yield server
    finally:
        assert server.returncode is not None, "not reaped"
        await nobody_is_left(server.pid)


async def hear(channel: Channel, count: int = 1) -> list[dict[str, Any]]:
    """The next messages, decoded."""
    lines: list[Any] = []
    while len(lines) < count:
        batch = await channel.receive()
        assert batch, "the stream ended"
        lines += batch
    return [json.loads(line) for line in lines]


def members(group: int) -> list[int]:
    """The processes of a group that still run."""
    table = subprocess.run(["ps", "-A", "-o", "pid=,pgid="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in table.splitlines()]
    return [pid for pid, pgid in rows if pgid == group and alive(pid)]


async def nobody_is_left(group: int) -> None:
    """Assert that a group is empty; one that was killed may still be on its way out."""
    with trio.move_on_after(PATIENCE, shield=True):
        while members(group):  # noqa: ASYNC110 nobody tells of the exit of a stranger
            await trio.sleep(0.01)
    assert members(group) == [], "something of the group is left"


async def wait_gone(pid: int) -> None:
    """Wait until a process, anybody's child, runs no more."""
    with suppress(ProcessLookupError):
        if alive(pid):
            await wait_exited(pid)
    assert not alive(pid)
