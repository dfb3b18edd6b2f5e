"""The server leg: the suite in front of ``mcpx serve --http``, and the fixture behind it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.conformance import suite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    Outcomes = dict[str, suite.Outcome]

REVISIONS = (LATEST_LEGACY, LATEST_MODERN)
TRANSPORTS = ("stdio", "http")
LEG_LIMIT = 300.0  # seconds for one run of the suite; it takes about twenty
LISTEN_LIMIT = 30.0  # seconds until a program listens
LOOK = 0.05  # seconds between two looks at whether it does
_LISTENS = re.compile(r"listening on (http://\S+)")


class Cell(NamedTuple):
    """One run: the revision that the fixture is held to, how mcpx reaches it, and whose requirements are asked."""

    fixture: str
    transport: str
    requirements: str

    def __str__(self) -> str:
        return f"{self.requirements} in front of a {self.fixture} server over {self.transport}"


CELLS = tuple(
    Cell(fixture, transport, requirements)
    for requirements, fixture, transport in itertools.product(REVISIONS, REVISIONS, TRANSPORTS)
)


class NeverListened(Exception):
    """A program that was to listen ended, or did not in time."""


async def run_cell(cell: Cell, folder: Path) -> Outcomes:
    """Run one cell, with all that belongs to it in ``folder``, and return its outcomes by scenario.

    Raises ``NeverListened`` and ``trio.TooSlowError``.
    """
    with trio.fail_after(LEG_LIMIT):
        if cell.transport == "stdio":
            return await _through_mcpx(cell, folder, ["--", *_fixture(cell.fixture)])
        async with _fixture_over_http(cell.fixture, folder) as url:
            return await _through_mcpx(cell, folder, [url])


async def run_directly(revision: str, folder: Path) -> Outcomes:
    """Run the suite in front of the fixture itself, which shows what is there to be passed on.

    Raises as ``run_cell`` does.
    """
    with trio.fail_after(LEG_LIMIT):
        async with _fixture_over_http(revision, folder) as url:
            return await _suite(url, revision, folder)


def _fixture(revision: str) -> list[str]:
    return [sys.executable, "-m", "tests.conformance.fixture", revision]


@asynccontextmanager
async def _fixture_over_http(revision: str, folder: Path) -> AsyncIterator[str]:
    """The URL of the fixture, which runs while entered."""
    log = folder / "fixture.log"
    command = [*_fixture(revision), "--http", "127.0.0.1:0"]
    async with suite.started(command, log, stdout=subprocess.PIPE) as fixture:
        yield await _first_line(fixture, log)


async def _through_mcpx(cell: Cell, folder: Path, upstream: list[str]) -> Outcomes:
    home = str(folder / "home")
    own = {f"XDG_{kind}_HOME": home for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
    log = folder / "mcpx.log"
    command = [sys.executable, "-m", "mcpx", "serve", "--http", "127.0.0.1:0", *upstream]
    async with suite.started(command, log, {**own, "HOME": home}) as mcpx:
        return await _suite(await _listening(mcpx, log), cell.requirements, folder)


async def _suite(url: str, revision: str, folder: Path) -> Outcomes:
    await suite.run(["server", "--url", url, "--requirements", revision], folder)
    return suite.results(folder, "server-")


async def _listening(mcpx: trio.Process, log: Path) -> str:
    """Where mcpx listens, as its log says."""
    with trio.move_on_after(LISTEN_LIMIT):
        while mcpx.poll() is None:
            if (said := _LISTENS.search(suite.last_words(log))) is not None:
                return said[1]
            await trio.sleep(LOOK)  # a file tells nobody that it grew
    raise NeverListened(f"mcpx did not listen; it said: {suite.last_words(log)}")


async def _first_line(process: trio.Process, log: Path) -> str:
    assert process.stdout is not None
    said = b""
    with trio.move_on_after(LISTEN_LIMIT):
        while b"\n" not in said and (chunk := await process.stdout.receive_some()):
            said += chunk
    if b"\n" not in said:
        raise NeverListened(f"the fixture did not listen; it said: {suite.last_words(log)}")
    return said.partition(b"\n")[0].decode()
