"""The framing benchmark measures only those who do the job, and long enough."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import framing
import pytest
from rig.contenders.contender import JOBS, InProcess
from rig.contenders.limit import limit
from rig.contenders.ours import ours
from rig.contenders.plain import standard_library, with_orjson
from rig.contenders.remote import ContenderFailed, open_remote
from rig.samples import Sample, samples

if TYPE_CHECKING:
    from collections.abc import Callable

BUDGET = 0.01

# A program that says what it is, and then the same whatever it is asked.
PARROT = """
import json, sys
print(json.dumps({"version": "1", "jobs": ["envelope"]}), flush=True)
for line in sys.stdin:
    print(sys.argv[1], flush=True)
"""


def orjson() -> InProcess:
    pytest.importorskip("orjson")
    return with_orjson()


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("contender", [ours, standard_library, orjson, limit])
def test_everyone_does_the_jobs(contender: Callable[[], InProcess], job: str, sample: Sample) -> None:
    framing.check(contender(), job, sample)


def test_the_frames_are_as_large_as_they_are_called() -> None:
    assert [len(sample.stream) for sample in samples()] == [200, 200, 2048, 100 * 1024, 1024 * 1024]
    assert [sample.stream.count(b"\n") for sample in samples()] == [1] * 5


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        ("envelope", ("request", 18, "tools/call")),
        ("envelope", ("result", 17, "tools/call")),
        ("full", b'{"jsonrpc":"2.0"}\n'),
        ("full", b"{}"),
        ("full", b"{}\n{}\n"),
    ],
)
def test_who_does_another_job_is_not_measured(job: str, outcome: Any) -> None:
    other = InProcess("other", "1", {job: lambda _: lambda _: outcome})
    with pytest.raises(framing.Disagreement):
        framing.check(other, job, samples()[0])


@pytest.mark.parametrize("each", [1e-7, 3e-4, 0.009, 0.5])
def test_a_measurement_fills_its_budget(each: float) -> None:
    def timer(repetitions: int) -> float:
        done.append(repetitions)
        return each * repetitions

    done: list[int] = []
    count = framing.repetitions(timer, BUDGET)
    assert count == max(1, round(BUDGET / each))
    assert sum(done) * each >= framing.WARM_UP * BUDGET
    assert max(done) * each <= max(BUDGET, each)


def test_who_is_too_fast_for_the_clock_is_done_more_often() -> None:
    assert framing.repetitions(lambda count: max(0.0, count - 1000) * 1e-6, BUDGET) > 1000


def test_another_program_is_asked_over_a_pipe() -> None:
    answer = '{"envelope": ["request", 17, "tools/call"], "seconds": 0.25}'
    with open_remote("parrot", [sys.executable, "-c", PARROT, answer]) as contender:
        assert (contender.version, contender.jobs) == ("1", ["envelope"])
        framing.check(contender, "envelope", samples()[0])
        assert contender.timer("envelope", samples()[0])(3) == 0.25


def test_another_program_that_ends_is_an_error() -> None:
    with pytest.raises(ContenderFailed, match="quitter has ended"), open_remote("quitter", [sys.executable, "-c", ""]):
        pass
