"""A program that starts servers with a watcher, says who they are, and waits to be killed.

Arguments: the two waits, then one command per argument, as JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack

import trio

from mcpx.settings import Limits
from mcpx.transports.process import open_process
from mcpx.transports.watcher import open_watcher
from tests.process.children import ENV, hear


async def main() -> None:
    limits = Limits(stdin_grace=float(sys.argv[1]), term_grace=float(sys.argv[2]))
    async with AsyncExitStack() as stack:
        watcher = await stack.enter_async_context(open_watcher(limits))
        told: list[int] = []
        for command in sys.argv[3:]:
            server = await stack.enter_async_context(
                open_process(json.loads(command), name="it", env=ENV, cwd=None, limits=limits, watcher=watcher)
            )
            told += [server.pid, *(message["pid"] for message in await hear(server.channel))]
        assert watcher.pid is not None
        print(json.dumps({"watcher": watcher.pid, "pids": told}), flush=True)
        await trio.sleep_forever()


trio.run(main)
