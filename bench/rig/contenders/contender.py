"""What a contender is, and the jobs it does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from rig.samples import Sample

NEW_ID = 4711
PREFIX = "files__"  # what a gateway puts before the names of one server's tools

JOBS = {
    "envelope": "find the line, say its kind, id and method",
    "rewrite": "the same, then another id, other names, and out as a line",
    "full": "decode all of it, another id, and out as a line",
}

Envelope = tuple[str, Any, Any]  # kind, id, method
Outcome = Envelope | bytes  # the bytes are a line, newline included
Worker = Callable[[bytes], Any]  # one frame's bytes in, its outcome out
Timer = Callable[[int], float]  # repetitions in, seconds out


class Contender(Protocol):
    """Someone who does the jobs. One that lives in another process times itself there and returns the seconds."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def jobs(self) -> Container[str]:
        """Those of ``JOBS`` that it has a way of its own to do."""
        ...

    def once(self, job: str, sample: Sample) -> Outcome:
        """What comes out, for comparison with the others."""
        ...

    def timer(self, job: str, sample: Sample) -> Timer: ...


class InProcess:
    """A contender in this process: a function for each job, which makes the worker for a sample."""

    def __init__(self, name: str, version: str, jobs: Mapping[str, Callable[[Sample], Worker]]) -> None:
        self.name = name
        self.version = version
        self.jobs = jobs

    def once(self, job: str, sample: Sample) -> Outcome:
        return self.jobs[job](sample)(sample.stream)

    def timer(self, job: str, sample: Sample) -> Timer:
        work, stream = self.jobs[job](sample), sample.stream

        def run(repetitions: int) -> float:
            start = time.perf_counter()
            for _ in itertools.repeat(None, repetitions):
                work(stream)
            return time.perf_counter() - start

        return run
