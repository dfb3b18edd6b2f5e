"""A relay on Trio between its own pipes and those of a program: a chunk of lines at a time, one write for each.

python bare_stdio.py COMMAND ...
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import trio
from renumbering import Lines, Numbers  # beside this script

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 256 * 1024


async def pump(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, change: Callable[[bytes], bytes]) -> None:
    lines = Lines()
    async with sink:
        while chunk := await source.receive_some(CHUNK):
            if found := lines.feed(bytes(chunk)):
                await sink.send_all(b"\n".join([*map(change, found), b""]))


async def main(command: list[str]) -> None:
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    numbers = Numbers()
    stdin, stdout = (trio.lowlevel.FdStream(os.dup(number)) for number in (0, 1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, stdin, process.stdin, numbers.there)
        nursery.start_soon(pump, process.stdout, stdout, numbers.back)
    await process.wait()


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
