"""How an asynchronous command ends."""

from __future__ import annotations

import pytest
import trio

from mcpx.cli.log import log_to_stderr
from mcpx.cli.run import run_logged


async def _print_to_nobody() -> None:
    raise BrokenPipeError


async def _print_twice_to_nobody() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_print_to_nobody)
        nursery.start_soon(_print_to_nobody)


def test_that_nobody_reads_the_output_is_no_bug(capfd: pytest.CaptureFixture[str]) -> None:
    """It leaves as it does where nothing is asynchronous, for the command line to end quietly on."""
    with pytest.raises(BrokenPipeError), log_to_stderr("info") as lines:
        run_logged(_print_twice_to_nobody, lines=lines)
    assert capfd.readouterr().err == ""
