"""The shutdown ladder on real children: nothing of a group is left, nothing takes longer than the waits allow.

``child`` asserts after each test that the leader was reaped and that its group is empty.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from mcpx.transports.ladder import ExitPlan
from tests.process.children import (
    IGNORES_EOF,
    IGNORES_EOF_AND_TERM,
    POLITE,
    READY,
    SAVES_AT_EOF,
    child,
    hear,
    members,
    nobody_is_left,
    python,
)
from tests.support.fake_down import alive
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def takes(least: float, most: float) -> AsyncIterator[None]:
    start = trio.current_time()
    yield
    taken = trio.current_time() - start
    assert least <= taken <= most + BUSY


async def test_a_server_that_ends_at_eof_is_not_waited_for_any_longer() -> None:
    async with takes(0, 0), child(POLITE) as server:
        await hear(server.channel)
    assert server.returncode == 0


async def test_a_server_that_saves_for_a_second_at_eof_may_finish() -> None:
    async with takes(1, 1), child(SAVES_AT_EOF) as server:
        await hear(server.channel)
    assert server.returncode == 0
    assert server.last_words() == "saved"


async def test_a_server_that_ignores_eof_is_ended_by_sigterm() -> None:
    async with takes(0.3, 0.3), child(IGNORES_EOF, stdin_grace=0.3) as server:
        await hear(server.channel)
    assert server.returncode == -signal.SIGTERM


async def test_a_server_that_ignores_eof_and_sigterm_is_killed() -> None:
    async with takes(0.6, 0.6), child(IGNORES_EOF_AND_TERM, stdin_grace=0.3, term_grace=0.3) as server:
        await hear(server.channel)
    assert server.returncode == -signal.SIGKILL


async def test_a_wrapper_whose_child_ignores_sigterm_leaves_nobody(tmp_path: Path) -> None:
    write(
        tmp_path / "child.py", READY + "signal.signal(signal.SIGTERM, signal.SIG_IGN); say(pid=os.getpid()); forever()"
    )
    wrapper = ["sh", "-c", '"$0" child.py & wait', sys.executable]
    async with takes(0.4, 0.4), child(wrapper, cwd=str(tmp_path), stdin_grace=0.2, term_grace=0.2) as server:
        ((told),) = await hear(server.channel)
        assert told["pid"] != server.pid
    assert server.returncode == -signal.SIGTERM
    assert not alive(told["pid"])


async def test_a_wrapper_that_dies_first_leaves_its_server_the_rest_of_the_wait_to_save(tmp_path: Path) -> None:
    program = """
def save(*_):
    time.sleep(0.5); open('saved', 'w').close(); sys.exit()
signal.signal(signal.SIGTERM, save); say(pid=os.getpid()); forever()
"""
    write(tmp_path / "child.py", READY + program)
    wrapper = ["sh", "-c", '"$0" child.py & wait', sys.executable]
    async with takes(0.6, 0.6), child(wrapper, cwd=str(tmp_path), stdin_grace=0.1) as server:
        await hear(server.channel)
    assert content(tmp_path / "saved") == b""


async def start_five_stubborn(nursery: trio.Nursery, **options: Any) -> None:
    """Start five servers that ignore everything, and run until the nursery is cancelled."""

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        async with child(IGNORES_EOF_AND_TERM, **options) as server:
            await hear(server.channel)
            task_status.started()
            await trio.sleep_forever()

    for _ in range(5):
        await nursery.start(run)


async def test_five_stubborn_servers_at_once_take_one_ladder() -> None:
    async with trio.open_nursery() as nursery:
        await start_five_stubborn(nursery, stdin_grace=0.5, term_grace=0.5)
        start = trio.current_time()
        nursery.cancel_scope.cancel()
    assert 1.0 <= trio.current_time() - start <= 1.0 + BUSY


async def test_five_stubborn_servers_are_gone_within_the_exit_budget() -> None:
    plan = ExitPlan()
    async with trio.open_nursery() as nursery:
        await start_five_stubborn(nursery, stdin_grace=20, term_grace=20, exit_plan=plan)
        plan.end = trio.current_time() + 1.7
        nursery.cancel_scope.cancel()
    assert trio.current_time() <= plan.end + BUSY


async def test_an_end_that_is_set_while_a_ladder_is_under_way_cuts_it() -> None:
    plan = ExitPlan()
    leaving = trio.Event()

    async def stop_one() -> None:
        async with child(IGNORES_EOF_AND_TERM, stdin_grace=20, term_grace=20, exit_plan=plan) as server:
            await hear(server.channel)
            leaving.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_one)
        await leaving.wait()
        await trio.testing.wait_all_tasks_blocked()
        plan.end = trio.current_time() + 0.8
    assert trio.current_time() <= plan.end + BUSY


async def test_what_a_leader_leaves_behind_when_it_exits_by_itself_is_swept() -> None:
    program = "import subprocess; subprocess.Popen(sys.argv[1:]); sys.stdin.readline()"
    async with child([*python(program), *IGNORES_EOF_AND_TERM]) as server:
        ((told),) = await hear(server.channel)
        assert told["pid"] in members(server.pid)
        await server.channel.send(b"{}")
        assert await server.wait() == 0
        await nobody_is_left(server.pid)
        assert await server.channel.receive() == []


async def test_a_leader_that_is_killed_takes_its_group_along() -> None:
    wrapper = ["sh", "-c", '"$@" & wait', "sh", *IGNORES_EOF_AND_TERM]
    async with child(wrapper) as server:
        await hear(server.channel)
        os.kill(server.pid, signal.SIGKILL)
        assert await server.wait() == -signal.SIGKILL
        await nobody_is_left(server.pid)


async def test_a_stray_that_left_the_group_with_our_pipes_holds_nothing_up() -> None:
    program = "import subprocess; subprocess.Popen(sys.argv[1:], start_new_session=True); sys.stdin.readline()"
    async with takes(0, 0), child([*python(program), *IGNORES_EOF]) as server:
        ((told),) = await hear(server.channel)
        await server.channel.send(b"{}")
        assert await server.wait() == 0
    os.kill(told["pid"], signal.SIGKILL)


async def test_a_server_with_much_to_say_at_eof_can_say_it_and_end() -> None:
    program = "say(); until_eof(); sys.stdout.write('o' * 2**20); sys.stderr.write('e' * 2**20)"
    async with takes(0, 0), child(python(program)) as server:
        await hear(server.channel)
    assert server.returncode == 0


async def test_a_server_that_does_not_read_gets_its_end_all_the_same() -> None:
    async with takes(0.4, 0.4), child(IGNORES_EOF, stdin_grace=0.4) as server:
        await hear(server.channel)
        server.channel.send_nowait(b"x" * 2**20)
    assert server.returncode == -signal.SIGTERM


async def test_what_is_queued_when_the_end_comes_is_still_written(tmp_path: Path) -> None:
    program = "say(); data = sys.stdin.buffer.read(); open('got', 'wb').write(data)"
    async with child(python(program), cwd=str(tmp_path)) as server:
        await hear(server.channel)
        for number in range(1000):
            server.channel.send_nowait(b"%d" % number)
    assert content(tmp_path / "got") == b"".join(b"%d\n" % number for number in range(1000))


async def test_a_cancelled_body_ends_its_child_by_the_ladder() -> None:
    with trio.CancelScope() as scope:
        async with child(SAVES_AT_EOF) as server:
            await hear(server.channel)
            scope.cancel()
            await trio.sleep_forever()
    assert server.returncode == 0
    assert server.last_words() == "saved"


async def test_a_stopped_server_is_killed() -> None:
    async with takes(0.4, 0.4), child(POLITE, stdin_grace=0.2, term_grace=0.2) as server:
        await hear(server.channel)
        os.kill(server.pid, signal.SIGSTOP)
    assert server.returncode == -signal.SIGKILL


def write(path: Path, text: str) -> None:
    path.write_text(text)


def content(path: Path) -> bytes:
    return path.read_bytes()
