"""What a Python peer server shares with its siblings: the start delay and the record of what befell it."""

from __future__ import annotations

import os
import time
from pathlib import Path

ASKS = bool(os.environ.get("PEER_ASKS"))  # whether the server offers the tools that ask its host something
NAMES = ("Ada", "Alan", "Barbara", "Grace")
TOPICS = ("pipes", "probes", "prompts")


def note(line: str) -> None:
    """Append a line to the file that ``PEER_RECORD`` names, if it names one."""
    path = os.environ.get("PEER_RECORD")
    if path:
        with Path(path).open("a") as file:
            file.write(f"{line} {os.getpid()}\n")


def begin() -> None:
    """Record the start, then wait as long as ``START_DELAY`` says, as a server does that loads slowly."""
    note("started")
    time.sleep(float(os.environ.get("START_DELAY", "0")))


def matching(known: tuple[str, ...], typed: str) -> list[str]:
    """The completions of ``typed``."""
    return [value for value in known if value.lower().startswith(typed.lower())]
