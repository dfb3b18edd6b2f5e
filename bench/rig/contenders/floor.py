"""The floor: the same bytes split on newlines, for each job alike. It does none of them; it is what cannot be saved."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from rig.contenders.contender import JOBS, InProcess

if TYPE_CHECKING:
    from rig.contenders.contender import Worker
    from rig.samples import Sample


def floor() -> InProcess:
    return InProcess("split", platform.python_version(), dict.fromkeys(JOBS, _split))


def _split(_: Sample) -> Worker:
    return lambda stream: stream.split(b"\n")
