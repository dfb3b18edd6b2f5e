"""Running an asynchronous command: Trio around it, and its failures told in the log."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, TypeVarTuple, Unpack

import trio

from mcpx.cli.text import indented
from mcpx.errors import McpxError, leaves

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpx.cli.log import Lines

log = logging.getLogger("mcpx")

Arguments = TypeVarTuple("Arguments")


def begin_collecting() -> None:
    """Have garbage collected from now on, if it is not, and leave out what is there by now, which is there for good."""
    if not gc.isenabled():  # as ``mcpx.cli.entry`` left it
        gc.freeze()
        gc.enable()


def run_logged(main: Callable[[Unpack[Arguments]], Awaitable[object]], *arguments: *Arguments, lines: Lines) -> int:
    """Run ``main`` to its end and return the exit status.

    What mcpx raises on purpose is told in a line each. Anything else is a bug and goes into the log with its traceback:
    not through the interpreter, whose own message would block for ever on a stderr that nobody reads.

    Raises ``BrokenPipeError`` where whoever read the output has seen enough.
    """
    begin_collecting()
    status, unread = 0, False
    try:
        trio.run(main, *arguments)
    except* McpxError as group:
        for error in leaves(group):
            lines.put(f"mcpx: {indented(str(error), 2)}")
        status = 1
    except* KeyboardInterrupt:
        status = 130
    except* BrokenPipeError:
        unread = True
    except* Exception as group:
        log.critical("mcpx ends on a bug of its own; please report it", exc_info=group)
        status = 1
    if unread:
        raise BrokenPipeError
    return status
