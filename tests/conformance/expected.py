"""What does not pass, and why. ``docs/conformance.md`` is made from this, and the tests hold every run against it.

What is not in here passes, without a warning and without a check that was skipped. A check that no longer does so, and
one that does so from now on, fails the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN

if TYPE_CHECKING:
    from tests.conformance.server_leg import Cell

CAUSES: dict[str, str] = {
    "keys": (
        "The scenario knows a question by the key that its own fixture gives it, and answers under that. A legacy "
        "server sends its questions as requests, which have no such key, so mcpx makes one."
    ),
    "unsayable": (
        "A legacy server has no error that says which capability it misses in its host, so there is none for mcpx to "
        "pass on: the revision of the server cannot say what the revision of the host asks for."
    ),
    "handshake": "The modern era has no handshake, whose two messages the suite would look at as well.",
    "tasks": "The tasks extension is served by neither mcpx nor the server behind it.",
    "front": "`Host` and `Origin` are looked at by what stands in front of a server, which the fixture is not.",
}

ANY = "any"  # of the checks of a scenario: for those whose checks say nothing one by one


class Short(NamedTuple):
    """A scenario of which something does not pass: which checks fail, warn or are skipped, and where that is.

    A check that is made several times is named as often as it does not pass.
    """

    scenario: str
    cause: str  # a key of ``CAUSES``
    failing: tuple[str, ...] = ()
    warning: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    fixture: str | None = None  # of the server leg: behind a server of this revision; ``None``: of either
    transport: str | None = None

    def at(self, cell: Cell) -> bool:
        """Whether it is to be seen in a cell of the server leg."""
        return self.fixture in (None, cell.fixture) and self.transport in (None, cell.transport)


_TASKS = (
    *(
        Short(f"tasks-{name}", "tasks", failing=(ANY,))
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
    ),
    Short("tasks-status-notifications", "tasks", skipped=(ANY,)),
)

_MODERN_SERVER_LEG = (
    Short(
        "server-stateless",
        "unsayable",
        ("sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"),
        fixture=LATEST_LEGACY,
    ),
    Short(
        "input-required-result-basic-elicitation",
        "keys",
        ("sep-2322-elicitation-incomplete",),
        fixture=LATEST_LEGACY,
    ),
    Short(
        "input-required-result-ignore-extra-params",
        "keys",
        warning=("sep-2322-ignore-unexpected-params",),
        fixture=LATEST_LEGACY,
    ),
    *_TASKS,
)

SERVER_LEG: dict[str, tuple[Short, ...]] = {LATEST_LEGACY: (), LATEST_MODERN: _MODERN_SERVER_LEG}
CLIENT_LEG: dict[str, tuple[Short, ...]] = {
    LATEST_LEGACY: (),
    LATEST_MODERN: (
        Short("http-standard-headers", "handshake", skipped=2 * ("sep-2243-client-includes-standard-headers",)),
    ),
}

# In front of the fixture itself.
_FRONT = Short("dns-rebinding-protection", "front", ("localhost-host-rebinding-rejected",))
DIRECTLY: dict[str, tuple[Short, ...]] = {LATEST_LEGACY: (_FRONT,), LATEST_MODERN: (_FRONT, *_TASKS)}


def in_cell(cell: Cell) -> tuple[Short, ...]:
    """What does not pass in a cell of the server leg."""
    return tuple(short for short in SERVER_LEG[cell.requirements] if short.at(cell))
