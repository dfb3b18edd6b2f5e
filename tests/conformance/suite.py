"""The official suite as a program: what its requirement sets name, and running it.

It is installed under ``.peers/`` from the ``package.json`` in this folder, which pins it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import trio

from tests.peers.environments import node, node_modules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST_LIMIT = 60  # seconds; it takes less than one
STOP_LIMIT = 10.0  # seconds until a program that was asked to end is killed


class Check(NamedTuple):
    """One check of a scenario: ``status`` is SUCCESS, FAILURE, WARNING, SKIPPED or INFO."""

    id: str
    name: str
    status: str
    message: str


class Outcome(NamedTuple):
    """What a scenario came to.

    A server that is not there fails no check of three scenarios, which then warn: so warnings are looked at as well.
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> int:
        return len(self.of("SUCCESS"))

    @property
    def failed(self) -> bool:
        """As the suite has it: one failed check fails the scenario. So does a scenario that came to nothing."""
        return bool(self.of("FAILURE")) or not self.checks

    def of(self, status: str) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status == status)


class Requirements(NamedTuple):
    """A requirement set: the scenarios of each leg that are scored, and those that are run for information."""

    server: tuple[str, ...]
    client: tuple[str, ...]
    server_unscored: tuple[str, ...]
    client_unscored: tuple[str, ...]


@cache
def program() -> tuple[str, ...]:
    """The command that starts the suite, installed if it is not there yet."""
    modules = node_modules("conformance", HERE)
    return str(node()), str(modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")


@cache
def requirements(revision: str) -> Requirements:
    """The requirement set of a revision, as the suite lists it."""
    command = [*program(), "list", "--requirements", revision]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIST_LIMIT).stdout
    scored: dict[str, list[str]] = {"Server": [], "Client": []}
    unscored: dict[str, list[str]] = {"server": [], "client": []}
    part = ""
    for line in listed.splitlines():
        if heading := re.match(r"(Server|Client) scenarios", line):
            part = heading[1]
        elif item := re.fullmatch(r" +- (\S+) \[(server|client)\]", line):
            unscored[item[2]].append(item[1])
        elif item := re.fullmatch(r" +- (\S+)", line):
            scored[part].append(item[1])
    return Requirements(
        tuple(scored["Server"]), tuple(scored["Client"]), tuple(unscored["server"]), tuple(unscored["client"])
    )


@asynccontextmanager
async def started(
    command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None, *, stdout: int | None = None
) -> AsyncIterator[trio.Process]:
    """A program that runs while entered; what it says goes to the file ``log``."""
    with _log(log) as file:
        process = await trio.lowlevel.open_process(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=file if stdout is None else stdout,
            stderr=file,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )
    try:
        yield process
    finally:
        with trio.CancelScope(shield=True):
            process.terminate()
            with trio.move_on_after(STOP_LIMIT):
                await process.wait()
            if process.poll() is None:
                process.kill()
                await process.wait()
            if process.stdout is not None:
                await process.stdout.aclose()


def _log(log: Path) -> IO[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("wb")


def last_words(log: Path) -> str:
    """The end of what a program said."""
    return log.read_text(errors="replace")[-2000:]


async def run(arguments: Iterable[str | Path], folder: Path) -> None:
    """Run the suite to its end, its results and what it says in ``folder``. Whether it passed is in the results."""
    async with started([*program(), *arguments, "-o", folder / "results"], folder / "suite.log") as process:
        await process.wait()


def results(folder: Path, prefix: str = "") -> dict[str, Outcome]:
    """The outcome of each scenario that was run into a folder, by its name."""
    found: dict[str, Outcome] = {}
    for file in sorted(folder.glob("results/**/checks.json")):
        made = str(file.parent.relative_to(folder / "results"))
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", made).removeprefix(prefix)
        found[name] = Outcome(tuple(map(_check, json.loads(file.read_bytes()))))
    return found


def _check(check: dict[str, Any]) -> Check:
    return Check(check["id"], check["name"], check["status"], check.get("errorMessage") or check["description"])
