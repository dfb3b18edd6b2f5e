"""The peers among themselves, with nothing between: what fails here is the peers' or our programs', never mcpx's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_06_18
from tests.peers.running import MODERN_HOSTS, MODERN_SERVERS
from tests.peers.tours import UNKNOWN_TOOL, check_tour

if TYPE_CHECKING:
    from tests.peers.running import Run

PAIRS = [
    ("py1", "py1"),
    ("py1", "ts1-22"),
    ("py1", "ts2"),
    ("py2-legacy", "py2"),
    ("py2-auto", "py2"),
    ("py2-auto", "py1"),
    ("py2-auto", "ts2"),
    ("py2-modern", "py2"),
    ("ts2-legacy", "ts2"),
    ("ts2-auto", "ts2"),
    ("ts2-auto", "py2"),
    ("ts2-auto", "ts1-32"),
    ("ts2-modern", "ts2"),
    ("ts1-32", "ts1-32"),
    ("ts1-32", "py2"),
    ("ts1-22", "ts1-22"),
    ("ts1-22", "py1"),
]


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("host", "server"), PAIRS)
async def test_host_meets_server(run: Run, host: str, server: str) -> None:
    report = await run.host(host, run.server(server))
    check_tour(report, host)
    assert report["unknown"] == UNKNOWN_TOOL[server]
    if host in MODERN_HOSTS and server in MODERN_SERVERS:
        assert report["protocol"] == LATEST_MODERN
    else:
        assert report["protocol"] == (V2025_06_18 if "ts1-22" in (host, server) else LATEST_LEGACY)
    # The TypeScript SDK probes on a process of its own before it starts the one it means to use.
    assert len(run.recorded("started")) == (2 if host in ("ts2-auto", "ts2-modern") else 1)
