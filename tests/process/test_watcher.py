"""mcpx killed without a chance to clean up: the watcher walks the ladder for it."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from mcpx.settings import Limits
from mcpx.transports import watcher as watcher_module
from mcpx.transports.watcher import Watcher, open_watcher
from tests.process.children import IGNORES_EOF, IGNORES_EOF_AND_TERM, POLITE, child, hear, python, wait_gone
from tests.support.fake_down import alive
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


async def kill_program(*commands: list[str], stdin_grace: int = 1, term_grace: int = 1) -> tuple[list[int], int]:
    """Run ``doomed.py`` with these servers and SIGKILL it; return who is left behind, and the watcher."""
    waits = [str(stdin_grace), str(term_grace)]
    command = [sys.executable, "-m", "tests.process.doomed", *waits, *map(json.dumps, commands)]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(run)
        assert process.stdout is not None
        data = b""
        while not data.endswith(b"\n"):
            data += (chunk := await process.stdout.receive_some())
            assert chunk, "it ended by itself"
        told = json.loads(data)
        assert all(map(alive, told["pids"]))
        process.kill()
    await process.stdout.aclose()
    return told["pids"], told["watcher"]


async def test_no_server_outlives_a_killed_mcpx() -> None:
    wrapper = ["sh", "-c", '"$@" & wait', "sh", *IGNORES_EOF_AND_TERM]
    pids, watcher = await kill_program(POLITE, IGNORES_EOF, IGNORES_EOF_AND_TERM, wrapper)
    for pid in [*pids, watcher]:
        await wait_gone(pid)


async def test_a_server_may_still_save_when_mcpx_is_killed(tmp_path: Path) -> None:
    saves = python(f"say(pid=os.getpid()); until_eof(); time.sleep(1); open({str(tmp_path / 'saved')!r}, 'w').close()")
    pids, watcher = await kill_program(saves, stdin_grace=4)
    for pid in [*pids, watcher]:
        await wait_gone(pid)
    assert [path.name for path in list_folder(tmp_path)] == ["saved"]


async def test_a_watcher_with_nobody_left_to_wait_for_goes_at_once() -> None:
    pids, watcher = await kill_program(POLITE, stdin_grace=3600, term_grace=3600)
    for pid in [*pids, watcher]:
        await wait_gone(pid)


async def test_it_starts_with_the_first_server_and_ends_with_the_gateway() -> None:
    async with open_watcher(Limits()) as watcher:
        assert watcher.pid is None
        async with child(POLITE, watcher=watcher) as first, child(POLITE, watcher=watcher) as second:
            pid = running(watcher)
            await hear(first.channel)
            await hear(second.channel)
        assert running(watcher) == pid
        assert os.getsid(pid) == pid
    assert not alive(pid)


async def test_it_signals_no_group_that_it_was_told_to_forget() -> None:
    async with child(IGNORES_EOF, stdin_grace=0.1) as kept, child(IGNORES_EOF, stdin_grace=0.1) as doomed:
        await hear(kept.channel)
        await hear(doomed.channel)
        async with open_watcher(Limits(stdin_grace=0, term_grace=0)) as watcher:
            await watcher.ensure_running()
            for _ in range(100):
                watcher.add(kept.pid)
                watcher.add(doomed.pid)
                watcher.remove(kept.pid)
        assert await doomed.wait() == -signal.SIGTERM
        assert kept.returncode is None
        assert alive(kept.pid)


async def test_signals_meant_for_mcpx_do_not_end_it() -> None:
    async with open_watcher(Limits(stdin_grace=0, term_grace=0)) as watcher:
        async with child(POLITE, watcher=watcher) as server:
            await hear(server.channel)
            first = running(watcher)
            await deaf_to_signals(first)
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
                os.kill(first, number)
        async with child(POLITE, watcher=watcher) as server:
            await hear(server.channel)
        assert running(watcher) == first


async def test_one_that_was_killed_is_started_again_with_the_groups_it_had() -> None:
    async with child(IGNORES_EOF, stdin_grace=0.1) as doomed:
        await hear(doomed.channel)
        async with open_watcher(Limits(stdin_grace=0, term_grace=0)) as watcher:
            await watcher.ensure_running()
            watcher.add(doomed.pid)
            first = running(watcher)
            os.kill(first, signal.SIGKILL)
            await wait_gone(first)
            watcher.add(doomed.pid)  # to nobody
            await watcher.ensure_running()
            assert running(watcher) != first
        assert await doomed.wait() == -signal.SIGTERM


async def test_one_that_stopped_reading_is_replaced() -> None:
    async with child(IGNORES_EOF, stdin_grace=0.1) as doomed:
        await hear(doomed.channel)
        async with open_watcher(Limits(stdin_grace=0, term_grace=0)) as watcher:
            await watcher.ensure_running()
            first = running(watcher)
            os.kill(first, signal.SIGSTOP)
            for _ in range(20_000):
                watcher.add(doomed.pid)
            await wait_gone(first)
            await watcher.ensure_running()
        assert await doomed.wait() == -signal.SIGTERM


async def test_many_who_start_it_at_once_start_one() -> None:
    async with open_watcher(Limits()) as watcher:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(watcher.ensure_running)
        first = running(watcher)
        await watcher.ensure_running()
        assert running(watcher) == first


async def test_without_a_shell_servers_run_all_the_same_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watcher_module, "SHELL", "/no/such/shell")
    with caplog.at_level(logging.WARNING):
        async with open_watcher(Limits()) as watcher:
            for _ in range(2):
                async with child(POLITE, watcher=watcher) as server:
                    await hear(server.channel)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "outlive" in caplog.text


@pytest.mark.parametrize("scarce", ["os.pipe", "trio.lowlevel.open_process"])
async def test_where_files_or_processes_run_short_servers_run_and_the_next_start_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, scarce: str
) -> None:
    def runs_short(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    with caplog.at_level(logging.WARNING):
        async with open_watcher(Limits()) as watcher:
            with monkeypatch.context() as patch:
                patch.setattr(scarce, runs_short)
                await watcher.ensure_running()
            assert watcher.pid is None
            assert "Too many open files" in caplog.text
            async with child(POLITE, watcher=watcher) as server:
                await hear(server.channel)
                assert alive(running(watcher))


async def deaf_to_signals(pid: int) -> None:
    """Wait until the shell has set its trap, of which SIGTERM is the last."""
    with trio.fail_after(PATIENCE):
        while not ignores(pid, signal.SIGTERM):  # noqa: ASYNC110 nothing tells of it
            await trio.sleep(0.01)


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether a process ignores a signal; taken for granted where there is no /proc to ask."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return True
    [mask] = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigIgn:")]
    return bool(int(mask, 16) >> (number - 1) & 1)


def running(watcher: Watcher) -> int:
    assert watcher.pid is not None
    return watcher.pid


def list_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir())
