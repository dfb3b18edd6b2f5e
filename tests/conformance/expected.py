"""What does not pass, and why. ``docs/conformance.md`` is made from this, and the tests hold every run against it.

What is not in here passes without a warning. A check that begins to fail, and one that no longer does, fails the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN

if TYPE_CHECKING:
    from tests.conformance.server_leg import Cell

CAUSES: dict[str, str] = {
    "front": "What stands in front of a server looks at `Host` and `Origin`, which the fixture does not by itself.",
    "tasks": "The tasks extension is served by neither mcpx nor the fixture.",
}

ANY = "any"  # of the checks of a scenario: for those whose failing checks say nothing one by one


class Short(NamedTuple):
    """A scenario of which something does not pass: which checks fail and which warn, and where that is."""

    scenario: str
    cause: str  # a key of ``CAUSES``
    failing: tuple[str, ...] = ()
    warning: tuple[str, ...] = ()
    fixture: str | None = None  # of the server leg: behind a server of this revision; ``None``: of either
    transport: str | None = None

    def at(self, cell: Cell) -> bool:
        """Whether it is to be seen in a cell of the server leg."""
        return self.fixture in (None, cell.fixture) and self.transport in (None, cell.transport)


_TASKS = tuple(
    Short(f"tasks-{name}", "tasks", (ANY,))
    for name in (
        "lifecycle",
        "capability-negotiation",
        "wire-fields",
        "request-state-removal",
        "mrtr-input",
        "request-headers",
        "dispatch-and-envelope",
        "required-task-error",
        "mrtr-composition",
    )
)
SERVER_LEG: dict[str, tuple[Short, ...]] = {LATEST_LEGACY: (), LATEST_MODERN: ()}
CLIENT_LEG: dict[str, tuple[Short, ...]] = {LATEST_LEGACY: (), LATEST_MODERN: ()}


# In front of the fixture itself.
_FRONT = Short("dns-rebinding-protection", "front", ("localhost-host-rebinding-rejected",))
DIRECTLY: dict[str, tuple[Short, ...]] = {LATEST_LEGACY: (_FRONT,), LATEST_MODERN: (_FRONT, *_TASKS)}


def in_cell(cell: Cell) -> tuple[Short, ...]:
    """What does not pass in a cell of the server leg."""
    return tuple(short for short in SERVER_LEG[cell.requirements] if short.at(cell))
