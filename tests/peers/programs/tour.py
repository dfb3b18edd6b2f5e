"""What the Python clients share: their arguments, the record they wait on, and the one line they report."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio

PATIENCE = 20.0  # seconds; a client that waits longer for a server's record has failed


class Plan:
    """The first argument, ``{"mode": …, "tool": prefix, "uri": prefix, "visit": [[kind, …], …]}``.

    The command of the server follows it. With ``visit`` a client lists everything and makes these calls, instead of the
    tour.
    """

    def __init__(self, arguments: list[str]) -> None:
        plan = json.loads(arguments[0])
        self.mode: str = plan["mode"]
        self.visit: list[Any] | None = plan.get("visit")
        self.command, *self.args = arguments[1:]
        self._tool: str = plan.get("tool", "")
        self._uri: str = plan.get("uri", "")
        self.env = dict(os.environ)  # the SDK itself would hand on a few variables only

    def named(self, name: str) -> str:
        """A tool or prompt as this client must name it."""
        return self._tool + name

    def uri(self, uri: str) -> str:
        """A resource or template as this client must name it."""
        return self._uri + uri


async def recorded(word: str) -> None:
    """Return once the server has written ``word`` into the file that ``PEER_RECORD`` names."""
    path = Path(os.environ["PEER_RECORD"])
    with anyio.fail_after(PATIENCE):
        # A file of another process has nothing to wait on but looking again.
        while not any(line.startswith(word) for line in path.read_text().splitlines()):  # noqa: ASYNC110, ASYNC240
            await anyio.sleep(0.01)


def block_text(result: Any) -> str:
    """The text of a result whose content is one text block."""
    (block,) = result.content
    return block.text


class Stopwatch:
    """Measures the closing of a connection, which the host's own patience bounds."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def read(self) -> float:
        return round(time.monotonic() - self._start, 3)


def report(**findings: Any) -> None:
    """Print the one line."""
    print(json.dumps(findings), flush=True)


def plan() -> Plan:
    """The plan of this run."""
    return Plan(sys.argv[1:])
