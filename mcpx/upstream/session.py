"""A session with one server: the upstream edge, which says a ``Request`` in the server's revision and its answers back.

What differs between the eras is a ``Form`` (``legacy.py``, ``modern.py``); the rest is here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec
import trio
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamError
from mcpx.spec.capabilities import promises_changes
from mcpx.spec.carry import carry_params
from mcpx.spec.codes import HEADER_MISMATCH
from mcpx.spec.lists import LIST_CHANGED, RESOURCE_UPDATED
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import is_modern
from mcpx.upstream.call import Asker, Change, Event, Foreign, Identity, Reply, Request
from mcpx.upstream.legacy_listening import LegacyListening
from mcpx.upstream.modern_listening import ACKNOWLEDGED, ModernListening
from mcpx.upstream.pending import PendingCall
from mcpx.wire import frames
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from mcpx.settings import Limits
    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import News
    from mcpx.upstream.connection import Connection
    from mcpx.upstream.listening import Listening
    from mcpx.upstream.mirrored import Mirrored

log = logging.getLogger("mcpx.upstream")

# A modern server may answer with a state and no questions, which asks for nothing but another try (2026-07-28
# basic/patterns/mrtr). mcpx tries so often, and waits so long before each try.
MAX_ROUNDS = 10
ROUND_DELAY = 0.2

_CHANGES: dict[str, ChangeKind] = {method: kind for kind, method in LIST_CHANGED.items()}
EMPTY_COMPLETION = Raw(b'{"completion":{"values":[]}}')  # for a server that completes nothing (LV-11)


class TryAgain(msgspec.Struct, frozen=True):
    """A result that asks for the same request again, with this state."""

    state: Raw


class Form(Protocol):
    """How an era says things."""

    revision: str
    answers_requests: bool  # whether a server of this era may send requests
    announces_changes: bool  # whether changes are told unasked, once declared
    assumes_completions: bool  # whether completion is offered without being declared

    def meta(self, asker: Asker, foreign: Mapping[str, Raw], token: int | None) -> dict[str, Any]:
        """The ``_meta`` of a request, with the keys that are mcpx's on this hop."""
        ...

    def conclude(self, server: str, method: str, payload: Raw) -> Raw | TryAgain:
        """Check a result's type. Raises ``UpstreamError`` for one that is invalid."""
        ...


class _OutgoingRequest(msgspec.Struct, gc=False):
    jsonrpc: str
    id: int
    method: str
    params: dict[str, Any]


class Session:
    """An agreed session. ``identity`` is what the server said of itself; ``heard`` takes what it says unasked."""

    def __init__(
        self,
        connection: Connection,
        form: Form,
        identity: Identity,
        limits: Limits,
        heard: Callable[[News], None],
        mirrored: Mirrored | None = None,
    ) -> None:
        self.connection = connection
        self.form = form
        self.identity = identity
        self.limits = limits
        self.mirrored = mirrored if is_modern(form.revision) else None  # parameters that headers repeat, over HTTP
        self.listening: Listening = (ModernListening if is_modern(form.revision) else LegacyListening)(self, heard)
        self._heard = heard
        connection.revision = form.revision
        connection.listener = self

    @property
    def server(self) -> str:
        return self.connection.server

    @property
    def revision(self) -> str:
        return self.form.revision

    def offers(self, capability: str) -> bool:
        """Whether the server declared a capability, or its revision has it without declaring."""
        return capability in self.identity.capabilities

    def declares_changes(self, capability: str) -> bool:
        """Whether the server will tell, unasked, when this list changes."""
        return self.form.announces_changes and promises_changes(self.identity.capabilities.get(capability))

    def call(self, request: Request) -> SessionCall:
        """A host's request on its way; it is sent by the first ``next``."""
        return SessionCall(self, request)

    async def ask(self, method: str, params: dict[str, Raw], asker: Asker) -> Raw:
        """A request of mcpx's own, such as a list. The caller holds the clock. Raises as ``Call.next`` does."""
        with self.call(Request(method, params, self.revision, asker)) as call:
            while True:
                event = await call.next()
                if type(event) is Reply:
                    return event.payload

    async def list_again(self, asker: Asker) -> None:
        """Go through the server's tools, for what calls of them must repeat in headers."""
        cursor: str | None = None
        for _ in range(self.limits.max_pages):
            params = {} if cursor is None else {"cursor": frames.to_raw(cursor)}
            page = members_of(await self.ask("tools/list", params, asker)) or {}
            cursor, before = string_of(page.get("nextCursor")), cursor
            if cursor is None or cursor == before:
                return

    def frame(self, number: int, request: Request, extra: Mapping[str, Raw] | None, *, progress: bool = True) -> bytes:
        """A request as this server's revision says it, with ``extra`` params added; ``progress`` asks for that."""
        params: dict[str, Any] = dict(carry_params(request.method, request.params, request.revision, self.revision))
        if extra:
            params.update(extra)
        if meta := self.form.meta(request.asker, request.meta, number if progress else None):
            params["_meta"] = meta
        return frames.encode(_OutgoingRequest("2.0", number, request.method, params))

    # -- what the connection hears

    def notified(self, method: str, params: dict[str, Raw]) -> None:
        if (kind := _CHANGES.get(method)) is not None:
            self._heard(Change(self.server, kind))
        elif method == "notifications/message":
            # Whose message it is and at what level comes with logs across eras; until then it is mcpx's own to show.
            log.debug("[%s] log message: %s", self.server, bytes(params.get("data", b"")).decode(errors="replace"))
        elif method in (RESOURCE_UPDATED, ACKNOWLEDGED):
            self.listening.notified(method, params)
        elif method not in METHODS:
            self._heard(Foreign(self.server, method, params))

    def interrupted(self, *, forgotten: bool) -> None:
        self.listening.interrupted(forgotten=forgotten)

    def asked(self, id: Raw, method: str, params: dict[str, Raw]) -> None:
        if not self.form.answers_requests:
            self.connection.complain(f"sent the request {method!r}, which its revision does not allow; ignored")
        elif method == "ping":
            self.connection.answer(frames.result(id, Raw(b"{}")))
        else:
            self.connection.answer(frames.error(id, frames.METHOD_NOT_FOUND, f"Method not found: {method}"))


class SessionCall:
    """A ``Call`` on one session."""

    __slots__ = ("_listed_again", "_pending", "_request", "_rounds", "_session")

    def __init__(self, session: Session, request: Request) -> None:
        self._session = session
        self._request = request
        self._rounds = 0
        self._listed_again = False
        self._pending = self._attempt(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pending.__exit__(kind, value, traceback)

    async def next(self) -> Event:
        """The next event; see ``mcpx.upstream.call.Call``."""
        session = self._session
        while True:
            try:
                event = await self._pending.next_raw()
            except RpcError as error:
                if self._is_missing_completion(error):
                    return Reply(EMPTY_COMPLETION, session.revision, session.server)
                if self._wants_other_headers(error):
                    self._listed_again = True
                    await session.list_again(self._request.asker)
                    self._pending = self._attempt(None)
                    continue
                raise
            if not isinstance(event, Raw):
                return event
            outcome = session.form.conclude(session.server, self._request.method, event)
            if isinstance(outcome, Raw):
                if session.mirrored is not None and self._request.method == "tools/list":
                    outcome = session.mirrored.learn(outcome)
                return Reply(outcome, session.revision, session.server)
            await self._again(outcome)

    def _attempt(self, state: Raw | None) -> PendingCall:
        session, request = self._session, self._request
        extra = None if state is None else {"requestState": state}
        return PendingCall(
            session.connection,
            lambda number: session.frame(number, request, extra),
            idle=session.limits.call_timeout,
            total=session.limits.call_timeout_total,
        )

    async def _again(self, outcome: TryAgain) -> None:
        self._rounds += 1
        if self._rounds >= MAX_ROUNDS:
            raise UpstreamError(self._session.server, f"The server asked for the same request {self._rounds} times.")
        await trio.sleep(ROUND_DELAY)
        self._pending = self._attempt(outcome.state)

    def _wants_other_headers(self, error: RpcError) -> bool:
        """Whether the call is to be made again, with the headers that the tool now asks for (2026-07-28
        basic/transports/streamable-http, Client Behavior). It did not run, and is made again once.
        """
        return (
            error.code == HEADER_MISMATCH
            and self._session.mirrored is not None
            and self._request.method == "tools/call"
            and not self._listed_again
        )

    def _is_missing_completion(self, error: RpcError) -> bool:
        return (
            error.code == frames.METHOD_NOT_FOUND
            and self._request.method == "completion/complete"
            and self._session.form.assumes_completions
        )
