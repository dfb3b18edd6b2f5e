"""The server leg: the suite in front of ``mcpx serve --http``, and the fixture behind it."""

from __future__ import annotations

import itertools
import socket
import sys
from typing import TYPE_CHECKING, NamedTuple

import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.conformance import suite

if TYPE_CHECKING:
    from pathlib import Path

REVISIONS = (LATEST_LEGACY, LATEST_MODERN)
TRANSPORTS = ("stdio", "http")
LEG_LIMIT = 300.0  # seconds for one run of the suite; it takes about twenty
LISTEN_LIMIT = 30.0  # seconds until a program listens
LOOK = 0.05  # seconds between two looks at whether it does


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


async def run_cell(cell: Cell, folder: Path, only: str | None = None) -> dict[str, suite.Outcome]:
    """Run one cell, with all that belongs to it in ``folder``, and return its outcomes by scenario.

    With ``only`` it is that scenario alone. Raises ``NeverListened`` and ``trio.TooSlowError``.
    """
    with trio.fail_after(LEG_LIMIT):
        if cell.transport == "stdio":
            return await _run(cell, folder, ["--", *_fixture(cell)], only)
        command = [*_fixture(cell), "--http", "127.0.0.1:0"]
        async with suite.started(command, folder / "fixture.log", stdout=-1) as fixture:
            return await _run(cell, folder, [await _first_line(fixture, folder / "fixture.log")], only)


def _fixture(cell: Cell) -> list[str]:
    return [sys.executable, "-m", "tests.conformance.fixture", cell.fixture]


async def _run(cell: Cell, folder: Path, upstream: list[str], only: str | None) -> dict[str, suite.Outcome]:
    port = _free_port()
    own = {f"XDG_{kind}_HOME": str(folder / "home") for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
    log = folder / "mcpx.log"
    command = [sys.executable, "-m", "mcpx", "serve", "--http", f"127.0.0.1:{port}", *upstream]
    async with suite.started(command, log, {**own, "HOME": str(folder / "home")}) as mcpx:
        await _listening(mcpx, port, log)
        selection = (
            ["--requirements", cell.requirements]
            if only is None
            else ["--scenario", only, "--spec-version", cell.requirements, "--force"]
        )
        arguments = ["server", "--url", f"http://127.0.0.1:{port}/mcp", *selection]
        await suite.run(arguments, folder)
    return suite.results(folder, "server-")


def _free_port() -> int:
    """A port that nobody listens on; mcpx binds it in a moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def _listening(process: trio.Process, port: int, log: Path) -> None:
    with trio.move_on_after(LISTEN_LIMIT):
        while process.poll() is None:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(LOOK)  # nothing else tells that it listens
                continue
            await stream.aclose()
            return
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
