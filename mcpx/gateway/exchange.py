"""An exchange: one request of a host on its way to the server that it is for, and back.

Which server that is, and what the request is called there, is the table ``ROUTES``. What comes back is the upstream's
own, with public URIs put into it where several servers share one gateway.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
from msgspec import Raw

from mcpx.errors import RpcError, UnknownItem, UpstreamError
from mcpx.gateway.name_table import Owner
from mcpx.gateway.templates import match_template
from mcpx.gateway.uris import rewrite_result_uris, split_uri
from mcpx.names import candidates
from mcpx.spec.lists import LISTINGS
from mcpx.upstream.call import Reply
from mcpx.upstream.session_call import EMPTY_COMPLETION
from mcpx.wire import frames
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from mcpx.gateway.catalog import Catalog
    from mcpx.spec.lists import ListKind
    from mcpx.upstream.call import Asker, Event, Request
    from mcpx.upstream.session_call import SessionCall
    from mcpx.upstream.supervisor import Instance, Supervisor


class Target(msgspec.Struct, frozen=True, gc=False):
    """Where a request goes, and the params that name the item as its server does."""

    supervisor: Supervisor
    params: dict[str, Raw]


class Router:
    """Finds the server that a request is for."""

    def __init__(self, supervisors: list[Supervisor], catalog: Catalog) -> None:
        self._supervisors = {one.name: one for one in supervisors}
        self._catalog = catalog
        # In front of one server that shines through there is nothing to look up.
        self.only = supervisors[0] if len(supervisors) == 1 and supervisors[0].server.passthrough else None
        self._prefixed = [one.name for one in supervisors if not one.server.passthrough]
        self._through = [one.name for one in supervisors if one.server.passthrough]

    async def find(self, request: Request) -> Target:
        """The target of a request. Raises ``UnknownItem``, ``RpcError`` (``-32602`` for params that name nothing), or
        ``UpstreamError`` where the server that may have the item cannot be asked.
        """
        if (target := self.find_nowait(request)) is not None:
            return target
        route = ROUTES[request.method]
        public = route.named(request.params)
        look = (
            self.uri_owner(public.text, request.asker)
            if public.is_uri
            else self.owner(route.kind, public.text, request.asker)
        )
        return self._target(request, public, await look)

    def find_nowait(self, request: Request) -> Target | None:
        """The same where the owner of the item is known already; ``None`` where it must be looked for."""
        if self.only is not None:
            return Target(self.only, request.params)
        route = ROUTES[request.method]
        public = route.named(request.params)
        owner = self.uri_owner_nowait(public.text) if public.is_uri else self.owner_nowait(route.kind, public.text)
        return None if owner is None else self._target(request, public, owner)

    def _target(self, request: Request, public: Public, owner: Owner) -> Target:
        return Target(self._supervisors[owner.server], public.renamed(request.params, owner.name))

    async def owner(self, kind: ListKind, public: str, asker: Asker) -> Owner:
        """Who has a name, and what it is called there; looks at the servers that could have it where nobody is known
        to. Raises as ``find`` does.
        """
        owner = self.owner_nowait(kind, public)
        if owner is None:
            possible = [*candidates(public, self._prefixed), *self._through]
            await self._catalog.look_again(kind, possible, asker)
            owner = self.owner_nowait(kind, public)
            if owner is None:
                self._explain(kind, possible, asker)
                raise UnknownItem(LISTINGS[kind].noun, public)
        return owner

    def owner_nowait(self, kind: ListKind, public: str) -> Owner | None:
        """Who has a name, as far as is known."""
        return self._catalog.names.find(kind, public) if self.only is None else Owner(self.only.name, public)

    def uri_owner_nowait(self, public: str) -> Owner | None:
        """Whose a URI is, where it says so itself."""
        if self.only is not None:
            return Owner(self.only.name, public)
        split = split_uri(public, self._prefixed)
        return None if split is None else Owner(*split)

    async def uri_owner(self, public: str, asker: Asker) -> Owner:
        """Whose a URI is: by its prefix, else who lists it, else whose template it could come from. Raises as ``find``
        does.
        """
        if (known := self.uri_owner_nowait(public)) is not None:
            return known
        for kind in _URI_KINDS:
            shelves = await self._catalog.shelves(kind, asker, renew=False)
            for shelf in shelves:
                for item in shelf.items:
                    if item.own == public or (kind == "templates" and match_template(item.own, public)):
                        return Owner(shelf.server, public)
        self._explain("resources", list(self._supervisors), asker)
        raise UnknownItem("resource", public)

    def _explain(self, kind: ListKind, possible: list[str], asker: Asker) -> None:
        """Where the one server that could have an item cannot be asked, say that instead of that it does not exist."""
        failures = [self._catalog.failure(kind, server, asker) for server in possible]
        if len(failures) == 1 and failures[0] is not None:
            raise UpstreamError(possible[0], failures[0])


class Public(msgspec.Struct, frozen=True, gc=False):
    """What a request calls its item, and where in the params that stands."""

    text: str
    is_uri: bool
    within: dict[str, Raw] | None = None  # the members of `ref`, where it stands in there

    def renamed(self, params: dict[str, Raw], own: str) -> dict[str, Raw]:
        """The params with the server's own name for the item."""
        key, name = "uri" if self.is_uri else "name", frames.to_raw(own)
        if self.within is None:
            return {**params, key: name}
        return {**params, "ref": frames.to_raw({**self.within, key: name})}


def _by_name(params: dict[str, Raw]) -> Public:
    return Public(_text(params, "name"), is_uri=False)


def _by_uri(params: dict[str, Raw]) -> Public:
    return Public(_text(params, "uri"), is_uri=True)


def _by_reference(params: dict[str, Raw]) -> Public:
    reference = frames.members(params.get("ref", frames.NULL))
    is_uri = "uri" in reference
    return Public(_text(reference, "uri" if is_uri else "name"), is_uri, reference)


class Route(NamedTuple):
    """How a method names its item, and the capability that the server must have declared for it."""

    named: Callable[[dict[str, Raw]], Public]
    kind: ListKind
    capability: str
    undeclared: Raw | None = None  # the answer for a server that did not declare it; None: there is no such method


ROUTES: dict[str, Route] = {
    "tools/call": Route(_by_name, "tools", "tools"),
    "prompts/get": Route(_by_name, "prompts", "prompts"),
    "resources/read": Route(_by_uri, "resources", "resources"),
    "completion/complete": Route(_by_reference, "prompts", "completions", EMPTY_COMPLETION),
}

_URI_KINDS: tuple[ListKind, ...] = ("resources", "templates")


class Exchange:
    """A request on its way. See ``mcpx.upstream.call.Call``; ``next`` may raise ``UnknownItem`` as well.

    ``expected`` names the server that the request must be for, where it goes on with something.
    """

    __slots__ = ("_call", "_expected", "_instance", "_request", "_router", "_supervisor", "_unread")

    def __init__(self, router: Router, request: Request, *, expected: str | None = None) -> None:
        self._router = router
        self._request = request
        self._expected = expected
        self._supervisor: Supervisor | None = None
        self._instance: Instance | None = None
        self._call: SessionCall | None = None
        self._unread: Event | RpcError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave it: a request that has not ended is cancelled upstream."""
        if self._call is not None:
            self._call.close()
        if self._instance is not None and self._supervisor is not None:
            self._supervisor.release(self._instance)
            self._instance = None

    @property
    def server(self) -> str:
        """The name of the server that the request is for, once that is known."""
        return "" if self._supervisor is None else self._supervisor.name

    def begin_nowait(self, heed: Callable[[], None]) -> bool:
        """Send the request at once where nothing has to be waited for; say whether it was sent.

        From then until the first ``next``, ``heed`` is called whenever ``next_nowait`` may have something, by whoever
        brings it: it must not block. Nobody measures the limits in time meanwhile, so it should not be long. Where the
        request was not sent, ``next`` goes on from there. Raises as ``next`` does.
        """
        target = self._router.find_nowait(self._request)
        if target is None:
            return False
        instance = target.supervisor.lease_nowait(self._request.asker)
        if instance is None or self._address(target, instance) is not None:
            return False
        assert self._call is not None
        return self._call.begin_nowait(heed)

    async def next(self) -> Event:
        """The next event; the first call finds the server and sends the request."""
        if self._unread is not None:
            event, self._unread = self._unread, None
            if isinstance(event, RpcError):
                raise event
            return event
        if self._call is None and (answer := await self._open()) is not None:
            return answer
        assert self._call is not None
        return self._public(await self._call.next())

    def next_nowait(self) -> Event | None:
        """The next event, where one has come already."""
        if self._call is None or (event := self._call.next_nowait()) is None:
            return None
        return self._public(event)

    def unread(self, event: Event | RpcError) -> None:
        """Put back for ``next`` what came from ``next_nowait``."""
        self._unread = event

    def answer(self, key: str, outcome: Raw | RpcError, revision: str) -> None:
        """Answer a question, where it is open."""
        if self._call is not None:
            self._call.answer(key, outcome, revision)

    def hold(self) -> AbstractContextManager[None]:
        """While entered, the request's limits in time stand still."""
        return nullcontext() if self._call is None else self._call.hold()

    def _public(self, event: Event) -> Event:
        """An event with public URIs in it. Those in questions are for people to look at, and left alone."""
        assert self._supervisor is not None
        if type(event) is Reply and not self._supervisor.server.passthrough:
            payload = rewrite_result_uris(self._request.method, event.payload, self._supervisor.name)
            if payload is not event.payload:
                return msgspec.structs.replace(event, payload=payload)
        return event

    async def _open(self) -> Reply | None:
        request = self._request
        target = await self._router.find(request)
        supervisor = self._supervisor = target.supervisor
        if self._expected not in (None, supervisor.name):
            raise RpcError(frames.INVALID_PARAMS, "Invalid params: requestState is of another server")
        if self._instance is None:
            self._instance = supervisor.lease_nowait(request.asker) or await supervisor.lease(request.asker)
        return self._address(target, self._instance)

    def _address(self, target: Target, instance: Instance) -> Reply | None:
        """Make the call of the server that was found; an answer where that is not even to be asked."""
        request, supervisor = self._request, target.supervisor
        self._supervisor, self._instance = supervisor, instance
        session = instance.session
        assert session is not None
        route = ROUTES.get(request.method)  # none in pass-through, for a method that no revision defines
        if route is not None and not session.offers(route.capability):
            if route.undeclared is None:
                raise RpcError(frames.METHOD_NOT_FOUND, f"{supervisor.name} offers no {route.capability}")
            return Reply(route.undeclared, session.revision, supervisor.name)
        self._call = session.call(request, target.params)
        return None


def _text(params: dict[str, Raw], name: str) -> str:
    value = string_of(params.get(name))
    if value is None:
        raise RpcError(frames.INVALID_PARAMS, f'Invalid params: "{name}" must be a string')
    return value
