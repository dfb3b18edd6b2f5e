"""The way back from public names: whose each is, and what its server calls it. A kept mapping, never parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpx.errors import NameClash
from mcpx.spec.lists import LISTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpx.spec.lists import ListKind


class Owner(NamedTuple):
    """Whose a public name is: the server, and the name or URI that the server itself uses."""

    server: str
    name: str


class Clash(NamedTuple):
    """Several items that would have one public name.

    Of one server's items one is ``kept``; where several servers offer the name (two in pass-through), none is.
    """

    kind: ListKind
    public: str
    kept: Owner | None
    refused: tuple[Owner, ...]

    def __str__(self) -> str:
        what = LISTINGS[self.kind].noun
        if self.kept is None:
            servers = " and ".join(repr(owner.server) for owner in self.refused)
            return f"{servers} each offer a {what} named {self.public!r}, so neither is shown"
        names = ", ".join(repr(owner.name) for owner in self.refused)
        return (
            f"{self.kept.server!r} has several {what}s that would be named {self.public!r}: "
            f"{self.kept.name!r} is shown, {names} not"
        )


class NameTable:
    """Public name to owner, for every kind of item. Filled by whoever makes lists, asked by whoever routes.

    What it answers depends only on what it holds, never on the order in which that came in.
    """

    def __init__(self) -> None:
        self._owners: dict[ListKind, dict[str, dict[str, str]]] = {}  # kind -> public -> server -> own name
        self._generations: dict[ListKind, int] = {}
        self._found: dict[ListKind, dict[str, Owner]] = {}  # what `find` has found since the last change

    def replace(self, server: str, kind: ListKind, names: Iterable[tuple[str, str]]) -> list[Clash]:
        """Put a server's items of one kind, as pairs of public and own name, in the place of those it had.

        Returns the clashes that these items have a part in. An own name that comes twice counts once.
        """
        self._found.pop(kind, None)
        self._generations[kind] = self.generation(kind) + 1
        offered: dict[str, set[str]] = {}
        for public, own in names:
            offered.setdefault(public, set()).add(own)
        index = self._owners.setdefault(kind, {})
        for public in [public for public, owners in index.items() if server in owners]:
            del index[public][server]
            if not index[public]:
                del index[public]
        clashes: list[Clash] = []
        for public, owns in offered.items():
            kept, *refused = sorted(owns)
            index.setdefault(public, {})[server] = kept
            if refused:
                losers = tuple(Owner(server, own) for own in refused)
                clashes.append(Clash(kind, public, Owner(server, kept), losers))
            if len(index[public]) > 1:
                clashes.append(self._across(kind, public))
        return clashes

    def generation(self, kind: ListKind) -> int:
        """A number that is another one whenever anything of this kind may have changed."""
        return self._generations.get(kind, 0)

    def find(self, kind: ListKind, public: str) -> Owner | None:
        """Whose a public name is; ``None`` where nobody has it. Raises ``NameClash`` where several servers offer it."""
        found = self._found.setdefault(kind, {})
        if (known := found.get(public)) is not None:
            return known
        owners = self._owners.get(kind, {}).get(public)
        if owners is None:
            return None
        if len(owners) > 1:
            clash = self._across(kind, public)
            raise NameClash(", ".join(owner.server for owner in clash.refused), f"{clash}.")
        [(server, own)] = owners.items()
        found[public] = owner = Owner(server, own)
        return owner

    def is_shown(self, kind: ListKind, public: str, owner: Owner) -> bool:
        """Whether a list may show this item under this name: it has the name, and has it alone."""
        return self._owners.get(kind, {}).get(public) == {owner.server: owner.name}

    def _across(self, kind: ListKind, public: str) -> Clash:
        owners = tuple(Owner(server, own) for server, own in sorted(self._owners[kind][public].items()))
        return Clash(kind, public, None, owners)
