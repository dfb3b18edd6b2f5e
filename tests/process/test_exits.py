"""Exits are noticed and groups swept where the kernel offers less than it could."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcpx.transports.exits import wait_exited
from tests.process.children import IGNORES_EOF, IGNORES_EOF_AND_TERM, POLITE, child, hear, nobody_is_left, python

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAVES_ONE_BEHIND = [
    *python("import subprocess; subprocess.Popen(sys.argv[1:]); sys.stdin.readline(); sys.exit(7)"),
    *IGNORES_EOF_AND_TERM,
]


def refuse(*_: object) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.fixture(params=["offered", "refused", "unknown"])
def pidfd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that has pidfds, one that refuses them, a Python that does not know them."""
    if request.param == "refused":
        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    elif request.param == "unknown":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("pidfd")
async def test_an_exit_is_noticed_with_its_status_and_the_group_swept() -> None:
    async with child(LEAVES_ONE_BEHIND) as server:
        await hear(server.channel)
        await server.channel.send(b"{}")
        assert await server.wait() == 7
        await nobody_is_left(server.pid)


@pytest.mark.usefixtures("pidfd")
async def test_the_ladder_ends_a_child() -> None:
    async with child(IGNORES_EOF, stdin_grace=0.1) as server:
        await hear(server.channel)
    assert server.returncode == -signal.SIGTERM


@pytest.mark.usefixtures("pidfd")
async def test_waiting_takes_no_status_and_can_be_given_up() -> None:
    async with child(POLITE) as server:
        await hear(server.channel)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_exited, server.pid)
            await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
            nursery.cancel_scope.cancel()
    assert server.returncode == 0


@pytest.fixture
def sigchld_ignored() -> Iterator[None]:
    """What a parent that ignores SIGCHLD hands on to its children: the kernel reaps theirs at once."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("pidfd", "sigchld_ignored")
async def test_where_the_kernel_reaps_by_itself_an_exit_is_still_noticed() -> None:
    async with child(LEAVES_ONE_BEHIND) as server:
        await hear(server.channel)
        await server.channel.send(b"{}")
        await server.wait()
        await nobody_is_left(server.pid)
