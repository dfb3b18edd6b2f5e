"""The moments of a shutdown, and the plan that cuts them to fit mcpx's own end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.transports.ladder import REAP_LIMIT, REAP_TIME, ExitPlan, plan_ladder


def test_without_an_end_the_waits_are_the_settings() -> None:
    assert plan_ladder(10.0, None, 2.0, 3.0) == (12.0, 15.0, 15.0 + REAP_LIMIT)


def test_an_end_far_enough_away_cuts_only_the_wait_for_the_kernel() -> None:
    assert plan_ladder(10.0, 15.5, 2.0, 3.0) == (12.0, 15.0, 15.5)
    assert plan_ladder(10.0, 99.0, 2.0, 3.0) == (12.0, 15.0, 15.0 + REAP_LIMIT)


@pytest.mark.parametrize(
    ("left", "for_stdin", "for_term"),
    [
        pytest.param(1.4, 1.05, 0.35, id="after EOF: a server that saves for a second may finish"),
        pytest.param(0.5, 0.375, 0.125, id="after a signal"),
        pytest.param(4.0, 2.0, 2.0, id="stdin has all it may, SIGTERM the rest"),
    ],
)
def test_a_nearer_end_is_shared_out(left: float, for_stdin: float, for_term: float) -> None:
    ladder = plan_ladder(100.0, 100.0 + left + REAP_TIME, 2.0, 3.0)
    assert ladder == pytest.approx((100 + for_stdin, 100 + for_stdin + for_term, 100 + left + REAP_TIME))


@pytest.mark.parametrize("end", [100.2, 100.0, 50.0])
def test_an_end_too_near_or_past_kills_at_once_and_still_reaps(end: float) -> None:
    assert plan_ladder(100.0, end, 2.0, 3.0) == pytest.approx((100.0, 100.0, 100.0 + REAP_TIME))


waits = st.floats(0, 1000)


@given(start=waits, after=st.none() | st.floats(-10, 3000), stdin_grace=waits, term_grace=waits)
def test_whatever_the_numbers_the_steps_are_in_order_within_their_settings_and_leave_time_to_reap(
    start: float, after: float | None, stdin_grace: float, term_grace: float
) -> None:
    end = None if after is None else start + after
    term_at, kill_at, end_at = plan_ladder(start, end, stdin_grace, term_grace)
    slack = 1e-6
    assert start <= term_at + slack
    assert term_at <= kill_at + slack
    assert term_at - start <= stdin_grace + slack
    assert kill_at - term_at <= term_grace + slack
    assert end_at - kill_at >= REAP_TIME - slack
    if end is not None:
        assert end_at <= max(end, start + REAP_TIME) + slack


def test_setting_the_end_reaches_those_who_follow_the_plan_and_only_them() -> None:
    plan = ExitPlan()
    seen: list[tuple[str, float | None]] = []
    with plan.followed(lambda: seen.append(("outer", plan.end))):
        with plan.followed(lambda: seen.append(("inner", plan.end))):
            plan.end = 5.0
        plan.end = 4.0
    plan.end = 3.0
    assert seen == [("outer", None), ("inner", None), ("outer", 5.0), ("inner", 5.0), ("outer", 4.0)]
