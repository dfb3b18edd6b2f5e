"""A program that serves frames on its stdin and stdout: echoes each, and prints where it should not.

Says on stderr, as one line of JSON each: what it finds while it serves, and what it finds afterwards. Ends at the end
of its stdin, or when it is sent ``"leave"``.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

import trio

from mcpx.settings import MiB
from mcpx.transports.stdio import open_stdio_channel


def tell(**what: object) -> None:
    if sys.__stderr__ is not None:
        os.write(2, json.dumps(what).encode() + b"\n")


async def main() -> None:
    async with open_stdio_channel(64 * MiB) as channel:
        print("stray")
        os.write(1, b"stray write\n")
        tell(stdin=os.read(0, 10).decode(), blocking=os.get_blocking(2))
        while lines := await channel.receive():
            for line in lines:
                assert isinstance(line, bytes)
                if line == b'"leave"':
                    return
                await channel.send(line)
    tell(blocking=[os.get_blocking(0), os.get_blocking(1)])


trio.run(main)
with suppress(BrokenPipeError):
    os.write(1, b"after\n")
