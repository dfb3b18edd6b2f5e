"""What a process was given by the scheduler: processor time to the nanosecond, and how often it waited for something.

``process.cpu`` counts in hundredths of a second, which is too coarse for one that idles and for short measurements.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_WAITS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)


class Account(NamedTuple):
    """Up to now, or between two moments."""

    cpu: float  # seconds of processor time
    waits: int  # voluntary context switches: how often it had nothing to do and woke up again

    def since(self, before: Account) -> Account:
        return Account(self.cpu - before.cpu, self.waits - before.waits)


def account(pid: int) -> Account:
    """Of all threads that it has now; what one spent that has ended is not in it."""
    spent = waits = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            nanoseconds = int((task / "schedstat").read_text().split()[0])
            found = _WAITS.search((task / "status").read_text())
            spent += nanoseconds
            waits += int(found[1]) if found else 0
    return Account(spent / 1e9, waits)


def processor(pid: int) -> float:
    """The processor time alone, for meters."""
    return account(pid).cpu
