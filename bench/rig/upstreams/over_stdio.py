"""A minimal MCP server on stdin and stdout: an answer is written as soon as it is made, as any server does.

python -S -E over_stdio.py legacy|modern TOOLS
"""

from __future__ import annotations

import os
import sys

from answers import Answers  # beside this script

CHUNK = 256 * 1024


def serve(server: Answers) -> None:
    rest = b""
    while data := os.read(0, CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if (answer := server.answer(line)) is not None:
                out = memoryview(answer)
                while out:
                    out = out[os.write(1, out) :]


if __name__ == "__main__":
    serve(Answers(sys.argv[1], int(sys.argv[2])))
