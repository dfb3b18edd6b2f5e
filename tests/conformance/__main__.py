"""``python -m tests.conformance``: run both legs of the suite through mcpx, and print a table of each.

What failed is told below each table in the suite's own words; ``docs/conformance.md`` says why.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import trio

from tests.conformance import client_leg, server_leg, suite
from tests.conformance.report import failures, mark, score, table


async def _server_leg(revision: str, folder: Path, verbose: bool) -> None:
    wanted = suite.requirements(revision)
    cells = [cell for cell in server_leg.CELLS if cell.requirements == revision]
    found: dict[server_leg.Cell, dict[str, suite.Outcome]] = {}
    for cell in cells:
        print(f"running {cell}", file=sys.stderr)
        found[cell] = await server_leg.run_cell(cell, folder / f"{cell.requirements}-{cell.fixture}-{cell.transport}")
    rows = {
        name + ("" if name in wanted.server else " (not scored)"): [mark(found[cell].get(name)) for cell in cells]
        for name in wanted.server + wanted.server_unscored
    }
    rows["scored scenarios that passed"] = [score(found[cell], wanted.server) for cell in cells]
    print(table(f"\nServer leg, requirements {revision}", [f"{cell.fixture} {cell.transport}" for cell in cells], rows))
    if verbose:
        for cell in cells:
            print(f"\n{cell}:\n{failures(found[cell])}")


async def _client_leg(revision: str, folder: Path, verbose: bool) -> None:
    wanted = suite.requirements(revision)
    found: dict[str, suite.Outcome] = {}
    for number, name in enumerate(client_leg.scenarios(revision)):
        print(f"running {name} at {revision}", file=sys.stderr)
        found[name] = await client_leg.run_scenario(name, revision, folder / f"client-{revision}-{number}")
    rows = {name + ("" if name in wanted.client else " (not scored)"): [mark(found[name])] for name in found}
    scored = [name for name in wanted.client if name in found]
    rows["scored scenarios that passed"] = [score(found, scored)]
    print(table(f"\nClient leg, requirements {revision}", [revision], rows))
    if verbose:
        print(failures(found))


async def _run(folder: Path, legs: list[str], verbose: bool) -> None:
    for revision in server_leg.REVISIONS:
        if "server" in legs:
            await _server_leg(revision, folder, verbose)
        if "client" in legs:
            await _client_leg(revision, folder, verbose)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--leg", choices=["server", "client"], action="append", help="this one only")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what the suite and the programs said")
    parser.add_argument("--quiet", action="store_true", help="the tables only, without what failed")
    arguments = parser.parse_args()
    legs = arguments.leg or ["server", "client"]
    with tempfile.TemporaryDirectory(prefix="mcpx-conformance-") as folder:
        trio.run(_run, arguments.keep or Path(folder), legs, not arguments.quiet)


if __name__ == "__main__":
    main()
