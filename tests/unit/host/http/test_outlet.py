"""The streams of a legacy session: who sees what, and what is kept of it for how long."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from mcpx.host.http.outlet import MAX_UNSEEN, Outlet, Replay, View, parse_event_id
from mcpx.wire.sse import SseDecoder
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.host.http.outlet import Said

KEPT = 1000.0
MANY = 1 << 20


def replay(max_bytes: int = MANY, max_time: float = KEPT) -> Replay:
    return Replay(max_bytes, max_time)


def words(news: Sequence[Said] | None) -> list[str]:
    return [said.message.decode() for said in news or ()]


def seen(outlet: Outlet, after: int | None = None) -> list[str]:
    """What a view is shown at once."""
    with outlet.view(after) as view:
        return words(outlet.take(view))


async def say(outlet: Outlet, *messages: str) -> None:
    for message in messages:
        await outlet.send(message.encode())


async def follow(view: View, into: list[str]) -> None:
    while news := await view.next():
        into += words(news)
    into.append("end")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-0", (0, 0)),
        ("12-345", (12, 345)),
        ("", None),
        ("1", None),
        ("-", None),
        ("1-", None),
        ("-1", None),
        ("1-2-3", None),
        ("1--2", None),
        ("+1-2", None),
        (" 1-2", None),
        ("1_0-2", None),
        ("²-1", None),
        ("١-1", None),
        ("9" * 5000 + "-1", None),
        ("1-" + "9" * 5000, None),
        ("\0", None),
    ],
)
def test_event_ids_are_those_that_were_given_out(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_event_id(text) == expected


async def test_events_carry_their_stream_and_their_number() -> None:
    outlet = Outlet(replay(), 7)
    with outlet.view() as view:
        outlet.begin()
        await say(outlet, '{"a":1}', '{"b":\n2}')
        data = outlet.bookmark(0) + b"".join(said.event for said in outlet.take(view) or ())
    first, one, two = SseDecoder(MANY).feed(data)
    assert (first.id, first.data, first.retry) == ("7-0", b"", 1000)
    assert [(one.id, one.data), (two.id, two.data)] == [("7-1", b'{"a":1}'), ("7-2", b'{"b":2}')]


@in_virtual_time
async def test_a_view_sees_what_comes_and_the_end() -> None:
    outlet, got = Outlet(replay(), 1), []
    async with trio.open_nursery() as nursery:
        with outlet.view() as view:
            nursery.start_soon(follow, view, got)
            await settled()
            await say(outlet, "a", "b")
            await settled()
            await say(outlet, "c")
            outlet.finish(b"last")
            await settled()
            assert got == ["a", "b", "c", "last", "end"]
    assert outlet.is_spent  # nothing went out as a stream, so nobody comes back


async def test_a_view_of_a_stream_that_has_ended_sees_what_is_left_and_the_end() -> None:
    outlet = Outlet(replay(), 1)
    with outlet.view():
        outlet.begin()
        await say(outlet, "a")
        outlet.finish(b"last")
    assert seen(outlet) == ["a", "last"]
    assert seen(outlet) == []  # all of it has been seen
    assert seen(outlet, 1) == ["last"]
    with outlet.view(2) as view:
        assert await view.next() == []
    assert not outlet.is_spent


async def test_nothing_is_kept_that_nobody_could_come_back_for() -> None:
    outlet = Outlet(replay(), 1)
    await say(outlet, "before any view")
    with outlet.view() as view:
        await say(outlet, "a")
        assert words(outlet.take(view)) == ["a"]
    await say(outlet, "b")
    outlet.finish(b"last")
    assert outlet.is_spent
    assert seen(outlet, 0) == []


async def test_an_answer_that_was_given_is_let_go_at_once_and_not_by_the_collector() -> None:
    gone: list[bool] = []
    gc.disable()
    try:
        outlet = Outlet(replay(), 1)
        with outlet.view() as view:
            outlet.finish(b"an answer")
            weakref.finalize(outlet, gone.append, True)
            assert words(outlet.take(view)) == ["an answer"]
        del outlet, view
        assert gone == [True]
    finally:
        gc.enable()


async def test_nothing_is_said_behind_the_end() -> None:
    outlet = Outlet(replay(), 1, standing=True)
    outlet.finish(None)
    outlet.finish(b"again")
    await say(outlet, "more")
    await outlet.flush()
    assert seen(outlet, 0) == []


async def test_a_place_behind_the_last_message_is_behind_the_last_message() -> None:
    """However far behind: what comes is seen by who names a number that was never given out."""
    outlet = Outlet(replay(), 0, standing=True)
    outlet.begin()
    with outlet.view(10**30) as view:
        await say(outlet, "a")
        assert words(outlet.take(view)) == ["a"]


# -- several views


@in_virtual_time
async def test_each_message_goes_to_the_newest_view_alone_and_an_older_one_takes_over() -> None:
    outlet = Outlet(replay(), 0, standing=True)
    old: list[str] = []
    new: list[str] = []
    async with trio.open_nursery() as nursery:
        with outlet.view() as view:
            nursery.start_soon(follow, view, old)
            await settled()
            await say(outlet, "a")
            await settled()
            with outlet.view() as newer, trio.CancelScope() as gone:
                nursery.start_soon(follow, newer, new)
                await settled()
                await say(outlet, "b", "c")
                await settled()
                gone.cancel()
            await say(outlet, "d")
            await settled()
            assert (old, new) == (["a", "d"], ["b", "c"])
            nursery.cancel_scope.cancel()


@in_virtual_time
async def test_what_the_newest_view_did_not_take_goes_to_the_older_one() -> None:
    outlet, old = Outlet(replay(), 0, standing=True), []
    async with trio.open_nursery() as nursery:
        with outlet.view() as view:
            nursery.start_soon(follow, view, old)
            await settled()
            with outlet.view():  # does not come to look
                await say(outlet, "a")
                await settled()
                assert old == []
            await settled()
            assert old == ["a"]
            nursery.cancel_scope.cancel()


async def test_an_older_view_of_an_answer_ends_without_it() -> None:
    outlet = Outlet(replay(), 1)
    with outlet.view() as older, outlet.view(0) as newer:
        outlet.finish(b"last")
        assert outlet.take(older) == []
        assert words(outlet.take(newer)) == ["last"]
        assert outlet.take(newer) == []


# -- who is behind


@in_virtual_time
async def test_who_says_more_waits_for_a_client_that_is_behind_and_not_for_one_that_has_gone() -> None:
    outlet, sent = Outlet(replay(), 1), []
    message = "x" * (MAX_UNSEEN // 4)

    async def much() -> None:
        for number in range(100):
            await say(outlet, message)
            sent.append(number)

    async with trio.open_nursery() as nursery:
        with outlet.view() as view:
            nursery.start_soon(much)
            await settled()
            assert len(sent) == 5
            assert len(await view.next()) == 5
            await settled()
            assert len(sent) == 10
        await settled()
        assert len(sent) == 100


@in_virtual_time
async def test_flush_waits_until_all_was_seen_or_none_ever_will_be() -> None:
    outlet, flushed = Outlet(replay(), 0, standing=True), []

    async def flush() -> None:
        await outlet.flush()
        flushed.append(1)

    async with trio.open_nursery() as nursery:
        await outlet.flush()
        await say(outlet, "a")
        nursery.start_soon(flush)
        await settled()
        assert not flushed
        assert seen(outlet) == ["a"]
        await settled()
        assert flushed == [1]
        await say(outlet, "b")
        nursery.start_soon(flush)
        await settled()
        outlet.finish(None)
        await settled()
        assert flushed == [1, 1]


# -- what is kept


async def _stream(kept: Replay, number: int, *messages: str) -> Outlet:
    """A stream that its client has seen, and is no more."""
    outlet = Outlet(kept, number)
    with outlet.view() as view:
        outlet.begin()
        await say(outlet, *messages)
        outlet.take(view)
    return outlet


async def test_the_oldest_goes_for_the_newest_over_all_streams() -> None:
    kept = replay(max_bytes=10)
    one = await _stream(kept, 1, "aaaa", "bbbb")
    two = await _stream(kept, 2, "cccc")
    assert (seen(one, 0), seen(two, 0)) == (["bbbb"], ["cccc"])
    three = await _stream(kept, 3, "d" * 11)
    assert [seen(each, 0) for each in (one, two, three)] == [[], [], []]


@in_virtual_time
async def test_each_is_kept_for_its_time() -> None:
    kept = replay(max_time=10)
    outlet = await _stream(kept, 1, "a")
    await trio.sleep(6)
    outlet.finish(b"b")
    kept.trim()
    assert seen(outlet, 0) == ["a", "b"]
    await trio.sleep(5)
    kept.trim()
    assert seen(outlet, 0) == ["b"]
    assert not outlet.is_spent
    await trio.sleep(6)
    kept.trim()
    assert outlet.is_spent


async def _much(kept: Replay) -> None:
    """A thousand streams that are over."""
    for number in range(1, 1000):
        await _stream(kept, number, "x" * 10)


@in_virtual_time
async def test_what_waits_for_a_client_to_come_keeps_nothing_else_from_going() -> None:
    kept = replay(max_bytes=100)
    unasked = Outlet(kept, 0, standing=True)
    unasked.begin()
    assert seen(unasked) == []
    await say(unasked, "held")
    await _much(kept)
    assert len(kept._kept) == 10
    await trio.sleep(10 * KEPT)
    kept.trim()
    assert seen(unasked) == ["held"]


async def test_what_waits_for_a_client_to_read_keeps_nothing_else_from_going() -> None:
    kept = replay(max_bytes=100)
    slow = Outlet(kept, 0)
    with slow.view() as view:
        slow.begin()
        await say(slow, "held")
        await _much(kept)
        assert len(kept._kept) == 10
        assert words(slow.take(view)) == ["held"]


async def test_what_was_said_while_nobody_looked_is_bounded_and_can_be_had() -> None:
    kept = replay(max_bytes=30)
    outlet = Outlet(kept, 1)
    with outlet.view():
        outlet.begin()
    for number in range(100):
        await say(outlet, f"{number:03}")
    outlet.finish(b"end")
    assert seen(outlet, 0) == [*(f"{number:03}" for number in range(91, 100)), "end"]


async def test_what_a_client_left_unseen_is_kept_for_it() -> None:
    kept = replay(max_bytes=8)
    outlet = Outlet(kept, 1)
    with outlet.view() as view:
        outlet.begin()
        await say(outlet, "aaaa")
        outlet.take(view)
        await say(outlet, "bbbb", "cccc")
    assert seen(outlet) == ["bbbb", "cccc"]
    assert seen(outlet, 0) == ["bbbb", "cccc"]


async def test_what_an_answer_in_json_leaves_out_is_not_kept() -> None:
    outlet = Outlet(replay(), 1)
    with outlet.view() as view:
        for number in range(100):
            await say(outlet, str(number))
            assert words(outlet.take(view)) == [str(number)]
        assert len(outlet._said) == 1
        outlet.begin()  # and from then on all is
        await say(outlet, "a", "b")
        outlet.take(view)
    assert seen(outlet, 0) == ["99", "a", "b"]


async def test_without_a_replay_nothing_is_kept_and_all_is_seen() -> None:
    outlet = Outlet(replay(max_bytes=0), 1)
    with outlet.view() as view:
        outlet.begin()
        await say(outlet, "a", "b")
        assert words(outlet.take(view)) == ["a", "b"]
        outlet.finish(b"c")
        assert words(outlet.take(view)) == ["c"]
    assert outlet.is_spent


async def test_saying_one_more_costs_the_same_however_much_is_kept() -> None:
    """The work for each message is counted in looks at what is kept, and not timed."""
    kept = replay(max_bytes=1 << 30)
    outlet = Outlet(kept, 1)
    outlet.begin()
    looks = 0

    class Counted(type(outlet._said)):
        def __iter__(self) -> object:
            nonlocal looks
            looks += len(self)
            return super().__iter__()

        def __getitem__(self, at: object) -> object:
            nonlocal looks
            looks += 1
            return super().__getitem__(at)  # type: ignore[call-overload]

    outlet._said = Counted()
    with outlet.view() as view:
        for _ in range(10_000):
            await say(outlet, "x")
            outlet.take(view)
    assert looks <= 10 * 10_000
