"""mcpx's own stdin and stdout, whatever they are: pipes, sockets, files, terminals, closed."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcpx.settings import MiB
from tests.process.children import ENV

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.process.echo"]
FRAMES = b'{"n":1}\n{"n":2}\n'

# What the program says on stderr, in order: its stray print goes there as well, when Python flushes it.
WHILE = {"stdin": "", "blocking": True}
AFTER = {"blocking": [True, True]}


async def run(**streams: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end, with what ``streams`` does not name captured, and nothing on its stdin."""
    captured = {f"capture_{name}": True for name in ("stdout", "stderr") if name not in streams}
    return await trio.run_process(COMMAND, cwd=ROOT, env=ENV, check=False, **{"stdin": b"", **captured, **streams})


def starting(**streams: Any) -> Any:
    """For ``nursery.start``: run the program beside the test."""
    return partial(trio.run_process, COMMAND, cwd=ROOT, env=ENV, check=False, **streams)


async def read(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += (chunk := await stream.receive_some(size - len(data)))
        assert chunk, "the stream ended"
    return data


def told(stderr: bytes) -> list[Any]:
    """What the program said, and its strays as text."""
    return [json.loads(line) if line.startswith(b"{") else line.decode() for line in stderr.splitlines()]


AS_EXPECTED = ["stray write", WHILE, "stray", AFTER]


async def test_over_pipes_stdout_carries_frames_and_nothing_else() -> None:
    ended = await run(stdin=FRAMES)
    assert ended.stdout == FRAMES + b"after\n"
    assert sorted(map(str, told(ended.stderr))) == sorted(map(str, AS_EXPECTED))
    assert ended.returncode == 0


async def test_a_20_mb_message_passes() -> None:
    message = b'["' + b"x" * (20 * MiB) + b'"]\n'
    assert (await run(stdin=message)).stdout == message + b"after\n"


async def test_over_one_socket_for_both() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(FRAMES)
        ours.shutdown(socket.SHUT_WR)
        ended = await run(stdin=theirs, stdout=theirs)
        assert ours.recv(1000) == FRAMES + b"after\n"
        assert theirs.getblocking()
    assert told(ended.stderr)[-1] == AFTER
    assert ended.returncode == 0


async def test_over_files(tmp_path: Path) -> None:
    source, target = trio.Path(tmp_path / "in"), trio.Path(tmp_path / "out")
    await source.write_bytes(FRAMES)
    async with await source.open("rb") as stdin, await target.open("wb") as stdout:
        ended = await run(stdin=stdin.wrapped, stdout=stdout.wrapped)
    assert await target.read_bytes() == FRAMES + b"after\n"
    assert told(ended.stderr)[-1] == AFTER
    assert ended.returncode == 0


async def test_from_dev_null() -> None:
    ended = await run(stdin=subprocess.DEVNULL)
    assert ended.stdout == b"after\n"
    assert ended.returncode == 0


async def test_on_a_terminal_it_answers_and_may_leave_with_no_input_and_the_terminal_stays_as_it_was() -> None:
    ours, theirs = pty.openpty()
    try:
        async with trio.open_nursery() as nursery:
            process = await nursery.start(starting(stdin=theirs, stdout=subprocess.PIPE, stderr=theirs))
            os.write(ours, b'{"n":1}\n')
            assert await read(process.stdout, 8) == b'{"n":1}\n'
            os.write(ours, b'"leave"\n')
            assert await read(process.stdout, 6) == b"after\n"
        assert process.returncode == 0
        assert os.get_blocking(theirs)
        await process.stdout.aclose()
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_terminal_that_goes_away_is_an_end() -> None:
    ours, theirs = pty.openpty()
    async with trio.open_nursery() as nursery:
        process = await nursery.start(starting(stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        os.close(theirs)
        os.write(ours, b'{"n":1}\n')
        assert await read(process.stdout, 8) == b'{"n":1}\n'
        os.close(ours)
        assert await read(process.stdout, 6) == b"after\n"
    assert process.returncode == 0
    await process.stdout.aclose()


async def test_a_pipe_that_is_stderr_as_well_is_not_made_non_blocking() -> None:
    ended = await run(stdin=FRAMES, stderr=subprocess.STDOUT)
    assert [line for line in told(ended.stdout) if "n" in line] == [{"n": 1}, {"n": 2}]
    assert WHILE in told(ended.stdout)


async def test_a_host_that_no_longer_reads_is_no_error() -> None:
    async with trio.open_nursery() as nursery:
        every = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = await nursery.start(starting(**every))
        await process.stdout.aclose()
        for _ in range(10):
            await process.stdin.send_all(FRAMES)
        await process.stdin.aclose()
        said = b""
        while chunk := await process.stderr.receive_some():
            said += chunk
    assert told(said)[-1] == AFTER
    assert process.returncode == 0
    await process.stderr.aclose()


@pytest.mark.parametrize("redirection", ["<&-", ">&-"])
async def test_started_without_stdin_or_stdout_it_says_so(redirection: str) -> None:
    ended = await trio.run_process(
        ["sh", "-c", f'"$@" {redirection}', "sh", *COMMAND], cwd=ROOT, env=ENV, check=False, capture_stderr=True
    )
    assert b"There is no host to serve" in ended.stderr


async def test_started_without_stderr_strays_go_nowhere() -> None:
    ended = await trio.run_process(
        ["sh", "-c", '"$@" 2>&-', "sh", *COMMAND], cwd=ROOT, env=ENV, check=False, stdin=FRAMES, capture_stdout=True
    )
    assert ended.stdout.startswith(FRAMES)
    assert b"stray" not in ended.stdout
