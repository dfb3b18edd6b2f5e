"""Running an asynchronous command: Trio around it, and its failures told in the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

import trio

from mcpx.cli.text import indented
from mcpx.errors import McpxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from mcpx.cli.log import Lines

log = logging.getLogger("mcpx")

Arguments = TypeVarTuple("Arguments")


def run_logged(main: Callable[[Unpack[Arguments]], Awaitable[object]], *arguments: *Arguments, lines: Lines) -> int:
    """Run ``main`` to its end and return the exit status.

    What mcpx raises on purpose is told in a line each. Anything else is a bug and goes into the log with its traceback:
    not through the interpreter, whose own message would block for ever on a stderr that nobody reads.
    """
    status = 0
    try:
        trio.run(main, *arguments)
    except* McpxError as group:
        for error in leaves(group):
            lines.put(f"mcpx: {indented(str(error), 2)}")
        status = 1
    except* KeyboardInterrupt:
        status = 130
    except* Exception as group:
        log.critical("mcpx ends on a bug of its own; please report it", exc_info=group)
        status = 1
    return status


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions of a group, however it is nested."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)  # pyright: ignore[reportUnknownArgumentType] isinstance forgets the parameter
        else:
            yield error
