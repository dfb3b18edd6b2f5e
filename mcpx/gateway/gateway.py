"""The gateway: all servers behind one front, for any number of hosts."""

from __future__ import annotations

import os
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from msgspec import Raw

from mcpx import __version__
from mcpx.errors import UnknownItem, UpstreamError
from mcpx.gateway import cursors
from mcpx.gateway.announcer import Announcer
from mcpx.gateway.catalog import NOT_YET, Catalog
from mcpx.gateway.exchange import Exchange, Router
from mcpx.gateway.merged import MergedLists
from mcpx.gateway.parking import Parking
from mcpx.gateway.questions import Desks
from mcpx.gateway.sealing import Sealer
from mcpx.gateway.uris import ancestors
from mcpx.gateway.watch import Watch
from mcpx.transports.crew import open_crew
from mcpx.upstream.call import Asker, Change, Identity, Remark, Request, Visited
from mcpx.upstream.supervisor import Supervisor
from mcpx.upstream.target import open_surroundings
from mcpx.wire import frames
from mcpx.wire.raws import members_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping

    from mcpx.gateway.catalog import Shelf
    from mcpx.settings import Settings
    from mcpx.spec.headers import ParamHeader
    from mcpx.spec.levels import Level
    from mcpx.spec.lists import ChangeKind, ListKind
    from mcpx.transports.ladder import ExitPlan
    from mcpx.upstream.call import Foreign, Interest, News
    from mcpx.upstream.supervisor import Key
    from mcpx.upstream.target import Builtins

# What mcpx calls itself towards upstreams, and towards hosts where no single upstream shines through.
IDENTITY: dict[str, Any] = {
    "name": "mcpx",
    "title": "mcpx",
    "version": __version__,
    "description": "One MCP server in front of all of yours",
}

# In front of several servers the capabilities are fixed, so that a handshake is answered at once, whatever is up.
CAPABILITIES: dict[str, Raw] = {
    "tools": Raw(b'{"listChanged":true}'),
    "prompts": Raw(b'{"listChanged":true}'),
    "resources": Raw(b'{"listChanged":true,"subscribe":true}'),
    "completions": Raw(b"{}"),
    "logging": Raw(b"{}"),
}


class Part(msgspec.Struct, frozen=True, eq=False):
    """The items that one upstream adds to a list, with public names, otherwise as it wrote them."""

    server: str
    revision: str
    items: list[Raw]


class Page(msgspec.Struct, frozen=True, eq=False):
    """One page of a host's list."""

    parts: list[Part]
    next_cursor: str | None
    ttl_ms: int
    cache_scope: Literal["public", "private"]


KEY_BYTES = 32  # of randomness, where the configuration gives no key


class Gateway:
    """What the host edge, and a program that embeds mcpx, talk to. Open it with ``open_gateway``."""

    def __init__(
        self,
        settings: Settings,
        exit_plan: ExitPlan,
        supervisors: list[Supervisor],
        catalog: Catalog,
        *,
        parking: Parking,
        desks: Desks,
    ) -> None:
        self.settings = settings
        self.parking = parking
        self.desks = desks
        key = settings.state_key
        self.sealer = Sealer(secrets.token_bytes(KEY_BYTES) if key is None else key.encode())
        self.exit_plan = exit_plan  # set its `end` before leaving, and every shutdown ladder is cut to fit
        self.supervisors = supervisors
        self.passthrough = len(supervisors) == 1 and supervisors[0].server.passthrough
        self._catalog = catalog
        self._lists = MergedLists(catalog.names, whole=self.passthrough)
        self._router = Router(supervisors, catalog)
        self._watches: dict[Watch, None] = {}

    async def identity(self, asker: Asker) -> Identity:
        """What a handshake or a discovery answers with, its capabilities in the newest form.

        At once in front of several servers, with the extensions that these are known to have. In pass-through the
        upstream's own, as remembered from its last start with this configuration, else once it is up: raises
        ``UpstreamError`` where it does not come up.
        """
        known = self.identity_nowait()
        if known is None:
            [supervisor] = self.supervisors
            supervisor.release(await supervisor.lease(asker))
            known = supervisor.memory.value.identity
        return known

    def identity_nowait(self) -> Identity | None:
        """The same, as far as it is known."""
        if not self.passthrough:
            return Identity(None, {**CAPABILITIES, **self._extensions()}, self._instructions())
        remembered = self.supervisors[0].memory.value
        return None if remembered.revision is None else remembered.identity

    def exchange(self, request: Request, *, expected: str | None = None) -> Exchange:
        """Open an exchange for one of the methods in ``mcpx.gateway.exchange.ROUTES``, or in pass-through for a
        method that no revision defines. ``expected`` names the server that it must be for.
        """
        return Exchange(self._router, request, expected=expected)

    async def list(self, kind: ListKind, asker: Asker, cursor: str | None) -> Page:
        """One page of a merged list: the configuration's order, then each upstream's.

        Waits at most ``listTimeout`` for slow servers and goes without those that are not there. Raises ``RpcError``
        (``-32602``) for a cursor that mcpx never gave out, and ``UpstreamError`` where the one server of a pass-through
        cannot be asked.
        """
        # A bad cursor is an error before anything is started for it.
        before = None if cursor is None else cursors.decode(cursor, kind)
        shelves = await self._catalog.shelves(kind, asker, renew=cursor is None)
        if self.passthrough and not shelves:
            [only] = self.supervisors
            failure = self._catalog.failure(kind, only.name, asker)
            raise UpstreamError(only.name, failure or NOT_YET)
        merged = self._lists.merge(kind, shelves)
        names = [one.name for one in self.supervisors]
        # Who is not there yet has said nothing: the list may be another as soon as it is.
        whole = len(shelves) == len(names)
        offered = [shelf for shelf in shelves if shelf.offered]
        private = not whole or not _is_public(offered) or (before is not None and before.private)
        page = cursors.page(kind, merged.keys, names, cursor, self.settings.limits.page_size, private=private)
        parts: dict[str, Part] = {}
        for shelf, item in merged.items[page.start : page.stop]:
            part = parts.get(shelf.server)
            if part is None:
                part = parts[shelf.server] = Part(shelf.server, shelf.revision, [])
            part.items.append(item.raw)
        ttl_ms = _remaining_ms(offered) if whole else 0
        return Page(list(parts.values()), page.next_cursor, ttl_ms, "private" if private else "public")

    async def mirrored(self, tool: str, asker: Asker) -> tuple[ParamHeader, ...]:
        """The parameters of a tool, by its public name, that a modern host over HTTP repeats in headers.

        As ``x-mcp-header`` in the tool's schema has it (2026-07-28 server/tools). None for a tool that nobody offers,
        or whose server cannot be asked: what is wrong then is told by the call itself.
        """
        try:
            owner = await self._router.owner("tools", tool, asker)
        except (UnknownItem, UpstreamError):
            return ()
        return await self._catalog.mirrored(owner, asker)

    def mirrored_nowait(self, tool: str, asker: Asker) -> tuple[ParamHeader, ...] | None:
        """The same where nothing has to be asked first; ``None`` where something has."""
        owner = self._router.owner_nowait("tools", tool)
        return None if owner is None else self._catalog.mirrored_nowait(owner, asker)

    @contextmanager
    def watch(
        self, asker: Asker, interest: Interest, notify: Callable[[News], None], *, keep: bool
    ) -> Generator[Watch]:
        """Call ``notify`` (it must not block) for each change that is of ``interest``, and each foreign notification in
        pass-through, while entered.

        URIs are public, and told of as they are written in the interest. ``keep`` is for what a host has asked for: the
        servers are started for it and kept running; without it they are listened to while they happen to run. A list
        that grew because a slow server arrived late has changed as well. Foreign notifications come from the instance
        that this asker's requests go to, and from no other.
        """
        with Watch(self._router, self.supervisors, asker, notify, keep=keep) as watch:
            watch.change(interest)
            self._watches[watch] = None
            try:
                yield watch
            finally:
                del self._watches[watch]

    def tell(self, supervisor: Supervisor, kind: ChangeKind, uri: str | None) -> None:
        """Tell of a change whoever watches for it. The URI is the server's own."""
        if uri is None:
            change = Change(supervisor.name, kind)
            for watch in list(self._watches):
                watch.list_changed(change)
        else:
            reached = (uri, *ancestors(uri))
            for watch in list(self._watches):
                watch.updated(supervisor.name, uri, reached)

    def hand_on(self, supervisor: Supervisor, key: Key, news: Foreign) -> None:
        """Hand a foreign notification on to the hosts of the instance that said it."""
        for watch in list(self._watches):
            if supervisor.key(watch.asker) == key:
                watch.notify(news)

    def remark(self, news: Remark | Visited) -> None:
        """Hand what belongs to no call on to the host that it is for."""
        for watch in list(self._watches):
            if watch.asker.host == news.host:
                watch.notify(news)

    def set_level(self, asker: Asker, level: Level | None) -> None:
        """A host wants log messages of this level on all its requests, and between them; ``None``: none any more.

        Servers are told the lowest level that any of their hosts wants. A request's own is in its asker.
        """
        for supervisor in self.supervisors:
            supervisor.set_level(asker, level)

    def roots_changed(self, asker: Asker) -> None:
        """A host's roots have changed: the servers that were told of them are to know."""
        for supervisor in self.supervisors:
            supervisor.roots_changed(asker)

    def relay(self, asker: Asker, method: str, params: dict[str, Raw]) -> None:
        """Pass a host's notification that no revision defines on to a server in pass-through that is up, and reads."""
        for supervisor in self.supervisors:
            if supervisor.server.passthrough and (session := supervisor.session_nowait(asker)) is not None:
                session.connection.offer(method, params)

    def _extensions(self) -> dict[str, Raw]:
        """The extensions that any server has declared; of two that declare one, the first server's settings."""
        union: dict[str, Raw] = {}
        for supervisor in self.supervisors:
            declared = members_of(supervisor.memory.value.identity.capabilities.get("extensions")) or {}
            union.update((name, settings) for name, settings in declared.items() if name not in union)
        return {"extensions": frames.to_raw(union)} if union else {}

    def _instructions(self) -> str | None:
        """One short section per server that is known to have instructions, under its name."""
        sections = [
            f"# {one.name}\n{text.strip()}" for one in self.supervisors if (text := one.memory.value.instructions)
        ]
        return "\n\n".join(sections) or None


@asynccontextmanager
async def open_gateway(
    settings: Settings, *, builtins: Builtins | None = None, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[Gateway]:
    """Open a gateway: the owner of every server process, and of every task that works for more than one host.

    Nothing is started before a request needs it. Leaving ends all servers at once, each by its shutdown ladder, cut to
    fit ``gateway.exit_plan.end`` where that is set. ``builtins`` opens the in-process servers, by the name that
    ``ServerSettings.builtin`` gives; ``environ`` is where servers' variables come from (this process's own by default).
    """
    async with AsyncExitStack() as stack:
        surroundings = await stack.enter_async_context(
            open_surroundings(
                settings.limits,
                builtins=builtins or {},
                client_info=frames.to_raw(IDENTITY),
                environ=os.environ if environ is None else environ,
            )
        )
        crew = await stack.enter_async_context(open_crew())
        desks = Desks(crew, settings.limits.question_timeout)
        supervisors: list[Supervisor] = []
        gateway: Gateway

        def heard(supervisor: Supervisor, key: Key, news: News) -> None:
            if isinstance(news, Change):
                catalog.changed(supervisor, news.kind, news.uri)
            elif isinstance(news, (Remark, Visited)):
                gateway.remark(news)
            elif supervisor.server.passthrough:
                gateway.hand_on(supervisor, key, news)

        def tell(supervisor: Supervisor, kind: ChangeKind, uri: str | None) -> None:
            gateway.tell(supervisor, kind, uri)

        announcer = Announcer(tell)
        crew.start_soon(announcer.run)
        catalog = Catalog(supervisors, crew, list_timeout=settings.limits.list_timeout, announce=announcer.announce)
        supervisors.extend(
            Supervisor(
                server,
                surroundings,
                settings.state_dir,
                crew,
                heard=heard,
                came_up=catalog.came_up,
                unasked=desks.ask,
            )
            for server in settings.servers
        )
        gateway = Gateway(
            settings,
            surroundings.exit_plan,
            supervisors,
            catalog,
            parking=Parking(crew, settings.limits.max_parked, settings.limits.question_timeout),
            desks=desks,
        )
        yield gateway


def _remaining_ms(shelves: list[Shelf]) -> int:
    """How long a merged list stays good: the least that remains of its parts, 0 where one of them gave nothing."""
    if not shelves or not all(shelf.ttl_given for shelf in shelves):
        return 0
    soonest = min(shelf.expires for shelf in shelves)
    return max(int((soonest - trio.current_time()) * 1000), 0) if soonest != float("inf") else 0


def _is_public(shelves: list[Shelf]) -> bool:
    """Whether a merged list may be kept for others: each of its parts may."""
    return bool(shelves) and all(shelf.cache_scope == "public" for shelf in shelves)
