"""One request of a host, once it is known in which revision it is to be read and answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import Asker

# Sends one notification that belongs to a request, as whole JSON, on the way that its answer will take.
Notify = Callable[[bytes], Awaitable[None]]


class Handshake(msgspec.Struct, eq=False):
    """What a legacy host agreed on: all that mcpx remembers of it between requests.

    A connection has one from the start, for the requests of a host that never shakes hands; a second ``initialize``
    replaces it as a whole.
    """

    revision: str
    asker: Asker
    agreed: bool = False  # whether there was one
    declared: frozenset[ChangeKind] = frozenset()  # the lists whose changes it was promised to hear of


class Inbound(msgspec.Struct, eq=False):
    """A request with its metadata read and taken off."""

    method: str
    params: dict[str, Raw]  # without `_meta`
    meta: dict[str, Raw]  # what of `_meta` passes through
    revision: str  # in which it is written and will be answered
    modern: bool
    asker: Asker
    token: Raw | None = None  # its progress token, as the host wrote it
    handshake: Handshake | None = None  # of an `initialize`: what it brought about
