"""Running asynchronous tests: in virtual time, and with failures that are themselves instead of groups of one."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
import trio.testing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

FOREVER = 100_000  # virtual seconds: a test that waits any longer hangs


@contextmanager
def plain_failures() -> Iterator[None]:
    """A failure comes out of the groups of one that nurseries wrap it in, which say nothing more."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure: BaseException = group
        while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
            failure = failure.exceptions[0]
        raise failure from None


def run_in_virtual_time(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a clock that jumps to the next deadline whenever nothing else can happen. One that hangs fails."""

    async def bounded() -> None:
        with trio.fail_after(FOREVER):
            await test()

    with plain_failures():
        trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The decorator of an asynchronous test that is to be run so."""

    @functools.wraps(test)
    def run(**arguments: object) -> None:
        run_in_virtual_time(lambda: test(**arguments))

    return run
