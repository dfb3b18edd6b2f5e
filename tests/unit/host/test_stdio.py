"""Serving stdin and stdout for real: a process of its own, its end of stdin, its signals, its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.host import stdio
from mcpx.host.stdio import Ending, _heed_parent
from tests.unit.host.talk import FakeGateway
from tests.unit.transports.doubles import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).resolve().parents[3]

# A gateway whose calls never end, and whose way out takes as long as its exit plan allows.
PROGRAM = """
import sys, trio
from mcpx.host.stdio import open_ending, serve_stdio
from tests.unit.host.talk import FakeGateway

async def ladder(plan):
    with trio.CancelScope(shield=True, deadline=plan.end) as scope, plan.followed(lambda: replan(scope, plan)):
        await trio.sleep_forever()

def replan(scope, plan):
    scope.deadline = plan.end

async def main():
    async with open_ending() as ending:
        gateway = FakeGateway(exit_budget_eof=1.2, exit_budget_signal=0.7)
        try:
            await serve_stdio(gateway, ending)
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

    async def log(self) -> bytes:
        """The next of what it wrote on stderr."""
        assert self.process.stderr is not None
        return await self.process.stderr.receive_some()

    async def end(self) -> tuple[int, float, str]:
        """Its exit status, the seconds until it came, and what it wrote on stderr."""
        start = trio.current_time()
        status = await self.process.wait()
        assert self.process.stderr is not None
        return status, trio.current_time() - start, b"".join([data async for data in self.process.stderr]).decode()


@asynccontextmanager
async def child(*before: str) -> AsyncIterator[Child]:
    process = await trio.lowlevel.open_process(
        [*before, sys.executable, "-c", PROGRAM],
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
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            await stream.aclose()


CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "x"}}


async def test_it_ends_with_its_stdin() -> None:
    async with child() as one:
        assert one.process.stdin is not None
        await one.process.stdin.aclose()
        status, took, log = await one.end()
        assert status == 0
        assert "left 1." in log  # nothing was owed, so the whole budget is left for the upstreams
        assert 1 < took < 1.6


async def test_at_the_end_of_stdin_what_is_owed_has_its_share_and_the_ladder_the_rest() -> None:
    async with child() as one:
        await one.say(CALL)
        assert one.process.stdin is not None
        await one.process.stdin.aclose()
        assert (await one.hear())["error"]["message"] == "mcpx is stopping"
        status, _, log = await one.end()
        assert status == 0
        assert float(log.split()[1]) >= 0.6  # of the 0.8 that the ladder is to have
        assert "['cancelled']" in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_with_a_signal(number: signal.Signals) -> None:
    async with child() as one:
        await one.say(CALL)
        await one.say({"jsonrpc": "2.0", "id": 3, "method": "ping"})
        await one.hear()
        one.process.send_signal(number)
        assert (await one.hear())["id"] == 2
        status, took, log = await one.end()
        assert status == 0
        assert took < 1
        assert 0.3 <= float(log.split()[1]) <= 0.7
        assert "Traceback" not in log


async def test_a_signal_while_the_upstreams_are_being_ended_hastens_that() -> None:
    async with child() as one:
        assert one.process.stdin is not None
        await one.process.stdin.aclose()
        assert b"left 1." in await one.log()
        one.process.send_signal(signal.SIGTERM)
        status, took, log = await one.end()
        assert status == 0
        assert 0.5 < took < 1
        assert not log.strip()


async def test_a_second_signal_forces() -> None:
    async with child() as one:
        await one.say(CALL)
        one.process.send_signal(signal.SIGTERM)
        one.process.send_signal(signal.SIGINT)
        status, took, log = await one.end()
        assert status == 0
        assert took < 0.3
        assert "Traceback" not in log


async def test_a_host_that_does_not_read_costs_no_more_than_the_budget() -> None:
    async with child() as one:
        for id in range(3, 3000):
            await one.say({"jsonrpc": "2.0", "id": "x" * 300 + str(id), "method": "ping"})
        one.process.send_signal(signal.SIGTERM)
        start = trio.current_time()
        status = await one.process.wait()
        assert status == 0
        assert trio.current_time() - start < 1


async def test_it_ends_when_its_parent_dies_though_its_stdin_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell starts it and is killed; this test still holds the other end of its stdin."""
    program = f"import mcpx.host.stdio\nmcpx.host.stdio.PARENT_CHECK = 0.05\n{PROGRAM}"
    script = '"$0" -c "$1" & echo $! >&2; wait'  # a background job of a shell has no stdin, so it is handed over as 3
    process = await trio.lowlevel.open_process(
        ["sh", "-c", f"exec 3<&0; {script.replace('& echo', '<&3 & echo')}", sys.executable, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        one = Child(process)
        await one.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await one.hear()
        process.kill()
        await process.wait()
        assert process.stderr is not None
        log = b"".join([data async for data in process.stderr]).decode()  # ends when the orphan has ended
        assert "left" in log
    finally:
        with trio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                await stream.aclose()


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
