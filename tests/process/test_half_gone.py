"""Servers that are lost without an end of their stdout to tell it: mcpx says so at once, and starts them again."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcpx.spec.revisions import LATEST_LEGACY
from tests.support.scripted import TOOL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.stage import Stage

TOOLS = [TOOL, {**TOOL, "name": "dies"}]
AT_ONCE = 10.0  # seconds, far below any timeout of a call
LIMITS: dict[str, Any] = {"stdinGrace": 0.2, "termGrace": 0.2}

# Leaves a process in a session of its own that holds the pipes, as a daemon may, and becomes the server.
STRAY = """
import os, subprocess, sys
stray = subprocess.Popen(["sleep", "60"], start_new_session=True)
open(sys.argv[1], "a").write(f"{stray.pid}\\n")
os.execv(sys.argv[2], sys.argv[2:])
"""


def with_stray(strays: Path) -> Callable[[list[str]], list[str]]:
    return lambda command: [sys.executable, "-S", "-E", "-c", STRAY, str(strays), *command]


async def test_an_exit_is_an_end_though_a_stray_holds_stdout(stage: Stage) -> None:
    strays = stage.folder / "strays"
    one = stage.upstream(
        "one",
        tools=TOOLS,
        calls={"dies": [{"exit": 7}]},
        wrapper=with_stray(strays),
    )
    try:
        async with stage.mcpx(one, limits=LIMITS) as host:
            await host.open(LATEST_LEGACY)
            await host.names()
            start = time.monotonic()
            reason = (await host.call("one__dies")).error["data"]["reason"]
            assert "status 7" in reason
            assert time.monotonic() - start < AT_ONCE
            assert (await host.call("one__echo")).result["content"]
        assert len(one.starts) == 2
    finally:
        for line in strays.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)


async def test_a_server_that_closed_its_stdin_is_started_again(stage: Stage) -> None:
    one = stage.upstream("one", tools=TOOLS, calls={"dies": [{"answer": True}, {"close": 0}, {"block": 60}]})
    async with stage.mcpx(one, limits=LIMITS) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        assert (await host.call("one__dies")).result["content"]
        start = time.monotonic()
        assert "closed its input" in (await host.call("one__echo")).error["data"]["reason"]
        assert time.monotonic() - start < AT_ONCE
        assert (await host.call("one__echo")).result["content"]
    assert len(one.starts) == 2
