"""A server as a child process: what it is given, what is heard of it, how it fails to start, how it exits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import SpawnError
from mcpx.settings import Limits, MiB
from mcpx.transports.process import open_process
from mcpx.transports.spawn import signal_group
from mcpx.transports.watcher import open_watcher
from tests.process.children import ENV, IGNORES_EOF, POLITE, child, hear, nobody_is_left, python
from tests.support.fake_down import alive

if TYPE_CHECKING:
    from pathlib import Path


async def test_messages_go_both_ways() -> None:
    async with child(["cat"]) as server:
        for number in range(3):
            await server.channel.send(b'{"n":%d}' % number)
            assert await hear(server.channel) == [{"n": number}]
    assert server.returncode == 0


async def test_a_20_mb_message_goes_both_ways_and_takes_its_own_size_of_memory() -> None:
    message = b'["' + b"x" * (20 * MiB) + b'"]'
    async with child(["cat"]) as server:
        tracemalloc.start()
        try:
            await server.channel.send(message)
            received = await server.channel.receive()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert received == [message]
    assert peak < 1.5 * len(message)


async def test_noise_crlf_and_a_byte_order_mark_on_stdout() -> None:
    program = r"""
sys.stdout.buffer.write(b'\xef\xbb\xbf{"n":1}\r\n\r\n   \nStarting \xff server...\n{"n":"\xe2\x80\xa8"}\n{"n":3}')
"""
    async with child(python(program)) as server:
        lines: list[object] = []
        while batch := await server.channel.receive():
            lines += batch
    assert lines == [b'{"n":1}', b"Starting \xff server...", '{"n":"\u2028"}'.encode(), b'{"n":3}']


async def test_a_megabyte_of_stderr_without_a_newline_holds_up_no_answer() -> None:
    program = "until = sys.stdin.readline(); sys.stderr.write('e' * 2**20); sys.stderr.flush(); say(n=1); until_eof()"
    shown: list[str] = []
    async with child(python(program), on_stderr=shown.append) as server:
        await server.channel.send(b"{}")
        assert await hear(server.channel) == [{"n": 1}]
        assert len(server.last_words(10**9)) <= Limits().max_stderr_tail
    assert shown == ["e" * 1000 + f" … ({2**20} bytes)"]


async def test_stderr_is_shown_line_by_line_and_the_last_words_are_whole_when_the_exit_is_known() -> None:
    program = "print('one\\ntwo', file=sys.stderr, flush=True); say(); until_eof(); sys.exit('x' * 5000 + '\\nthe end')"
    shown: list[str] = []
    async with child(python(program), on_stderr=shown.append) as server:
        await hear(server.channel)
        with pytest.raises(trio.TooSlowError), trio.fail_after(0):
            await server.wait()
        await server.channel.flush()
        assert server.returncode is None
    assert shown[:2] == ["one", "two"]
    assert server.last_words().endswith("\nthe end") or server.last_words() == "the end"
    assert len(server.last_words(100)) <= 100


@pytest.mark.parametrize(
    ("program", "status"),
    [("sys.exit(3)", 3), ("pass", 0), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
)
async def test_an_exit_by_itself_is_reported_with_its_status_and_last_words(program: str, status: int) -> None:
    async with child(python(f"print('ended', file=sys.stderr, flush=True); {program}")) as server:
        assert await server.wait() == status
        assert server.returncode == status
        assert server.last_words() == "ended"
        assert await server.channel.receive() == []
        server.channel.send_nowait(b"{}")
        await server.channel.send(b"{}")


async def test_what_was_said_before_an_exit_is_still_heard_after_it() -> None:
    async with child(python("say(n=1); say(n=2)")) as server:
        await server.wait()
        assert await hear(server.channel, 2) == [{"n": 1}, {"n": 2}]


def resolved(folder: Path) -> str:
    return str(folder.resolve())


async def test_the_child_has_the_environment_the_folder_and_the_session_that_it_was_given(tmp_path: Path) -> None:
    program = "say(env=dict(os.environ), cwd=os.getcwd(), ids=[os.getpid(), os.getpgrp(), os.getsid(0)]); until_eof()"
    env = {"PATH": ENV["PATH"], "LC_CTYPE": "C.UTF-8", "OWN": "1"}
    async with child(python(program), env=env, cwd=str(tmp_path)) as server:
        ((told),) = await hear(server.channel)
        assert told == {"env": env, "cwd": resolved(tmp_path), "ids": [server.pid] * 3}
        assert server.pid != os.getpgrp()


async def test_the_command_is_looked_for_on_the_childs_own_path(tmp_path: Path) -> None:
    tool = tmp_path / "only-there"
    tool.write_text('#!/bin/sh\necho "{}"\n')
    tool.chmod(0o755)
    async with child(["only-there"], env={"PATH": str(tmp_path)}) as server:
        assert await hear(server.channel) == [{}]


async def test_no_child_has_a_descriptor_of_another_or_of_mcpx() -> None:
    program = """
def is_open(fd):
    try: return bool(os.fstat(fd))
    except OSError: return False
say(fds=[fd for fd in sorted(map(int, os.listdir('/dev/fd'))) if is_open(fd)]); until_eof()
"""
    async with (
        open_watcher(Limits()) as watcher,
        child(POLITE, watcher=watcher) as first,
        child(python(program), watcher=watcher) as second,
    ):
        await hear(first.channel)
        assert await hear(second.channel) == [{"fds": [0, 1, 2]}]


async def test_one_child_ends_at_its_eof_while_its_siblings_run_on() -> None:
    async with child(POLITE) as sibling:
        async with child(POLITE) as first, child(POLITE) as second:
            for server in (sibling, first, second):
                await hear(server.channel)
        assert (first.returncode, second.returncode) == (0, 0)
        assert alive(sibling.pid)


async def refuse(command: list[str], *, cwd: str | None = None, env: dict[str, str] | None = None) -> str:
    with pytest.raises(SpawnError) as caught:
        async with open_process(command, name="it", env=env or ENV, cwd=cwd, limits=Limits()):
            pass
    return str(caught.value)


async def test_a_missing_command_is_named_with_the_path_that_was_searched() -> None:
    assert await refuse(["no-such-command", "-x"], env={"PATH": "/nowhere:/at/all"}) == (
        'The command "no-such-command" was not found on the PATH: /nowhere:/at/all'
    )
    assert await refuse(["/no/such/command"]) == '"/no/such/command" does not exist.'
    assert await refuse([]) == "There is no command to start."


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path / "gone")
    assert await refuse(["cat"], cwd=folder) == f'"cat" cannot be started in "{folder}": there is no such folder.'
    assert await refuse(["./tool"], cwd=str(tmp_path)) == f'"./tool" does not exist (seen from "{tmp_path}").'


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        ("#!/bin/sh\n", 0o644, "it may not be executed."),
        ("#!/no/such/shell\n", 0o755, "the interpreter that its first line names does not exist."),
        (
            "\x00\x01\x02",
            0o755,
            "it is neither a program for this machine nor a script that names its interpreter.",
        ),
    ],
)
async def test_a_file_that_does_not_run_is_named_with_the_reason(
    tmp_path: Path, content: str, mode: int, reason: str
) -> None:
    tool = tmp_path / "tool"
    tool.write_text(content)
    tool.chmod(mode)
    told = await refuse([str(tool)])
    assert told.startswith(f'"{tool}"')
    assert told.endswith(reason)


async def test_on_windows_it_says_what_does_not_hold_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    told = await refuse(["cat"])
    assert "On Windows" in told
    assert "WSL" in told


async def test_values_that_no_program_can_be_given_are_refused_plainly() -> None:
    assert '"cat" cannot be started' in await refuse(["cat", "a\0b"])
    assert '"cat" cannot be started' in await refuse(["cat"], env={**ENV, "A=B": "c"})
    assert '"cat" cannot be started' in await refuse(["cat", "x" * 2**25])


async def test_a_cancellation_while_the_child_is_being_started_loses_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    started: list[int] = []

    def slow(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        monkeypatch.setattr(subprocess, "Popen", real)
        process = real(*args, **options)
        started.append(process.pid)
        trio.from_thread.run_sync(scope.cancel)
        return process

    monkeypatch.setattr(subprocess, "Popen", slow)
    with trio.CancelScope() as scope:
        async with child(IGNORES_EOF, stdin_grace=0.1):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert len(started) == 1
    await nobody_is_left(started[0])


async def test_a_cancellation_before_the_start_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_process(["cat"], name="it", env=ENV, cwd=None, limits=Limits()):
            pytest.fail("entered")
    assert scope.cancelled_caught


async def test_what_the_body_raises_comes_out_as_itself_and_the_child_is_ended() -> None:
    async def fail() -> None:
        async with child(POLITE) as server:
            await hear(server.channel)
            raise KeyError("reason")

    with pytest.raises(KeyError, match="reason"):
        await fail()


def test_no_group_but_a_childs_is_ever_signalled() -> None:
    for group in (os.getpgrp(), 1, 0, -1):
        with pytest.raises(ValueError, match="not the group of a child"):
            signal_group(group, signal.SIGCONT)
