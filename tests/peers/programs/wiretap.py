"""Runs a server and writes down every line that passes: ``wiretap.py LOG COMMAND ARG ...``.

Each line of the log is ``{"at": seconds since the start, "to": "server" | "host", "frame": …}``; a line that is not
JSON stands there as a string.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO


def relay(source: IO[bytes], sink: IO[bytes], to: str) -> None:
    """Carry lines until ``source`` ends, then close ``sink``."""
    for line in source:
        try:
            frame = json.loads(line)
        except ValueError:
            frame = line.decode(errors="replace")
        entry = json.dumps({"at": round(time.monotonic() - START, 3), "to": to, "frame": frame})
        with LOCK, LOG.open("a") as log:
            log.write(entry + "\n")
        try:
            sink.write(line)
            sink.flush()
        except BrokenPipeError:
            return
    sink.close()


START = time.monotonic()
LOCK = threading.Lock()
LOG = Path(sys.argv[1])

if __name__ == "__main__":
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin
    assert server.stdout
    threading.Thread(target=relay, args=(sys.stdin.buffer, server.stdin, "server"), daemon=True).start()
    relay(server.stdout, sys.stdout.buffer, "host")
    sys.exit(server.wait())
