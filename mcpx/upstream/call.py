"""The vocabulary that crosses the rooms: who asks, what is asked, what happens meanwhile, what comes back.

No revision's wire forms are in here: the host edge and the upstream edge translate to and from these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    import trio

    from mcpx.errors import RpcError
    from mcpx.spec.lists import ChangeKind


class Asker(msgspec.Struct, frozen=True, eq=False):
    """Who asks: one host, as it declared itself for one request (modern) or at its handshake (legacy)."""

    host: str  # which connection or session; questions and leases go by it
    capabilities: Mapping[str, Raw] = {}  # what the host declared, as it wrote it
    client_info: Raw | None = None  # shown in status and logs, and relayed in pass-through; changes no behaviour
    log_level: str | None = None  # of what it wants to hear; None: nothing, or what the server sends by itself
    lasting: bool = True  # all that is asked by ``host`` is asked by the same one; not so without a connection


class Request(msgspec.Struct, eq=False):
    """One request, free of any revision: ``_meta`` taken out of the params and freed of the keys that are mcpx's per
    hop.
    """

    method: str
    params: dict[str, Raw]  # without `_meta`; written in `revision`
    revision: str  # the revision the params are written in
    asker: Asker
    meta: dict[str, Raw] = {}  # what of `_meta` passes through: trace context, foreign keys
    resumes: Mapping[str, Raw] | None = None  # a retry's `inputResponses`, by the upstream's own keys, in `revision`
    state: Raw | None = None  # and its `requestState`: the upstream's own JSON string, byte for byte
    takes_input_required: bool = False  # questions of a modern upstream come back as an `InputRequired`


class Progress(msgspec.Struct, frozen=True, eq=False):
    """``notifications/progress`` for a call: its params without ``progressToken``."""

    params: dict[str, Raw]


class LogMessage(msgspec.Struct, frozen=True, eq=False):
    """``notifications/message``: its params."""

    params: dict[str, Raw]


class Question(msgspec.Struct, frozen=True, eq=False):
    """The server asks something of the host: elicitation, sampling or roots."""

    key: str  # names the question within its call
    method: str
    params: dict[str, Raw]  # as the server wrote them, its `_meta` included
    revision: str  # the revision that they are written in


class Withdrawn(msgspec.Struct, frozen=True, eq=False):
    """The server no longer wants the answer to a question."""

    key: str


class Reply(msgspec.Struct, frozen=True, eq=False):
    """The end of a call: its result as the upstream wrote it, and the revision it is written in."""

    payload: Raw
    revision: str
    server: str


class InputRequired(msgspec.Struct, frozen=True, eq=False):
    """The other end of a call, where ``Request.takes_input_required`` and the upstream is modern: it is to be made
    again, with answers to these questions (2026-07-28 basic/patterns/mrtr).
    """

    questions: tuple[Question, ...]  # their keys are the upstream's own
    state: Raw | None  # the upstream's `requestState`, a JSON string, to be given back as it is
    revision: str
    server: str


Event = Progress | LogMessage | Question | Withdrawn | Reply | InputRequired


class Call(Protocol):
    """A request on its way: a context manager, entered to send it. Leaving it before its end cancels it upstream,
    once.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    async def next(self) -> Event:
        """The next event; the last one is the ``Reply`` or the ``InputRequired``.

        Raises ``RpcError`` (the upstream's error, with its revision), ``UpstreamGone``, or ``UpstreamTimeout``. May be
        cancelled without losing an event.
        """
        ...

    def next_nowait(self) -> Event | None:
        """The next event, where one has come already; raises as ``next`` does."""
        ...

    def answer(self, key: str, outcome: Raw | RpcError, revision: str) -> None:
        """Answer a question: with the result as a host of ``revision`` wrote it, or with its error.

        It is said to the upstream in its own form. Ignored where no question of that key is open (any more).
        """
        ...

    def hold(self) -> AbstractContextManager[None]:
        """While entered, the call's limits in time stand still: somebody is asked something. May be nested."""
        ...


class Identity(msgspec.Struct, frozen=True, eq=False):
    """What a server says of itself in ``InitializeResult`` or ``DiscoverResult``."""

    server_info: Raw | None = None
    capabilities: Mapping[str, Raw] = {}
    instructions: str | None = None


class Change(msgspec.Struct, frozen=True):
    """Something changed upstream: one of its lists, or, with ``uri``, one resource."""

    server: str
    kind: ChangeKind
    uri: str | None = None


class Interest(msgspec.Struct, frozen=True):
    """Which changes somebody wants to hear of; URIs as the server itself names them. Combined like sets are."""

    lists: frozenset[ChangeKind] = frozenset()
    uris: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.lists or self.uris)

    def __or__(self, other: Interest) -> Interest:
        return Interest(self.lists | other.lists, self.uris | other.uris)

    def __and__(self, other: Interest) -> Interest:
        return Interest(self.lists & other.lists, self.uris & other.uris)

    def __sub__(self, other: Interest) -> Interest:
        return Interest(self.lists - other.lists, self.uris - other.uris)


class Foreign(msgspec.Struct, frozen=True, eq=False):
    """A notification that no revision defines, from a server in pass-through."""

    server: str
    method: str
    params: dict[str, Raw]


class Remark(msgspec.Struct, frozen=True, eq=False):
    """A log message of no call, from an instance that one host has for itself."""

    server: str
    host: str  # as in ``Asker``
    message: LogMessage


class Visited(msgspec.Struct, frozen=True, eq=False):
    """``notifications/elicitation/complete``: the visit to a URL that a host was asked for is over."""

    server: str
    host: str  # as in ``Asker``
    params: dict[str, Raw]


News = Change | Foreign | Remark | Visited


class Unasked(msgspec.Struct, frozen=True, eq=False):
    """A question that comes while none of the host's calls is under way: a server may ask for roots right after its
    handshake. It is for the one host that the instance is keyed by.

    Where that host cannot be asked at once it is kept for the next call of the same instance.
    """

    server: str
    host: str  # as in ``Asker``
    question: Question
    answer: Callable[[Raw | RpcError, str], None]  # as ``Call.answer``; whoever takes the question owes one
    over: trio.Event  # set once no answer is of any use: there is one, it was withdrawn, or the server has gone
