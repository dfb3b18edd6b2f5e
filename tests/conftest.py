"""Asynchronous tests run under Trio with a deadline; ``stage`` is what tests on the real wire play on."""

from __future__ import annotations

import inspect
import signal
from typing import TYPE_CHECKING

import pytest
import trio

from tests.support.running import plain_failures
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE = 30.0  # seconds; far more than a test on the real wire needs


def pytest_configure(config: pytest.Config) -> None:
    heed_signals()
    config.addinivalue_line("markers", "deadline(seconds): how long an asynchronous test may take, instead of 30 s")


def heed_signals() -> None:
    """Heed what tests send to the programs that they start, which inherit what is ignored here.

    A shell has what it puts into the background ignore SIGINT, and nohup has it ignore SIGHUP.
    """
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    marker = pyfuncitem.get_closest_marker("deadline")
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def main() -> None:
        with trio.fail_after(marker.args[0] if marker else DEADLINE):
            await pyfuncitem.obj(**arguments)

    with plain_failures():
        trio.run(main)
    return True


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.close()
