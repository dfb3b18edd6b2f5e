"""A watch on changes: what one host, or one of its listen streams, wants to hear of, under public URIs.

What of it can be delivered is for the servers to say (``Supervisor.interested``); a watch puts what they agree to back
into the words of its host.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import trio

from mcpx.errors import McpxError
from mcpx.spec.capabilities import promises_changes, takes_subscriptions
from mcpx.upstream.call import Change, Interest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from types import TracebackType

    from mcpx.gateway.exchange import Router
    from mcpx.gateway.name_table import Owner
    from mcpx.upstream.call import Asker, News
    from mcpx.upstream.supervisor import Interested, Supervisor

NOTHING = Interest()


class _Part:
    """What is wanted of one server: under its own URIs, each with the public ones that mean it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.wanted = NOTHING
        self.spellings: dict[str, list[str]] = {}
        self.agreed: Interest | None = None  # what the server delivers of it, once it has said so
        self._interested: Interested | None = None
        self._stack = ExitStack()

    def want(self, asker: Asker, wanted: Interest, *, keep: bool) -> None:
        """From now on this is wanted."""
        if wanted == self.wanted:
            return
        self.wanted = wanted
        self.agreed = None
        if not wanted:
            self.close()
        elif self._interested is None:
            interested = self.supervisor.interested(asker, wanted, keep=keep)
            self._interested = self._stack.enter_context(interested)
        else:
            self._interested.change(wanted)

    async def settle(self) -> None:
        """Wait until the server has agreed to what is wanted, also where that changes meanwhile."""
        while self._interested is not None and self.agreed is None:
            wanted = self.wanted
            agreed = await self._interested.settled()
            if self.wanted is wanted:
                self.agreed = agreed

    @property
    def deliverable(self) -> Interest:
        """What the server has agreed to; before that, what it has declared, as far as that is known."""
        if self.agreed is not None:
            return self.agreed
        declared = self.supervisor.memory.value.identity.capabilities
        return Interest(
            frozenset(kind for kind in self.wanted.lists if promises_changes(declared.get(kind))),
            self.wanted.uris if takes_subscriptions(declared.get("resources")) else frozenset(),
        )

    def close(self) -> None:
        self._stack.close()
        self._interested = None


class Watch:
    """What somebody wants to hear of. ``Gateway.watch`` opens it; ``notify`` is called for each such change."""

    def __init__(
        self,
        router: Router,
        supervisors: Iterable[Supervisor],
        asker: Asker,
        notify: Callable[[News], None],
        *,
        keep: bool,
    ) -> None:
        self.asker = asker
        self.notify = notify
        self._router = router
        self._keep = keep
        self._parts = {one.name: _Part(one) for one in supervisors}
        self._wanted = NOTHING
        self._owners: dict[str, Owner] = {}  # of the URIs that are wanted, as far as they are found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for part in self._parts.values():
            part.close()

    def change(self, interest: Interest) -> None:
        """From now on this is wanted: at once of the servers that are known to be concerned, of others by ``settled``
        (the owner of a URI without a server's prefix is to be looked for).
        """
        for uri in self._wanted.uris - interest.uris:
            self._disown(uri)
        for uri in interest.uris - self._wanted.uris:
            if (owner := self._router.uri_owner_nowait(uri)) is not None:
                self._own(uri, owner)
        self._wanted = interest
        self._pass_on()

    async def settled(self, uris: Collection[str] | None = None) -> None:
        """Wait until each server has agreed to its part, or said that it delivers none of it; bound it with a deadline.

        With ``uris`` only these are waited for. ``granted`` and ``grants`` say what came of it.
        """
        await self._find_owners(self._wanted.uris if uris is None else uris)
        parts = self._parts.values()
        if uris is not None:
            servers = {self._owners[uri].server for uri in uris if uri in self._owners}
            parts = [self._parts[name] for name in servers]
        async with trio.open_nursery() as nursery:
            for part in parts:
                nursery.start_soon(part.settle)

    @property
    def granted(self) -> Interest:
        """What of the interest will be delivered, as far as that is known.

        In front of several servers every list is: it grows with whoever comes late.
        """
        parts = self._parts
        lists = self._wanted.lists
        if self._router.only is not None:
            lists &= parts[self._router.only.name].deliverable.lists
        delivered = {name: part.deliverable.uris for name, part in parts.items() if part.wanted.uris}
        return Interest(
            lists,
            frozenset(
                uri for uri, owner in self._owners.items() if owner.name in delivered.get(owner.server, frozenset())
            ),
        )

    def grants(self, uri: str) -> bool:
        """Whether updates of one resource of the interest will be delivered, as far as that is known."""
        owner = self._owners.get(uri)
        return owner is not None and owner.name in self._parts[owner.server].deliverable.uris

    def granted_by(self, server: str) -> Interest:
        """What of the interest one server will deliver, as far as that is known."""
        part = self._parts[server]
        uris = part.deliverable.uris
        return Interest(
            part.deliverable.lists,
            frozenset(public for own, spelt in part.spellings.items() if own in uris for public in spelt),
        )

    def owner(self, uri: str) -> str | None:
        """The server that a URI of the interest is of, as far as that is known."""
        owner = self._owners.get(uri)
        return None if owner is None else owner.server

    def list_changed(self, change: Change) -> None:
        """A list has changed."""
        if change.kind in self._wanted.lists:
            self.notify(change)

    def updated(self, server: str, uri: str, reached: Sequence[str]) -> None:
        """A resource was updated. ``reached`` is it, and the URIs of what it may be inside of, the innermost first."""
        spellings = self._parts[server].spellings
        if not spellings:
            return
        own = next((one for one in reached if one in spellings), None)
        if own is not None:
            for public in spellings[own]:
                self.notify(Change(server, "resources", public + uri[len(own) :]))

    def _own(self, uri: str, owner: Owner) -> None:
        """The server of a URI is found. One URI at a time: a host may subscribe to thousands, one by one."""
        self._owners[uri] = owner
        self._parts[owner.server].spellings.setdefault(owner.name, []).append(uri)

    def _disown(self, uri: str) -> None:
        """A URI is not wanted any more."""
        if (owner := self._owners.pop(uri, None)) is not None:
            spellings = self._parts[owner.server].spellings
            spellings[owner.name].remove(uri)
            if not spellings[owner.name]:
                del spellings[owner.name]

    def _pass_on(self) -> None:
        """Tell the servers what is wanted of each."""
        for part in self._parts.values():
            wanted = Interest(self._wanted.lists, frozenset(part.spellings))
            part.want(self.asker, wanted, keep=self._keep)

    async def _find_owners(self, uris: Collection[str]) -> None:
        """Look for the servers of URIs that do not say it themselves. Nobody's are of no server."""
        found = False
        for uri in [uri for uri in uris if uri not in self._owners]:
            try:
                owner = await self._router.uri_owner(uri, self.asker)
            except McpxError:  # nobody has it, or whoever may have it cannot be asked
                continue
            if uri in self._wanted.uris and uri not in self._owners:  # neither gone nor found by another meanwhile
                self._own(uri, owner)
                found = True
        if found:
            self._pass_on()
