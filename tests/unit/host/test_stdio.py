"""Serving stdin and stdout for real: a process of its own, its end of stdin, its signals, its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.host import stdio
from mcpx.host.stdio import Ending, _heed_parent
from tests.support.running import in_virtual_time
from tests.unit.host.talk import FakeGateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).resolve().parents[3]

LONG = 60.0  # seconds: an exit budget that no test waits for
LAG = 10.0  # seconds: whatever the machine is busy with, a process does what it is told sooner than this

# A gateway whose calls never end, and whose way out takes as long as its exit plan allows. Its arguments are the
# budgets after EOF and after a signal. On stderr it says what is left of the budget when the way out begins.
PROGRAM = """
import sys, trio
from mcpx.host.service import Service
from mcpx.host.stdio import open_ending, serve_stdio
from tests.unit.host.talk import FakeGateway

async def ladder(plan):
    with trio.CancelScope(shield=True, deadline=plan.end) as scope, plan.followed(lambda: replan(scope, plan)):
        await trio.sleep_forever()

def replan(scope, plan):
    scope.deadline = plan.end

async def main():
    async with open_ending() as ending:
        eof, signal = map(float, sys.argv[1:])
        gateway = FakeGateway(exit_budget_eof=eof, exit_budget_signal=signal)
        try:
            await serve_stdio(Service(gateway), ending)
        finally:
            states = [call.state for call in gateway.calls]
            print(f"left {gateway.exit_plan.end - trio.current_time():.2f} {states}", file=sys.stderr, flush=True)
            await ladder(gateway.exit_plan)

trio.run(main)
"""


class Child:
    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._buffer = b""

    async def say(self, frame: Any) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps(frame).encode() + b"\n")

    async def hear(self) -> Any:
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            data = await self.process.stdout.receive_some()
            assert data, "stdout has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def logged_line(self) -> bytes:
        """The next line that it wrote on stderr."""
        assert self.process.stderr is not None
        line = b""
        while not line.endswith(b"\n"):
            line += (data := await self.process.stderr.receive_some(1))
            assert data, "stderr has ended"
        return line

    async def rest_of_the_log(self) -> str:
        """What else it, or what it left behind, writes on stderr, to its end."""
        assert self.process.stderr is not None
        return b"".join([data async for data in self.process.stderr]).decode()

    async def end(self) -> tuple[int, float, str]:
        """Its exit status, the seconds until it came, and what it wrote on stderr."""
        start = trio.current_time()
        status = await self.process.wait()
        return status, trio.current_time() - start, await self.rest_of_the_log()


@asynccontextmanager
async def spawned(*command: str) -> AsyncIterator[Child]:
    """A command that serves; nothing of its group is left afterwards."""
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        one = Child(process)
        await one.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (await one.hear())["result"] == {}
        yield one
    finally:
        with trio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                await stream.aclose()


def child(*, eof: float = LONG, signal: float = LONG) -> AbstractAsyncContextManager[Child]:
    """The program with these budgets."""
    return spawned(sys.executable, "-c", PROGRAM, str(eof), str(signal))


CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "x"}}


async def test_it_ends_with_its_stdin() -> None:
    async with child(eof=2) as one:
        start = trio.current_time()
        await one.close_stdin()
        status, _, log = await one.end()
        assert status == 0
        assert float(log.split()[1]) > 1  # nothing was owed, so the whole budget is left for the upstreams
        assert 2 <= trio.current_time() - start < 2 + LAG


async def test_at_the_end_of_stdin_what_is_owed_has_its_share_and_the_ladder_the_rest() -> None:
    async with child(eof=2) as one:
        await one.say(CALL)
        await one.close_stdin()
        assert (await one.hear())["error"]["message"] == "mcpx is stopping"
        status, _, log = await one.end()
        assert status == 0
        assert 0.3 <= float(log.split()[1]) <= 0.9  # of the 0.8 that the ladder is to have, and the 0.1 for writing
        assert "['cancelled']" in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_it_ends_with_a_signal(number: signal.Signals) -> None:
    async with child(signal=0.7) as one:
        await one.say(CALL)
        await one.say({"jsonrpc": "2.0", "id": 3, "method": "ping"})
        await one.hear()
        one.process.send_signal(number)
        assert (await one.hear())["id"] == 2
        status, took, log = await one.end()
        assert status == 0
        assert took < LAG
        assert float(log.split()[1]) <= 0.7
        assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
async def test_a_signal_that_it_was_started_to_ignore_stays_ignored(number: signal.Signals) -> None:
    """As nohup does with SIGHUP, and a shell with the SIGINT of what it runs in the background."""
    script = f"trap '' {number.name.removeprefix('SIG')}; exec \"$@\""
    async with spawned("sh", "-c", script, "sh", sys.executable, "-c", PROGRAM, str(LONG), "0.7") as one:
        for id in range(2, 7):
            one.process.send_signal(number)
            await one.say({"jsonrpc": "2.0", "id": id, "method": "ping"})
            assert await one.hear() == {"jsonrpc": "2.0", "id": id, "result": {}}
        one.process.send_signal(signal.SIGTERM)
        assert (await one.end())[0] == 0


async def test_a_signal_while_the_upstreams_are_being_ended_hastens_that() -> None:
    async with child(signal=0.7) as one:
        await one.close_stdin()
        assert float((await one.logged_line()).split()[1]) > LONG / 2
        start = trio.current_time()
        one.process.send_signal(signal.SIGTERM)
        status, _, log = await one.end()
        assert status == 0
        assert 0.7 <= trio.current_time() - start < LAG
        assert not log


async def test_a_second_signal_forces() -> None:
    async with child() as one:
        await one.say(CALL)
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGINT)
        status, took, log = await one.end()
        assert status == 0
        assert took < LAG
        assert "Traceback" not in log


async def test_a_host_that_does_not_read_costs_no_more_than_the_budget() -> None:
    async with child(signal=0.7) as one:
        for id in range(3, 3000):
            await one.say({"jsonrpc": "2.0", "id": "x" * 300 + str(id), "method": "ping"})
        one.process.send_signal(signal.SIGTERM)
        status, took, _ = await one.end()
        assert status == 0
        assert took < LAG


async def test_it_ends_when_its_parent_dies_though_its_stdin_stays_open() -> None:
    """A shell starts it and is killed; this test still holds the other end of its stdin."""
    program = f"import mcpx.host.stdio\nmcpx.host.stdio.PARENT_CHECK = 0.05\n{PROGRAM}"
    script = 'exec 3<&0; "$@" <&3 & wait'  # a background job of a shell has no stdin, so it is handed over as 3
    async with spawned("sh", "-c", script, "sh", sys.executable, "-c", program, "1.2", "0.7") as one:
        one.process.kill()
        await one.process.wait()
        assert "left" in await one.rest_of_the_log()  # which ends when the orphan has ended


def ending_of(gateway: FakeGateway) -> Ending:
    ending = Ending()
    ending.plan_for(gateway)  # type: ignore[arg-type]
    return ending


@in_virtual_time
async def test_the_shares_of_the_exit_budgets() -> None:
    gateway = FakeGateway()
    ending = ending_of(gateway)
    assert ending.drain() == pytest.approx(1.7 - 0.8 - 0.1)
    assert gateway.exit_plan.end == trio.current_time() + 1.7
    await trio.sleep(0.1)
    assert not ending.signalled()
    assert ending.drain() == pytest.approx(0.8 - 0.5 - 0.1)
    assert gateway.exit_plan.end == pytest.approx(trio.current_time() + 0.8)
    await trio.sleep(0.1)
    assert ending.signalled()
    assert gateway.exit_plan.end == trio.current_time()


@in_virtual_time
async def test_a_later_reason_never_puts_the_end_off() -> None:
    gateway = FakeGateway()
    ending = ending_of(gateway)
    ending.drain()
    await trio.sleep(1.5)
    ending.signalled()
    ending.drain()
    assert gateway.exit_plan.end == pytest.approx(1.7)


@in_virtual_time
async def test_budgets_too_small_to_share_go_to_the_ladder() -> None:
    ending = ending_of(FakeGateway(exit_budget_eof=0.5, exit_budget_signal=0.3))
    assert ending.drain() == 0
    ending.signalled()
    assert ending.drain() == 0


@in_virtual_time
async def test_a_signal_before_there_is_a_gateway_ends_the_serving_as_it_begins() -> None:
    ending = Ending()
    assert not ending.signalled()
    assert ending.stop.is_set()
    gateway = FakeGateway()
    ending.plan_for(gateway)  # type: ignore[arg-type]
    ending.drain()
    assert gateway.exit_plan.end == pytest.approx(0.8)


@in_virtual_time
async def test_the_parent_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([10, 10, 10, 1])
    monkeypatch.setattr(stdio.os, "getppid", lambda: next(parents))
    stop = trio.Event()
    await _heed_parent(stop)
    assert stop.is_set()
    assert trio.current_time() == 2 * stdio.PARENT_CHECK
