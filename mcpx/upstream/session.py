"""A session with one server: the upstream edge, which says a ``Request`` in the server's revision and its answers back.

What differs between the eras is a ``Form`` (``legacy.py``, ``modern.py``); a request on its way is a ``SessionCall``
(``session_call.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from mcpx.spec.capabilities import promises_changes
from mcpx.spec.carry import carry_params
from mcpx.spec.lists import LIST_CHANGED, RESOURCE_UPDATED
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import is_modern
from mcpx.upstream.call import Asker, Change, Foreign, Identity, Reply, Request, Visited
from mcpx.upstream.legacy_listening import LegacyListening
from mcpx.upstream.logs import LOG_MESSAGE, Logs
from mcpx.upstream.modern_listening import ACKNOWLEDGED, ModernListening
from mcpx.upstream.roots import ROOTS_CHANGED
from mcpx.upstream.session_call import EMPTY_COMPLETION, SessionCall
from mcpx.wire import frames
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpx.settings import Limits
    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import InputRequired, News
    from mcpx.upstream.connection import Connection
    from mcpx.upstream.listening import Listening
    from mcpx.upstream.mirrored import Mirrored
    from mcpx.upstream.questions import Questions

__all__ = ["EMPTY_COMPLETION", "Form", "Session", "SessionCall"]

_CHANGES: dict[str, ChangeKind] = {method: kind for kind, method in LIST_CHANGED.items()}
CANCELLED = "notifications/cancelled"
ELICITATION_COMPLETE = "notifications/elicitation/complete"


class Form(Protocol):
    """How an era says things."""

    revision: str
    announces_changes: bool  # whether changes are told unasked, once declared
    assumes_completions: bool  # whether completion is offered without being declared

    def meta(self, asker: Asker, foreign: Mapping[str, Raw], token: int | None) -> Any:
        """The ``_meta`` of a request, with the keys that are mcpx's on this hop; empty for none."""
        ...

    def conclude(self, server: str, method: str, payload: Raw, asker: Asker) -> Raw | InputRequired:
        """Check a result's type. Raises ``UpstreamError`` for one that is invalid."""
        ...


class Session:
    """An agreed session. ``identity`` is what the server said of itself; ``heard`` takes what it says unasked.

    ``roots`` gives the configuration's roots, as the answer to ``roots/list``, for an asker that has none of its own.
    """

    def __init__(
        self,
        connection: Connection,
        form: Form,
        identity: Identity,
        limits: Limits,
        heard: Callable[[News], None],
        roots: Callable[[Asker], Raw | None],
        mirrored: Mirrored | None = None,
        questions: Questions | None = None,
    ) -> None:
        self.connection = connection
        self.form = form
        self.identity = identity
        self.limits = limits
        self.roots = roots  # the answer to a question about them, where that is not the asker's to give
        self.mirrored = mirrored if is_modern(form.revision) else None  # parameters that headers repeat, over HTTP
        self.questions = questions  # of a legacy server; a modern one has none that are requests
        self.listening: Listening = (ModernListening if is_modern(form.revision) else LegacyListening)(self, heard)
        self.logs = Logs(self, heard)
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

    def call(self, request: Request, params: dict[str, Raw] | None = None) -> SessionCall:
        """A host's request on its way, with the params that name the item as this server does; it is sent by the first
        ``next``.
        """
        return SessionCall(self, request, request.params if params is None else params)

    def roots_changed(self) -> None:
        """The host's roots have changed; the server is told where it was promised that."""
        if self.questions is not None and self.questions.follows_roots:
            self.connection.offer(ROOTS_CHANGED)

    async def run_questions(self) -> None:
        """Refuse questions that nobody can be asked for too long, until cancelled."""
        if self.questions is not None:
            await self.questions.run()

    async def ask(self, method: str, params: dict[str, Raw], asker: Asker) -> Raw:
        """A request of mcpx's own, such as a list, which no question rides on. The caller holds the clock. Raises as
        ``Call.next`` does.
        """
        if asker.log_level is not None:  # which is for requests of the host's own: of this one it would hear nothing
            asker = msgspec.structs.replace(asker, log_level=None)
        with SessionCall(self, Request(method, params, self.revision, asker), params, own=True) as call:
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

    def frame(
        self,
        number: int,
        request: Request,
        params: dict[str, Raw],
        extra: Mapping[str, Raw] | None = None,
        *,
        progress: bool = True,
    ) -> bytes:
        """A request as this server's revision says it, with these ``params`` in place of its own, and ``extra`` ones as
        they are; ``progress`` asks for that.
        """
        self.logs.note(request.asker)
        said: dict[str, Any] = dict(carry_params(request.method, params, request.revision, self.revision))
        if extra:
            said.update(extra)
        if meta := self.form.meta(request.asker, request.meta, number if progress else None):
            said["_meta"] = meta
        return frames.encode_request(number, request.method, said)

    # -- what the connection hears

    def notified(self, method: str, params: dict[str, Raw], stream: int | None) -> None:
        if (kind := _CHANGES.get(method)) is not None:
            self._heard(Change(self.server, kind))
        elif method == LOG_MESSAGE:
            self.logs.take(params, stream)
        elif method in (RESOURCE_UPDATED, ACKNOWLEDGED):
            self.listening.notified(method, params)
        elif method == CANCELLED:
            if self.questions is not None:
                self.questions.withdrawn(params.get("requestId"))
        elif method == ELICITATION_COMPLETE:
            if self.questions is not None and (host := self.questions.certain_host) is not None:
                self._heard(Visited(self.server, host, params))
        elif method not in METHODS:
            self._heard(Foreign(self.server, method, params))

    def interrupted(self, *, forgotten: bool) -> None:
        if forgotten:
            self.logs.forgotten()
            if self.questions is not None:
                self.questions.forgotten()
        self.listening.interrupted(forgotten=forgotten)

    def ended(self) -> None:
        if self.questions is not None:
            self.questions.ended()

    def asked(self, id: Raw, method: str, params: dict[str, Raw], stream: int | None) -> None:
        if self.questions is None:
            self.connection.complain(f"sent the request {method!r}, which its revision does not allow; ignored")
        elif method == "ping":
            self.connection.answer(frames.result(id, Raw(b"{}")))
        else:
            self.questions.asked(id, method, params, stream)
