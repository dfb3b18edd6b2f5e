"""What a server is told of what its hosts declared, which is what it may depend on, and may ask for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from mcpx.spec.capabilities import can_ask, told
from mcpx.upstream import roots
from mcpx.wire import frames

if TYPE_CHECKING:
    from msgspec import Raw

    from mcpx.settings import ServerSettings
    from mcpx.upstream.call import Asker

KEPT = 16  # of the last askers: a host is the same one for all its requests, and there are few at a time


class Told(NamedTuple):
    """What a server is told of what one asker declared."""

    capabilities: dict[str, Raw]
    canonical: bytes  # one spelling for one meaning; empty where it is told nothing
    can_ask: bool  # whether it lets the server ask that host anything
    roots: bool = False  # whether it is told of the configuration's roots, as of no host's


class Telling:
    """What one server is told, as its settings and the table of what is relayed have it."""

    def __init__(self, server: ServerSettings) -> None:
        self._server = server
        self._roots = roots.roots_result(server.roots) if server.roots else None
        self.of = lru_cache(KEPT)(self._work_out)

    def capabilities(self, asker: Asker) -> dict[str, Raw]:
        """The capabilities that the server is told for an asker, in the newest form."""
        return self.of(asker).capabilities

    def roots(self, asker: Asker) -> Raw | None:
        """The answer to ``roots/list`` where it is not the asker's to give."""
        return self._roots if self.of(asker).roots else None

    def _work_out(self, asker: Asker) -> Told:
        """What is relayed of what an asker declared; of a server that is shared, nothing."""
        shared = self._server.scope == "shared"
        relayed = {} if shared else told(asker.capabilities, passthrough=self._server.passthrough)
        asks = can_ask(relayed)
        configured = self._roots is not None and "roots" not in relayed
        if configured:
            relayed["roots"] = roots.DECLARED
        return Told(relayed, frames.canonical(relayed) if relayed else b"", asks, configured)
