"""Changes on their way to those who watch."""

from __future__ import annotations

from typing import Any, cast

import trio
import trio.testing

from mcpx.gateway.announcer import MAX_WAITING, Announcer
from tests.support.running import in_virtual_time

ONE = cast("Any", "one")  # nothing but a key here


@in_virtual_time
async def test_what_is_said_over_and_over_is_told_once_and_the_last_one_counts() -> None:
    told: list[tuple[Any, str, str | None]] = []

    def tell(server: Any, kind: Any, uri: str | None) -> None:
        told.append((server, kind, uri))
        if told == [(ONE, "tools", None)]:
            announcer.announce(ONE, "tools", None)  # while it is told

    announcer = Announcer(tell)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            announcer.announce(ONE, "tools", None)
            announcer.announce(ONE, "resources", "a:b")
        nursery.start_soon(announcer.run)
        await trio.testing.wait_all_tasks_blocked()
        assert told == [(ONE, "tools", None), (ONE, "resources", "a:b"), (ONE, "tools", None)]
        nursery.cancel_scope.cancel()


@in_virtual_time
async def test_other_tasks_have_their_turn_between_two_changes() -> None:
    turns = 0
    seen: list[int] = []
    announcer = Announcer(lambda *_: seen.append(turns))

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for number in range(20):
            announcer.announce(ONE, "resources", f"a:{number}")
        nursery.start_soon(other)
        nursery.start_soon(announcer.run)
        while len(seen) < 20:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    # Which of two tasks comes first in a round is chance.
    assert all(later > earlier for earlier, later in zip(seen, seen[2:], strict=False))


def test_of_many_different_ones_only_some_wait() -> None:
    told: list[str | None] = []
    announcer = Announcer(lambda _, __, uri: told.append(uri))
    for number in range(MAX_WAITING + 5):
        announcer.announce(ONE, "resources", f"a:{number}")
    announcer.announce(ONE, "resources", "a:0")
    assert told == [f"a:{MAX_WAITING + number}" for number in range(5)]
