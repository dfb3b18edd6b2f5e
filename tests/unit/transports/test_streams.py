"""Lines over byte streams: how they are read, how they are written, and how the channel ends."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcpx.settings import MiB
from mcpx.transports.channel import Oversize
from mcpx.transports.streams import FLUSH_LIMIT, PORTION, READ_MAX, READ_MIN, WRITE_BATCH, open_line_channel
from tests.support.running import in_virtual_time
from tests.unit.transports.doubles import GatedSend, ScriptedReceive

LIMIT = 64 * MiB


@in_virtual_time
async def test_one_read_gives_all_the_lines_that_it_completes() -> None:
    source = ScriptedReceive(b'\xef\xbb\xbf{"a":1}\r\n\n{"b":2}\n{"c"', b":3}", b"\n \n", b"[4]")
    async with open_line_channel(source, GatedSend(), max_frame=LIMIT) as channel:
        assert await channel.receive() == [b'{"a":1}', b'{"b":2}']
        assert await channel.receive() == [b'{"c":3}']
        assert await channel.receive() == [b"[4]"], "a last line without its newline counts"
        assert await channel.receive() == []
        assert await channel.receive() == []


@in_virtual_time
async def test_a_connection_that_breaks_says_so() -> None:
    source = ScriptedReceive(b"1\n2", then=trio.BrokenResourceError)
    async with open_line_channel(source, GatedSend(), max_frame=LIMIT) as channel:
        assert await channel.receive() == [b"1"]
        with pytest.raises(trio.BrokenResourceError):
            await channel.receive()


@in_virtual_time
async def test_a_message_over_the_limit_comes_out_as_such_and_the_next_one_whole() -> None:
    source = ScriptedReceive(b"x" * 10 + b"\n" + b"y" * 11 + b"\nz\n")
    async with open_line_channel(source, GatedSend(), max_frame=10) as channel:
        assert await channel.receive() == [b"x" * 10, Oversize(11, b"y" * 11, b"y" * 11), b"z"]


@in_virtual_time
async def test_many_lines_of_one_read_come_in_portions() -> None:
    """Whoever takes them does all that at once, and others are to have a turn meanwhile."""
    lines = [b"%d" % number for number in range(20 * PORTION + 1)]
    source = ScriptedReceive(b"\n".join([*lines, b"rest"]))  # in one read
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with open_line_channel(source, GatedSend(), max_frame=LIMIT) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(others)
        for start in range(0, len(lines), PORTION):
            assert await channel.receive() == lines[start : start + PORTION]
        assert turns >= 10
        assert await channel.receive() == [b"rest"]
        assert await channel.receive() == []
        nursery.cancel_scope.cancel()
    assert len(source.asked) == 2


@in_virtual_time
async def test_reads_do_not_grow_for_lines_that_say_nothing() -> None:
    source = ScriptedReceive(b"\n" * (4 * READ_MIN), b"y\n")
    async with open_line_channel(source, GatedSend(), max_frame=LIMIT) as channel:
        assert await channel.receive() == [b"y"]
    assert set(source.asked) == {READ_MIN}


@in_virtual_time
async def test_reads_grow_while_a_long_message_is_under_way_and_shrink_after_it() -> None:
    long = b"x" * (4 * MiB)
    source = ScriptedReceive(long + b"\n", b"y\n", b"z\n")
    async with open_line_channel(source, GatedSend(), max_frame=LIMIT) as channel:
        assert await channel.receive() == [long]
        assert await channel.receive() == [b"y"]
    assert source.asked[0] == source.asked[-1] == READ_MIN
    assert max(source.asked) == READ_MAX
    assert len(source.asked) < 12


@in_virtual_time
async def test_what_is_queued_while_a_write_is_under_way_goes_out_in_one() -> None:
    sink = GatedSend(allowed=0)
    async with open_line_channel(ScriptedReceive(), sink, max_frame=LIMIT) as channel:
        channel.send_nowait(b"first")
        await trio.testing.wait_all_tasks_blocked()
        for number in range(100):
            channel.send_nowait(b"%d" % number)
        sink.let(2)
        await channel.flush()
        assert sink.writes == [b"first\n", b"".join(b"%d\n" % number for number in range(100))]


@in_virtual_time
async def test_a_write_is_bounded_and_a_large_message_is_not_copied() -> None:
    small, large = b"s" * 1000, b"L" * (WRITE_BATCH + 1)
    sink = GatedSend()
    async with open_line_channel(ScriptedReceive(), sink, max_frame=LIMIT) as channel:
        for _ in range(1000):
            channel.send_nowait(small)
        channel.send_nowait(large)
        channel.send_nowait(small)
        await channel.flush()
    assert b"".join(sink.writes) == (small + b"\n") * 1000 + large + b"\n" + small + b"\n"
    assert len(sink.writes) == 1000 * len(small) // WRITE_BATCH + 1 + 3
    assert [data for data in sink.objects if data is large] == [large]


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (b'{\n  "a": 1.0,\r\n  "b": 12345678901234567890\n}', b'{  "a": 1.0,  "b": 12345678901234567890}\n'),
        (b'{"a": "line\\nbreak"}', b'{"a": "line\\nbreak"}\n'),
        (b"[" * 10_000 + b"\n" + b"]" * 10_000, b"[" * 10_000 + b"]" * 10_000 + b"\n"),
    ],
)
@in_virtual_time
async def test_a_pretty_printed_message_becomes_one_line_and_is_not_changed_otherwise(
    message: bytes, line: bytes
) -> None:
    sink = GatedSend()
    async with open_line_channel(ScriptedReceive(), sink, max_frame=LIMIT) as channel:
        await channel.send(message)
        channel.send_nowait(message)
    assert b"".join(sink.writes) == line + line


@in_virtual_time
async def test_leaving_writes_what_is_queued_and_closes_both_streams() -> None:
    source, sink = ScriptedReceive(silent=True), GatedSend()
    async with open_line_channel(source, sink, max_frame=LIMIT) as channel:
        channel.send_nowait(b"farewell")
    assert sink.writes == [b"farewell\n"]
    assert source.closed
    assert sink.closed


@in_virtual_time
async def test_farewells_go_out_though_all_around_is_cancelled() -> None:
    sink = GatedSend(allowed=0)
    with trio.CancelScope() as scope:
        async with open_line_channel(ScriptedReceive(), sink, max_frame=LIMIT) as channel:
            channel.send_nowait(b"under way")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                channel.send_nowait(b"farewell")
                sink.let(2)
    assert scope.cancelled_caught
    assert sink.writes == [b"under way\n", b"farewell\n"]


@pytest.mark.parametrize(("limits", "waited"), [({}, FLUSH_LIMIT), ({"flush_limit": 0.1}, 0.1)])
@in_virtual_time
async def test_a_peer_that_does_not_read_holds_up_the_end_for_a_bounded_time(
    limits: dict[str, float], waited: float
) -> None:
    sink = GatedSend(allowed=0)
    start = trio.current_time()
    async with open_line_channel(ScriptedReceive(), sink, max_frame=LIMIT, **limits) as channel:
        channel.send_nowait(b"never read")
    assert trio.current_time() - start == pytest.approx(waited)
    assert sink.writes == []
    assert sink.closed


@in_virtual_time
async def test_a_peer_that_has_gone_costs_its_messages_and_nothing_else() -> None:
    source, sink = ScriptedReceive(b"last words\n"), GatedSend(allowed=0)
    async with open_line_channel(source, sink, max_frame=LIMIT, max_pending=10) as channel:
        channel.send_nowait(b"x" * 100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.send, b"waiting")
            nursery.start_soon(channel.flush)
            await trio.testing.wait_all_tasks_blocked()
            sink.break_off()
        channel.send_nowait(b"late")
        await channel.send(b"late")
        await channel.flush()
        assert await channel.receive() == [b"last words"]
    assert sink.writes == []


@in_virtual_time
async def test_closing_the_sending_side_leaves_the_other_open() -> None:
    source, sink = ScriptedReceive(b"1\n", b"2\n", b"3"), GatedSend(allowed=0)
    async with open_line_channel(source, sink, max_frame=LIMIT) as channel:
        channel.send_nowait(b"under way")
        await trio.testing.wait_all_tasks_blocked()
        await channel.close_sending()
        assert sink.closed
        assert await channel.receive() == [b"1"]
        await channel.discard()
        assert await channel.receive() == []
    assert sink.writes == []
