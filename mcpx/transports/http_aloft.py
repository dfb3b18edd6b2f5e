"""Requests that are under way without a task: most are answered soon, and by whoever brings their answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from mcpx.transports.http_answer import NO_HEADERS, HttpResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpx.transports.http_parse import HttpRequest

Landed: TypeAlias = Callable[[HttpResponse], Awaitable[None]]
"""Goes on with a request in a task, as a handler does."""


class Aloft:
    """One of them, as its service sees it: it is either answered or landed, once. Neither waits.

    Where its client has hung up before, the service was told, and neither comes to anything.
    """

    __slots__ = ("_tell", "hang_up", "landed", "request", "response", "unsent")

    def __init__(self, request: HttpRequest, response: HttpResponse, tell: Callable[[Aloft], None]) -> None:
        self.request = request
        self.hang_up: Callable[[], None] | None = None
        self.response = response
        self.unsent: bytes | memoryview = b""  # of its answer
        self.landed: Landed | None = None
        self._tell = tell  # the connection, of either

    @property
    def is_over(self) -> bool:
        """Whether it was answered or landed."""
        return self.landed is not None or self.response.started

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> None:
        """The whole answer."""
        self.hang_up = None  # whose it is holds on to this
        self.unsent = self.response.send_nowait(status, body, headers)
        self._tell(self)

    def land(self, landed: Landed) -> None:
        """Have a task go on with it, which is cancelled when the client hangs up, be that at once."""
        self.landed = landed
        self._tell(self)


Begin: TypeAlias = Callable[[Aloft], "Callable[[], None] | None"]
"""Begins a request without a task: what is called if its client hangs up meanwhile, or ``None`` where it takes a task.
"""
