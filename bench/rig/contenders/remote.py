"""A contender in a program of its own, which times itself: driven over a pipe, so that its rounds are among all others.

Each side says one JSON object a line. The program begins with what it is; then it answers one question at a time:

====================================================================== ======================================
``{"version": "2.3.0", "jobs": ["rewrite", "full"]}``                  said first, unasked
``{"do": "take", "sample": NAME, "holds": HOLDS, "stream": TEXT}``     ``{}``: it has kept the frame
``{"do": "once", "job": JOB, "sample": NAME}``                         ``{"envelope": [KIND, ID, METHOD]}`` or
                                                                       ``{"line": TEXT}``
``{"do": "time", "job": JOB, "sample": NAME, "repetitions": COUNT}``   ``{"seconds": SECONDS}``
====================================================================== ======================================
"""

from __future__ import annotations

import json
import os
import select
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rig.process import running

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Generator, Sequence

    from rig.contenders.contender import Outcome, Timer
    from rig.samples import Sample

ANSWER_LIMIT = 60.0  # seconds for one answer; a start takes two, a measurement hundredths of one


class ContenderFailed(Exception):
    """A program ended, or did not answer. What it said about that is on stderr, which it shares with us."""


@contextmanager
def open_remote(name: str, command: Sequence[str]) -> Generator[Remote]:
    """Start a contender's program; it is ended when the block is left."""
    with running(command) as process:
        yield Remote(name, process)


class Remote:
    """The contender, as the others see it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.name = name
        self._questions, self._answers = process.stdin, process.stdout
        self._received = bytearray()
        self._taken: set[str] = set()
        hello = self._answer()
        self.version: str = hello["version"]
        self.jobs: list[str] = hello["jobs"]

    def once(self, job: str, sample: Sample) -> Outcome:
        self._take(sample)
        answer = self._ask(do="once", job=job, sample=sample.name)
        if "line" in answer:
            return answer["line"].encode()
        kind, id, method = answer["envelope"]
        return kind, id, method

    def timer(self, job: str, sample: Sample) -> Timer:
        self._take(sample)

        def run(repetitions: int) -> float:
            return self._ask(do="time", job=job, sample=sample.name, repetitions=repetitions)["seconds"]

        return run

    def _take(self, sample: Sample) -> None:
        if sample.name not in self._taken:
            self._ask(do="take", sample=sample.name, holds=sample.holds, stream=sample.stream.decode())
            self._taken.add(sample.name)

    def _ask(self, **question: Any) -> dict[str, Any]:
        try:
            self._questions.write(json.dumps(question).encode() + b"\n")
            self._questions.flush()
        except BrokenPipeError:
            raise ContenderFailed(f"{self.name} has ended") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """The next line. The descriptor is read past its buffer, so that the wait for it can be bounded."""
        deadline = time.monotonic() + ANSWER_LIMIT
        descriptor = self._answers.fileno()
        while not self._received.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ContenderFailed(f"{self.name} has not answered for {ANSWER_LIMIT:.0f} s")
            data = os.read(descriptor, 1 << 20)
            if not data:
                raise ContenderFailed(f"{self.name} has ended")
            self._received += data
        line, self._received = self._received, bytearray()
        return json.loads(line)
