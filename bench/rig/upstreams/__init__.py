"""Servers that cost next to nothing, so that what is measured in front of them is not they.

They are scripts of the standard library alone, started as ``python -S -E SCRIPT``: importing them costs no more than
the interpreter itself. ``over_stdio.py`` serves one client on its pipes, ``over_http.py`` any number by HTTP. What both
answer is in ``answers.py``: the tools ``echo`` (its text), ``large`` (an image of 1 MB) and as many more as are asked
for, in one era.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rig.loads import Era

FOLDER = Path(__file__).resolve().parent
_STDIO = FOLDER / "over_stdio.py"
_HTTP = FOLDER / "over_http.py"


def stdio_command(era: Era, tools: int = 2) -> list[str]:
    """The command of a server on stdin and stdout, with so many tools in its list."""
    return [sys.executable, "-S", "-E", str(_STDIO), era, str(tools)]


def http_command(era: Era, tools: int = 2, *, events: bool = False) -> list[str]:
    """The command of one by HTTP, which says its port as a line on stdout and ends when its stdin does.

    With ``events`` it answers as a stream of events rather than in JSON.
    """
    return [sys.executable, "-S", "-E", str(_HTTP), era, str(tools), *(["events"] if events else [])]


def is_upstream(pid: int) -> bool:
    """Whether a process is one of these, or a launcher that has it for an argument and nothing else to do."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return len(words) > 3 and words[3] in (bytes(_STDIO), bytes(_HTTP))
