"""What all servers offer: their lists, kept per server and told capabilities, refreshed when they may have changed.

One refresh runs at most per server, told capabilities and kind, and a change that comes meanwhile is followed by one
more look. A list waits a bounded time for slow servers; who comes late is announced as a change.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import trio
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamError, UpstreamGone, UpstreamStartError
from mcpx.gateway.name_table import Clash, NameTable
from mcpx.gateway.uris import own_name, public_item
from mcpx.spec.headers import ANNOTATION, BadAnnotation, declared_params
from mcpx.spec.lists import LISTINGS
from mcpx.spec.mend import mend
from mcpx.wire import frames
from mcpx.wire.raws import elements_of, members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpx.gateway.name_table import Owner
    from mcpx.spec.headers import ParamHeader
    from mcpx.spec.lists import ChangeKind, Listing, ListKind
    from mcpx.upstream.call import Asker
    from mcpx.upstream.session import Session
    from mcpx.upstream.supervisor import Supervisor

# A server that announces changes while it lists, and shows nothing new, is looked at again after this many seconds,
# then after twice as many each time, up to the last.
FIRST_QUIET = 0.5
LAST_QUIET = 32.0

NOT_YET = "The server has not answered yet; ask again in a while."
MAX_TTL_MS = 366 * 24 * 3600 * 1000  # of a list; any integer is allowed, and hosts may compute with what they get

log = logging.getLogger("mcpx.gateway")


class Item(NamedTuple):
    """One tool, prompt, resource or template."""

    public: str  # the name or URI that hosts see
    own: str  # the server's own
    raw: Raw  # as the server wrote it, with the public name in it


class Shelf(msgspec.Struct, frozen=True, eq=False):
    """One server's list of one kind, whole."""

    server: str
    revision: str
    items: list[Item]
    expires: float  # on Trio's clock; infinite where the server tells its changes, the past where it said nothing
    cache_scope: Literal["public", "private"]
    ttl_given: bool = False
    offered: bool = True  # whether the server has such a list at all; one that has none says nothing of keeping it
    mirrored: Mapping[str, tuple[ParamHeader, ...]] = {}  # of tools: own name to the parameters that headers repeat


class _Page(NamedTuple):
    next_cursor: str | None
    ttl_ms: float
    public: bool


class _Entry:
    """The state of one list: the shelf as last seen, and the refresh that is under way."""

    def __init__(self, supervisor: Supervisor, kind: ListKind, asker: Asker) -> None:
        self.supervisor = supervisor
        self.kind: ListKind = kind
        self.asker = asker
        self.shelf: Shelf | None = None
        self.failure: str | None = None  # why the last refresh failed, if it did
        self.stale = True
        self.running = False
        self.changed_meanwhile = False
        self.missed = False  # some host's list went out without it
        self.patience_spent = False  # somebody waited the whole listTimeout for the refresh that is under way
        self.done = trio.Event()  # of the refresh under way
        self.quiet = 0.0  # how long until the next look at a server that announces what is no change

    def is_fresh(self) -> bool:
        return self.shelf is not None and not self.stale and trio.current_time() < self.shelf.expires


class Catalog:
    """The lists of many servers. ``nursery`` owns the refreshes; ``announce`` hears of every change, and must not
    block.
    """

    def __init__(
        self,
        supervisors: list[Supervisor],
        nursery: trio.Nursery,
        *,
        list_timeout: float,
        announce: Callable[[Supervisor, ChangeKind, str | None], None],
    ) -> None:
        self._supervisors = supervisors
        self._nursery = nursery
        self._list_timeout = list_timeout
        self._announce = announce
        self._entries: dict[tuple[str, ListKind, bytes], _Entry] = {}
        self.names = NameTable()

    async def shelves(self, kind: ListKind, asker: Asker, *, renew: bool = True) -> list[Shelf]:
        """Every server's list of one kind, in the configuration's order, without those that did not come in time.

        ``renew=False`` takes what is there, however old, and asks only for what is missing.
        """
        entries = [self._entry(supervisor, kind, asker) for supervisor in self._supervisors]
        waiting = [one for one in entries if not (one.is_fresh() or (one.shelf is not None and not renew))]
        await self._refresh_all(waiting)
        for entry in entries:
            if entry.shelf is None:
                entry.missed = True
        return [entry.shelf for entry in entries if entry.shelf is not None]

    async def look_again(self, kind: ListKind, servers: Iterable[str], asker: Asker) -> None:
        """Bring the lists of these servers up to date, as far as they may have changed; bounded like a list."""
        wanted = set(servers)
        entries = [self._entry(one, kind, asker) for one in self._supervisors if one.name in wanted]
        await self._refresh_all([entry for entry in entries if not entry.is_fresh()])

    async def mirrored(self, owner: Owner, asker: Asker) -> tuple[ParamHeader, ...]:
        """The parameters of a tool that headers repeat; none where its server's list cannot be had."""
        if (known := self.mirrored_nowait(owner, asker)) is not None:
            return known
        await self._refresh_all([self._entry(self._by_name(owner.server), "tools", asker)])
        return self.mirrored_nowait(owner, asker) or ()

    def mirrored_nowait(self, owner: Owner, asker: Asker) -> tuple[ParamHeader, ...] | None:
        """The same where the list is there already, else ``None``."""
        key = (owner.server, "tools", self._by_name(owner.server).told_key(asker))
        entry = self._entries.get(key)
        return None if entry is None or entry.shelf is None else entry.shelf.mirrored.get(owner.name, ())

    def failure(self, kind: ListKind, server: str, asker: Asker) -> str | None:
        """Why a server's list is not there, if it is not."""
        entry = self._entries.get((server, kind, self._by_name(server).told_key(asker)))
        if entry is None or entry.shelf is not None:
            return None
        return NOT_YET if entry.running else entry.failure

    def changed(self, supervisor: Supervisor, change: ChangeKind, uri: str | None) -> None:
        """A server says that one of its lists, or one of its resources, has changed."""
        if uri is not None:
            self._announce(supervisor, change, uri)
            return
        in_refresh = False
        for entry in self._of(supervisor, change):
            entry.stale = True
            entry.changed_meanwhile = entry.running
            in_refresh |= entry.running
        if not in_refresh:  # otherwise the refresh looks once more, and announces what is really new
            self._announce(supervisor, change, None)

    def came_up(self, supervisor: Supervisor) -> None:
        """A server has started: what it offers may be new, and somebody may have missed it."""
        for entry in self._of(supervisor, None):
            if entry.running:
                continue
            entry.stale = True
            if entry.missed:
                self._begin(entry)

    # -- refreshing

    async def _refresh_all(self, entries: list[_Entry]) -> None:
        """Refresh several at once and wait for them, but not a second time for one that has used up all patience."""
        for entry in entries:
            if not entry.running:
                self._begin(entry)
        awaited = [entry for entry in entries if not entry.patience_spent]
        with trio.move_on_after(self._list_timeout) as scope:
            for entry in awaited:
                await entry.done.wait()
        if scope.cancelled_caught:
            for entry in awaited:
                if entry.running:
                    entry.patience_spent = True
                    log.warning(
                        "[%s] did not list its %s within %g s", entry.supervisor.name, entry.kind, self._list_timeout
                    )

    def _begin(self, entry: _Entry) -> None:
        entry.running = True
        entry.patience_spent = False
        entry.done = trio.Event()
        self._nursery.start_soon(self._refresh, entry, name=f"list {entry.kind} of {entry.supervisor.name}")

    async def _refresh(self, entry: _Entry) -> None:
        try:
            changed = new = await self._look(entry)
            while entry.changed_meanwhile and (new or entry.quiet == 0):
                # A change came meanwhile: look once more, and again for as long as there is something new to see.
                entry.quiet = FIRST_QUIET
                new = await self._look(entry)
                changed |= new
        finally:
            entry.running = False
            entry.done.set()
        if entry.changed_meanwhile:
            # Nothing new, and yet it said so: it notifies from inside its own list handler, or a change came together
            # with the answer. Looking at once would loop, not looking would lose the change: so look later, ever later.
            if entry.quiet <= LAST_QUIET:  # after that it is left to the next host that asks, and may fall idle
                self._nursery.start_soon(self._look_later, entry, entry.quiet)
                entry.quiet *= 2
        else:
            entry.quiet = 0
        if entry.shelf is not None and (entry.missed or changed):
            entry.missed = False
            self._announce(entry.supervisor, LISTINGS[entry.kind].capability, None)

    async def _look_later(self, entry: _Entry, delay: float) -> None:
        await trio.sleep(delay)
        if entry.stale and not entry.running and any(one.ready for one in entry.supervisor.instances):
            self._begin(entry)

    async def _look(self, entry: _Entry) -> bool:
        """Fetch a list; whether it is there and differs from one that was there before."""
        entry.stale = entry.changed_meanwhile = False
        before = entry.shelf
        try:
            shelf = await self._fetch(entry)
        except (UpstreamError, RpcError) as error:
            entry.failure = error.reason if isinstance(error, UpstreamError) else f"{error.code} {error.message}"
            entry.stale = True
            # That a server does not run is told where it is kept running, once, and not again for each of its lists.
            level = logging.DEBUG if isinstance(error, (UpstreamStartError, UpstreamGone)) else logging.WARNING
            log.log(level, "[%s] its %s could not be listed: %s", entry.supervisor.name, entry.kind, entry.failure)
            return False
        entry.failure = None
        entry.stale = entry.changed_meanwhile
        if before is not None and before.items == shelf.items:
            # The very same items: what was made of them is known by that.
            entry.shelf = msgspec.structs.replace(shelf, items=before.items)
            return False
        entry.shelf = shelf
        self._index(entry, shelf)
        return before is not None

    async def _fetch(self, entry: _Entry) -> Shelf:
        instance = await entry.supervisor.lease(entry.asker)
        try:
            assert instance.session is not None
            return await self._fetch_from(instance.session, entry)
        finally:
            entry.supervisor.release(instance)

    async def _fetch_from(self, session: Session, entry: _Entry) -> Shelf:
        """Follow every page, to a limit and never in a circle (an empty cursor is a cursor like any other)."""
        listing = LISTINGS[entry.kind]
        server = entry.supervisor.server
        items: dict[str, Item] = {}
        lifetimes: list[float] = []
        scopes: set[bool] = set()
        if session.offers(listing.capability):
            cursor: str | None = None
            seen: set[str] = set()
            for _ in range(server.limits.max_pages):
                params = {} if cursor is None else {"cursor": frames.to_raw(cursor)}
                try:
                    payload = await session.ask(listing.method, params, entry.asker)
                except RpcError as error:
                    if error.code == frames.METHOD_NOT_FOUND:
                        break  # it has the capability and not this list, as servers without templates do
                    raise
                page = _read_page(server.name, listing, payload, items, entry)
                lifetimes.append(trio.current_time() + page.ttl_ms / 1000)
                scopes.add(page.public)
                cursor = page.next_cursor
                if cursor is None:
                    break
                if cursor in seen:
                    log.warning("[%s] its pages of %s go round in a circle; stopped", server.name, entry.kind)
                    break
                seen.add(cursor)
            else:
                log.warning("[%s] has more than maxPages pages of %s; the rest is left out", server.name, entry.kind)
        told_of_changes = session.declares_changes(listing.capability)
        given = bool(lifetimes) and min(lifetimes) > trio.current_time()
        return Shelf(
            server.name,
            session.revision,
            list(items.values()),
            float("inf") if told_of_changes else min(lifetimes, default=float("inf")),
            "public" if scopes == {True} else "private",
            given,
            bool(lifetimes),
            _mirrored(items.values()) if entry.kind == "tools" else {},
        )

    def _index(self, entry: _Entry, shelf: Shelf) -> None:
        """Bring the way back from public names up to date with every list that this server has shown of this kind."""
        name, kind = entry.supervisor.name, entry.kind
        shelves = [one.shelf for one in self._of(entry.supervisor, None) if one.kind == kind and one.shelf is not None]
        clashes: list[Clash] = self.names.replace(
            name, kind, ((item.public, item.own) for shelf in shelves for item in shelf.items)
        )
        for clash in clashes:
            log.error("%s.", clash)

    # -- entries

    def _entry(self, supervisor: Supervisor, kind: ListKind, asker: Asker) -> _Entry:
        key = (supervisor.name, kind, supervisor.told_key(asker))
        entry = self._entries.get(key)
        if entry is None:
            self._make_room(supervisor, kind)
            entry = self._entries[key] = _Entry(supervisor, kind, asker)
        return entry

    def _make_room(self, supervisor: Supervisor, kind: ListKind) -> None:
        """Hosts may declare anything: no more variants of one list are kept than instances of the server."""
        alike = [key for key, one in self._entries.items() if one.supervisor is supervisor and one.kind == kind]
        if len(alike) >= supervisor.server.limits.max_instances:
            for key in alike:
                if not self._entries[key].running:
                    del self._entries[key]
                    return

    def _of(self, supervisor: Supervisor, change: ChangeKind | None) -> list[_Entry]:
        return [
            entry
            for entry in self._entries.values()
            if entry.supervisor is supervisor and (change is None or LISTINGS[entry.kind].capability == change)
        ]

    def _by_name(self, server: str) -> Supervisor:
        return next(one for one in self._supervisors if one.name == server)


def _read_page(server: str, listing: Listing, payload: Raw, items: dict[str, Item], entry: _Entry) -> _Page:
    """Add a page's items by their own names; the first of two that are named alike stays."""
    members = members_of(payload) or {}
    raws = elements_of(members.get(listing.member))
    if raws is None:
        raise UpstreamError(server, f"The server's answer to {listing.method} holds no list of {entry.kind}.")
    passthrough = entry.supervisor.server.passthrough
    for written in raws:
        raw = mend(listing.type, written)
        item = _as_it_is(entry.kind, raw) if passthrough else public_item(entry.kind, raw, server)
        if item is None:
            log.warning("[%s] an item of its %s has no name and is left out", server, entry.kind)
        elif item[1] not in items:
            items[item[1]] = Item(*item)
    return _Page(
        string_of(members.get("nextCursor")),
        _ttl(members.get("ttlMs")),
        string_of(members.get("cacheScope")) == "public",
    )


def _mirrored(tools: Iterable[Item]) -> dict[str, tuple[ParamHeader, ...]]:
    """What ``x-mcp-header`` says in tools' schemas. A schema that breaks its rules is one that every client refuses."""
    found: dict[str, tuple[ParamHeader, ...]] = {}
    for tool in tools:
        schema = (members_of(tool.raw) or {}).get("inputSchema") if ANNOTATION.encode() in bytes(tool.raw) else None
        if schema is None:
            continue
        with suppress(BadAnnotation):
            if declared := declared_params(schema):
                found[tool.own] = declared
    return found


def _ttl(raw: Raw | None) -> float:
    """How long a page says that it holds, in milliseconds; what is no such number says nothing."""
    try:
        return 0 if raw is None else min(max(msgspec.json.decode(raw, type=float), 0), MAX_TTL_MS)
    except (msgspec.MsgspecError, RecursionError):
        return 0


def _as_it_is(kind: ListKind, raw: Raw) -> tuple[str, str, Raw] | None:
    own = own_name(kind, raw)
    return None if own is None else (own, own, raw)
