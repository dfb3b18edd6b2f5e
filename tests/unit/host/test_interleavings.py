"""Requests, cancellations and answers in any order: each request is answered once, a cancelled one never."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.host.talk import FakeCall, FakeGateway, open_talk

IDS = (0, 1, "1", "a", "b")
LIMIT = 3  # fewer than there are ids

steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from(IDS)),
        st.tuples(st.just("cancel"), st.sampled_from(IDS)),
        st.tuples(st.just("answer"), st.sampled_from(IDS)),
        st.tuples(st.just("fail"), st.sampled_from(IDS)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.booleans())
def test_each_request_is_answered_once_and_a_cancelled_one_never(steps: list[tuple[str, Any]], begins: bool) -> None:
    trio.run(play, steps, begins)


async def play(steps: list[tuple[str, Any]], begins: bool) -> None:
    gateway = FakeGateway(max_in_flight=LIMIT)
    gateway.begins = begins
    in_flight: dict[Any, FakeCall] = {}
    expected: list[tuple[Any, int | None]] = []  # id and error code of every answer
    async with open_talk(gateway) as talk:
        for step, id in steps:
            call = in_flight.get(id)
            if step == "call":
                await talk.call(id)
            elif step == "cancel":
                await talk.notify("notifications/cancelled", {"requestId": id})
            elif call is not None:
                if step == "answer":
                    call.reply()
                else:
                    call.put(ValueError("a bug"))
            await trio.testing.wait_all_tasks_blocked()
            if step == "call" and call is not None:
                expected.append((id, -32600))
            elif step == "call" and len(in_flight) == LIMIT:
                expected.append((id, -32603))
            elif step == "call":
                in_flight[id] = gateway.calls[-1]
                assert in_flight[id].state == "open"
            elif call is not None:
                del in_flight[id]
                assert call.state == ("cancelled" if step == "cancel" else "done")
                if step != "cancel":
                    expected.append((id, None if step == "answer" else -32603))
        heard = [(frame["id"], frame.get("error", {}).get("code")) for frame in await talk.hear_all()]
        assert heard == expected
        for call in in_flight.values():
            call.reply()
        assert {frame["id"] for frame in await talk.hear_all()} == set(in_flight)
