"""The servers over HTTP, and every way in which each is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_06_18

if TYPE_CHECKING:
    from tests.peers.running import Run

# Every way in which the servers are reached: the server, the path, what its entry says besides, and what is agreed on.
WAYS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "py1": ("py1", "/mcp", {}, LATEST_LEGACY),
    "py1-stateless": ("py1", "/stateless", {}, LATEST_LEGACY),
    "py1-sse": ("py1", "/sse", {}, LATEST_LEGACY),
    "py2": ("py2", "/mcp", {}, LATEST_MODERN),
    "py2-stateless": ("py2", "/stateless", {}, LATEST_MODERN),
    "py2-sse": ("py2", "/sse", {"type": "sse"}, LATEST_LEGACY),
    "py2-legacy": ("py2", "/mcp", {"protocol": "legacy"}, LATEST_LEGACY),
    "py2-legacy-stateless": ("py2", "/stateless", {"protocol": "legacy"}, LATEST_LEGACY),
    "ts2": ("ts2", "/mcp", {}, LATEST_MODERN),
    "ts2-stateless": ("ts2", "/stateless", {}, LATEST_MODERN),
    "ts2-legacy": ("ts2", "/mcp", {"protocol": "legacy"}, LATEST_LEGACY),
    "ts2-legacy-stateless": ("ts2", "/stateless", {"protocol": "legacy"}, LATEST_LEGACY),
    "ts1-32": ("ts1-32", "/mcp", {}, LATEST_LEGACY),
    "ts1-32-stateless": ("ts1-32", "/stateless", {}, LATEST_LEGACY),
    "ts1-32-sse": ("ts1-32", "/sse", {}, LATEST_LEGACY),
    "ts1-22": ("ts1-22", "/mcp", {}, V2025_06_18),
    "ts1-22-stateless": ("ts1-22", "/stateless", {}, V2025_06_18),
    "ts1-22-sse": ("ts1-22", "/sse", {"type": "sse"}, V2025_06_18),
}
# Without a session a notification finds no call, and this release does not heed that its caller has gone.
DEAF = ["ts1-22-stateless"]


class Town(NamedTuple):
    """The servers, all listening, for all tests of this file."""

    addresses: dict[str, str]
    house: Run

    def entries(self, *ways: str) -> dict[str, Any]:
        """The servers of a configuration that are reached in these ways."""
        wanted = {way: WAYS[way] for way in ways or WAYS}
        return {way: {"url": self.addresses[name] + path, **more} for way, (name, path, more, _) in wanted.items()}

    def port(self, way: str) -> int:
        """The port that a way leads to."""
        return int(self.addresses[WAYS[way][0]].rpartition(":")[2])
