"""The names that hosts see for the tools and prompts of many servers.

A public name is a pure function of the server's configured name and the item's own name, ``<server part>__<item
part>``, so that adding a server never renames another's tools and nothing depends on who connected first. It stays
within what hosts and model APIs accept: ``[A-Za-z0-9_-]``, 64 characters by default. The way back is a kept mapping
(``mcpx.gateway.name_table``); a public name is never parsed.

Two items never get one public name in normal use:

- A server part never holds ``__`` and never ends in ``_``, so a public name divides in one way only; names of two
  servers with different parts differ. Two servers with one part are an error of the configuration.
- An item's own name is kept where it fits, otherwise it is shown as a cleaned head, ``-`` and ten hexadecimal digits
  of its SHA-256. An own name that happens to end like that is hashed as well, so a kept name never equals a hashed
  one.
- What remains is two hashed names of one server with one head and one hash (a chance of about 1 in 10^12 for a pair).
  The table then keeps the smaller own name and reports the other, whatever the order they come in.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SEPARATOR = "__"
DEFAULT_LIMIT = 64  # what the model APIs accept in a tool name
MAX_SERVER_PART = 32  # half of the limit, so that the item's part is never squeezed out
HASH_DIGITS = 10  # 40 bits; fewer would take the dates that some names end in for hashes
MIN_LIMIT = MAX_SERVER_PART + len(SEPARATOR) + HASH_DIGITS  # the longest server part and a bare hash

_CLEAN = re.compile(r"[A-Za-z0-9_-]+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9-]+")  # with the underscore, so that a cleaned head never holds ``__``
_HASHED = re.compile(rf"(?:.*-)?[0-9a-f]{{{HASH_DIGITS}}}")


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
