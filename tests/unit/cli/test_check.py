"""What ``mcpx check`` says while it waits."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
import trio.testing

from mcpx.cli.check import check_all
from mcpx.cli.examine import PATIENCE
from mcpx.config import Redactor
from mcpx.demo import BUILTINS
from mcpx.settings import ServerSettings, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    import pytest

    from mcpx.transports.channel import Channel


def slow(seconds: float) -> Callable[[], AbstractAsyncContextManager[Channel]]:
    """The demo server, after a while."""

    @asynccontextmanager
    async def open_late() -> AsyncGenerator[Channel]:
        await trio.sleep(seconds)
        async with BUILTINS["demo"]() as channel:
            yield channel

    return open_late


def told(*waits: float) -> tuple[list[str], float]:
    """What is told of servers called a, b, ... that take so long to come up, and how long all of it took."""
    builtins = {chr(ord("a") + number): slow(seconds) for number, seconds in enumerate(waits)}
    settings = Settings(servers=tuple(ServerSettings(name=name, builtin=name) for name in builtins))
    said: list[str] = []
    failed: list[str] = []

    async def main() -> float:
        began = trio.current_time()
        await check_all(settings, builtins, Redactor(()), failed, said.append)
        return trio.current_time() - began

    took = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert failed == []
    return said, took


def test_who_is_awaited_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(PATIENCE * 10, 0, PATIENCE + 1) == (["mcpx: still waiting for a, c"], PATIENCE * 10)
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["b:", "c:", "a:"]


def test_nothing_is_said_of_quick_ones_nor_waited_for() -> None:
    assert told(0, PATIENCE / 2) == ([], PATIENCE / 2)


def test_what_a_terminal_would_act_on_is_spelled_out() -> None:
    builtins = {"a\x1bb": slow(PATIENCE * 2)}
    settings = Settings(servers=(ServerSettings(name="a\x1bb", builtin="a\x1bb"),))
    said: list[str] = []
    failed: list[str] = []
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(check_all, settings, builtins, Redactor(()), failed, said.append, clock=clock)
    assert said == ["mcpx: still waiting for a\\x1bb"]
