"""The client leg: mcpx's upstream side, driven by ``driver.py``, against the suite's own servers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import trio

from tests.conformance import suite

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO_LIMIT = 60.0  # seconds; the suite gives a client thirty
AUTHORIZATION = "auth/"  # what these scenarios begin with


def scenarios(revision: str) -> tuple[str, ...]:
    """The scenarios of a requirement set that are run: all but those about authorization."""
    wanted = suite.requirements(revision)
    return tuple(name for name in wanted.client + wanted.client_unscored if not name.startswith(AUTHORIZATION))


async def run_scenario(scenario: str, revision: str, folder: Path) -> suite.Outcome:
    """Run one scenario at the wire of a revision, with all that belongs to it in ``folder``.

    One after the other, because some measure time. Raises ``trio.TooSlowError``.
    """
    driver = f"{sys.executable} -m tests.conformance.driver"
    # --force: that the scenario belongs to the revision is what its requirement set says.
    arguments = ["client", "--command", driver, "--scenario", scenario, "--spec-version", revision, "--force"]
    with trio.fail_after(SCENARIO_LIMIT):
        await suite.run(arguments, folder)
    return suite.results(folder).get(scenario, suite.Outcome(()))
