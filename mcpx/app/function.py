"""A function of an app: what it needs, what it is called, and the one place where its bugs stop."""

from __future__ import annotations

import inspect
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from mcpx.app.context import Context
from mcpx.app.errors import FunctionBug, ToolError
from mcpx.app.schema import Parameters, Returns
from mcpx.errors import RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

log = logging.getLogger("mcpx.app")


class Function:
    """A plain or asynchronous function behind a tool, a prompt, a resource or a completion.

    ``what`` names it for people: ``tool echo``. Raises ``TypeError`` for a signature that JSON has no form for.
    """

    def __init__(self, what: str, function: Callable[..., Any]) -> None:
        self.what = what
        self._function = function
        with self._named():
            self.parameters = Parameters(function, Context)

    def returns(self) -> Returns:
        """What it returns, by its annotation. Raises ``TypeError`` as the constructor does."""
        with self._named():
            return Returns(self._function)

    @contextmanager
    def _named(self) -> Generator[None]:
        """Say whose mistake it is."""
        try:
            yield
        except TypeError as error:
            raise TypeError(f"{self.what}: {error}") from None

    @property
    def documentation(self) -> str | None:
        """The function's docstring, without its indentation."""
        return inspect.getdoc(self._function) or None

    async def call(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Call it. Raises what ``guard`` does."""
        named = dict(arguments)
        if self.parameters.context is not None:
            named[self.parameters.context] = context
        with guard(self.what):
            value = self._function(**named)
            return await value if inspect.isawaitable(value) else value


@contextmanager
def guard(what: str) -> Generator[None]:
    """The one edge at which a bug stops: around an author's function, what judges its value, and a request as a whole.

    A ``ToolError`` (alone in a group as well, as a nursery wraps it) and an ``RpcError`` are meant and pass. Anything
    else ends this request and no more: a traceback in the log, and ``FunctionBug``.
    """
    try:
        yield
    except (ToolError, RpcError, FunctionBug):
        raise
    except Exception as error:
        meant = _single(error)
        if isinstance(meant, ToolError):
            raise meant from None
        log.exception("Internal error in %s", what)
        raise FunctionBug(f"Internal error in {what}") from error


def _single(error: Exception) -> Exception:
    """What a group of one holds."""
    while isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        if len(group.exceptions) != 1:
            return group
        error = group.exceptions[0]
    return error
