"""The names that hosts see for the tools and prompts of many servers.

A public name is a pure function of the server's configured name and the item's own name, ``<server part>__<item
part>``, so that adding a server never renames another's tools and nothing depends on who connected first. It stays
within what hosts and model APIs accept: ``[A-Za-z0-9_-]``, 64 characters by default. The way back is a kept mapping
(``NameTable``); a public name is never parsed.

Two items never get one public name in normal use:

- A server part never holds ``__`` and never ends in ``_``, so a public name divides in one way only; names of two
  servers with different parts differ. Two servers with one part are an error of the configuration.
- An item's own name is kept where it fits, otherwise it is shown as a cleaned head, ``-`` and ten hexadecimal digits
  of its SHA-256. An own name that happens to end like that is hashed as well, so a kept name never equals a hashed
  one.
- What remains is two hashed names of one server with one head and one hash (a chance of about 1 in 10^12 for a pair).
  ``NameTable`` then keeps the smaller own name and reports the other, whatever the order they come in.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from mcpx.errors import NameClash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpx.upstream.call import ListKind

SEPARATOR = "__"
DEFAULT_LIMIT = 64  # what the model APIs accept in a tool name
MAX_SERVER_PART = 32  # half of the limit, so that the item's part is never squeezed out
HASH_DIGITS = 10  # 40 bits; fewer would take the dates that some names end in for hashes
MIN_LIMIT = MAX_SERVER_PART + len(SEPARATOR) + HASH_DIGITS  # the longest server part and a bare hash

_CLEAN = re.compile(r"[A-Za-z0-9_-]+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9-]+")  # with the underscore, so that a cleaned head never holds ``__``
_HASHED = re.compile(rf"(?:.*-)?[0-9a-f]{{{HASH_DIGITS}}}")

_SINGULAR: dict[ListKind, str] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "resource template",
}


def server_part(server_name: str) -> str:
    """The part of a public name, or the authority of a public URI, that says which server.

    The configured name itself, or its cleaned head and a short hash where it is empty, too long, ends in ``_``, or
    holds ``__`` or other characters.
    """
    fits = _CLEAN.fullmatch(server_name) and len(server_name) <= MAX_SERVER_PART
    if fits and SEPARATOR not in server_name and not server_name.endswith("_"):
        return server_name
    return _hashed(server_name, MAX_SERVER_PART)


def public_name(server_name: str, item_name: str, limit: int = DEFAULT_LIMIT) -> str:
    """The name under which hosts see a server's tool or prompt, at most ``limit`` characters long.

    Raises ``ValueError`` for a limit below ``MIN_LIMIT``.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"a limit for public names must be at least {MIN_LIMIT}, not {limit}")
    part = server_part(server_name)
    room = limit - len(part) - len(SEPARATOR)
    fits = _CLEAN.fullmatch(item_name) and len(item_name) <= room
    shown = item_name if fits and not _HASHED.fullmatch(item_name) else _hashed(item_name, room)
    return part + SEPARATOR + shown


def candidates(public: str, servers: Iterable[str]) -> list[str]:
    """Which of the servers could have an item of this public name: the only ones worth starting to find out."""
    return [server for server in servers if public.startswith(server_part(server) + SEPARATOR)]


def _hashed(name: str, room: int) -> str:
    """A cleaned head and a hash of the whole name, together at most ``room`` characters."""
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    head = _NOT_PLAIN.sub("_", name[:room])[: room - HASH_DIGITS - 1].strip("_-") if room > HASH_DIGITS else ""
    return f"{head}-{digits}" if head else digits


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
        what = _SINGULAR[self.kind]
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

    def replace(self, server: str, kind: ListKind, names: Iterable[tuple[str, str]]) -> list[Clash]:
        """Put a server's items of one kind, as pairs of public and own name, in the place of those it had.

        Returns the clashes that these items have a part in. An own name that comes twice counts once.
        """
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

    def find(self, kind: ListKind, public: str) -> Owner | None:
        """Whose a public name is; ``None`` where nobody has it. Raises ``NameClash`` where several servers offer it."""
        owners = self._owners.get(kind, {}).get(public)
        if owners is None:
            return None
        if len(owners) > 1:
            clash = self._across(kind, public)
            raise NameClash(", ".join(owner.server for owner in clash.refused), f"{clash}.")
        [(server, own)] = owners.items()
        return Owner(server, own)

    def is_shown(self, kind: ListKind, public: str, owner: Owner) -> bool:
        """Whether a list may show this item under this name: it has the name, and has it alone."""
        return self._owners.get(kind, {}).get(public) == {owner.server: owner.name}

    def _across(self, kind: ListKind, public: str) -> Clash:
        owners = tuple(Owner(server, own) for server, own in sorted(self._owners[kind][public].items()))
        return Clash(kind, public, None, owners)
