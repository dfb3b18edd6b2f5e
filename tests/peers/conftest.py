"""Installs the peers once per session, and gives each test a run of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.peers.environments import Peers, install
from tests.peers.running import Run, lay_out_programs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def peers() -> Peers:
    """Where the real peers are installed."""
    return install()


@pytest.fixture(scope="session")
def programs(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of our own hosts and servers on the peers' SDKs."""
    return lay_out_programs(tmp_path_factory.mktemp("peers"), peers)


@pytest.fixture
def run(tmp_path: Path, peers: Peers, programs: Path) -> Run:
    """A folder, a home and a record of this test's own."""
    return Run(tmp_path, peers, programs)
