"""Installs the peers once per session, and gives each test a run of its own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.peers.environments import Peers, install
from tests.peers.over_http import listening
from tests.peers.running import SERVERS, Run, lay_out_programs
from tests.peers.town import Town

if TYPE_CHECKING:
    from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory, peers: Peers, programs: Path) -> Iterator[Town]:
    """Every server, started once."""
    house = Run(tmp_path_factory.mktemp("town"), peers, programs)
    with ExitStack() as stack:
        yield Town({name: stack.enter_context(listening(house, house.http_server(name)))[1] for name in SERVERS}, house)


@pytest.fixture
def guest(run: Run, town: Town) -> Run:
    """A run of mcpx and a host that look at the record of the town's servers."""
    town.house.record.write_text("")
    run.share_record(town.house)
    return run
