"""All tools that a server lists, page after page."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from rig.loads import WrongAnswerError
from rig.loads.words import result_of

if TYPE_CHECKING:
    from rig.loads import Load

_FIRST = 10_000  # ids begin here, below those that a load gives out itself


def listed(load: Load, tools: int) -> float:
    """Ask for all pages; the seconds that it took until all were there. Refuses any other number of tools."""
    names: set[str] = set()
    taken = 0.0
    frame = json.loads(load.host.listing(_FIRST))
    while True:
        message = load.message(json.dumps(frame).encode())
        before = time.perf_counter()
        heard = load.ask(message)
        taken += time.perf_counter() - before
        result = result_of(load.payload(heard))
        names.update(tool["name"] for tool in result["tools"])
        if "nextCursor" not in result:
            break
        frame["id"] += 1
        frame["params"]["cursor"] = result["nextCursor"]
    if len(names) != tools:
        raise WrongAnswerError(f"{len(names)} tools are listed, not {tools}")
    return taken
