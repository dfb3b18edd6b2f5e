"""What the two ways of making an HTTP request have in common: the direct one, which is ours, and the one by a proxy."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

from mcpx.errors import BrokenAnswer
from mcpx.transports.sockets import why_all
from mcpx.wire.headers import media_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpx.transports.http_messages import RequestHead

# An idle connection is used again for so many seconds. Node and uvicorn close theirs after five: a request that is sent
# at that very moment is lost, and nobody can say whether it ran.
KEEP_ALIVE = 4.0
MAX_IDLE = 64  # connections kept; any number is in use at once, as many as there are requests
CONNECT_LIMIT = 20.0  # seconds for a connection, TLS included; a machine that is off says nothing for two minutes

SILENT = "The server closed the connection without an answer."
NO_HTTP = "The server does not speak HTTP, or not well."


class Unheard(BrokenAnswer):
    """What came for a request was nothing, or nothing of HTTP: perhaps the server speaks something else."""


class HttpAnswer(ABC):
    """An answer whose head has come. Open it with ``HttpClient.open_answer``."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers  # names in small letters
        self.media_type = media_type(headers.get("content-type"))
        self.ended = False  # all of it was read

    @abstractmethod
    async def receive_some(self) -> bytes:
        """The next bytes of the body, as they came; none at its end.

        Raises ``BrokenAnswer`` where the connection breaks before that.
        """

    async def read(self, limit: int) -> bytes | None:
        """The rest of the body; ``None`` where it is longer than that. Raises as ``receive_some`` does."""
        body = BytesIO()  # it grows in place and is handed out uncopied
        while chunk := await self.receive_some():
            if body.tell() + len(chunk) > limit:
                return None
            body.write(chunk)
        return body.getvalue()

    async def receive_some_or_nothing(self) -> bytes:
        """The next bytes; none at the end, however it came."""
        try:
            return await self.receive_some()
        except BrokenAnswer:
            return b""

    @abstractmethod
    async def aclose(self) -> None:
        """Give the connection back where the answer was read to its end, and close it otherwise."""


class Engine(Protocol):
    """Requests to one server and their connections. Deadlines belong to the caller, except that of connecting."""

    async def ask(self, head: RequestHead, body: bytes, sent: Callable[[], None] | None) -> HttpAnswer:
        """Send a request and wait for the head of its answer; ``sent`` is called when all of it was written.

        Raises ``ConnectError`` where the server cannot be reached, ``BrokenAnswer`` where the connection breaks
        (``Unheard``: there may be no HTTP server), and ``LocalProtocolError`` for what no header can hold.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections, whatever is under way on them."""
        ...


def causes(error: BaseException) -> Iterator[BaseException]:
    """What an error comes from, the nearest first. Libraries hide the cause of some, which is their context then."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def broken_before(error: BaseException) -> str:
    """What to say of a connection that broke before an answer came."""
    return f"The connection to the server broke before it answered{_because(error)}."


def broken_amidst(error: BaseException | None) -> str:
    """The same of one that broke before the answer's end."""
    return f"The connection broke in the middle of the answer{'' if error is None else _because(error)}."


def _because(error: BaseException) -> str:
    for cause in causes(error):
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError):
            return f": {why_all(cause)}"
    return ""
