"""The exception tree of mcpx.

Two leaves say who broke the protocol: ``LocalProtocolError`` (we would have) and ``RemoteProtocolError`` (the peer
did). ``RpcError`` is a JSON-RPC error on its way through; ``UpstreamError`` is what befell a server; ``ConfigError``
collects every mistake of a configuration. Only the host edge turns an exception into an error on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions of a group, however it is nested."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error


class McpxError(Exception):
    """Everything that mcpx raises on purpose."""


class ProtocolError(McpxError):
    """A rule of the protocol was broken; the subclass says by whom."""


class LocalProtocolError(ProtocolError):
    """mcpx itself was about to break the protocol: a bug in the caller."""


class RemoteProtocolError(ProtocolError):
    """A peer's bytes broke the protocol.

    ``code`` is the JSON-RPC error code that answers it; ``id`` the raw JSON of the request id it belongs to, where that
    could be read.
    """

    def __init__(self, code: int, message: str, id: msgspec.Raw | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id


class RpcError(McpxError):
    """A JSON-RPC error as a peer wrote it, or as mcpx will.

    ``data`` is any value msgspec can encode (``msgspec.Raw`` where it is passed through) or ``None`` for none.
    ``revision`` is the revision the error was written in; ``None`` means mcpx's own. ``server`` names the upstream that
    sent it, if one did.
    """

    def __init__(
        self, code: int, message: str, data: Any = None, *, revision: str | None = None, server: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.revision = revision
        self.server = server


class UnknownItem(McpxError):
    """A host named a tool, prompt, resource or template that nobody offers; the code depends on the host's revision.

    ``kind`` is ``"tool"``, ``"prompt"`` or ``"resource"``.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"Unknown {kind}: {name}")
        self.kind = kind
        self.name = name


class UpstreamError(McpxError):
    """Something befell a server. On the wire: ``-32603`` with ``data: {server, reason}``.

    ``reason`` is a full sentence for a person: what happened and, where there is something to do, what to do. It may
    begin with the server's name, where that is an address.
    """

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(reason if reason.startswith((f"{server} ", f"{server}:")) else f"{server}: {reason}")
        self.server = server
        self.reason = reason


class UpstreamStartError(UpstreamError):
    """The server could not be started, or its era or revision not be agreed on."""


class UpstreamGone(UpstreamError):
    """The server ended, or its connection did, while a request was with it."""


class UpstreamUnanswered(UpstreamError):
    """A server reached over HTTP did not answer a request; the next one may fare better.

    ``status`` is that of its HTTP answer, ``None`` where there was none; ``reached`` says whether a connection to it
    could be made.
    """

    def __init__(self, server: str, reason: str, status: int | None, *, reached: bool) -> None:
        super().__init__(server, reason)
        self.status = status
        self.reached = reached


class UpstreamTimeout(UpstreamError):
    """The server did not answer within a limit."""


class NameClash(UpstreamError):
    """A host named an item that several servers offer under that name; ``server`` names them all."""


class SpawnError(McpxError):
    """A child process could not be started: a sentence for a person that names the command, and where it was sought."""


class ConnectError(McpxError):
    """The address of a server could not be connected to: a sentence for a person that says why."""


class BrokenAnswer(McpxError):
    """The connection to a server broke before its answer was whole, or what came over it was no HTTP: a sentence for a
    person.
    """


class ConfigError(McpxError):
    """One or more mistakes in a configuration, all of them at once, one full sentence each in ``problems``."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
