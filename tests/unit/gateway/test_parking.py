"""Exchanges that are parked: rounds of questions, what comes meanwhile, and every way in which they end."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import LocalProtocolError, McpxError, RpcError, UpstreamGone, UpstreamTimeout
from mcpx.gateway.parking import MAX_KEPT, Open, Parking, Ticket
from mcpx.gateway.questions import OpenQuestions
from mcpx.spec.carry import CannotSay
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.upstream.call import InputRequired, LogMessage, Progress, Question, Reply, Withdrawn
from tests.support.running import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from types import TracebackType

    from mcpx.gateway.exchange import Exchange
    from mcpx.upstream.call import Event

PATIENCE = 600.0
ANSWER = Raw(b'{"action":"accept"}')
REPLY = Reply(Raw(b"{}"), LATEST_LEGACY, "one")
FAILED = UpstreamGone("one", "The server has gone.")


def question(key: str, method: str = "elicitation/create") -> Question:
    return Question(key, method, {}, LATEST_LEGACY)


class Call:
    """An exchange whose events the test puts in; ``state`` is what became of it."""

    server = "one"

    def __init__(self) -> None:
        self.state = "open"
        self.held = 0
        self.answers: dict[str, Any] = {}
        self._events: deque[Event | BaseException] = deque()
        self._wake = trio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.state = "over"

    @contextmanager
    def hold(self) -> Generator[None]:
        self.held += 1
        yield
        self.held -= 1

    def put(self, *events: Event | BaseException) -> None:
        self._events.extend(events)
        self._wake.set()

    async def next(self) -> Event:
        while not self._events:
            self._wake = trio.Event()
            await self._wake.wait()
        event = self.next_nowait()
        assert event is not None
        return event

    def next_nowait(self) -> Event | None:
        if not self._events:
            return None
        event = self._events.popleft()
        if isinstance(event, BaseException):
            raise event
        return event

    def answer(self, key: str, outcome: Any, revision: str) -> None:
        assert revision == LATEST_MODERN
        self.answers[key] = outcome


class Lot:
    """A parking and the calls in it."""

    def __init__(self, parking: Parking) -> None:
        self.parking = parking

    def park(self, *keys: str, owner: str = "host") -> tuple[Call, Ticket]:
        """A call with questions open, parked."""
        call = Call()
        with ExitStack() as entered:
            exchange = cast("Exchange", entered.enter_context(call))
            questions = OpenQuestions(exchange, _say, LATEST_MODERN)
            for key in keys:
                questions.take(question(key))
            opened = self.parking.park(owner, exchange, questions, entered)
        assert [asked.question.key for asked in opened.asked] == list(keys)
        assert call.state == "open"
        return call, opened.ticket

    async def retry(self, ticket: Ticket, *keys: str, heard: list[Any] | None = None) -> Reply | Open:
        """Answer these and wait for what ends the round; ``heard`` is given what comes before it."""
        with self.parking.resume(ticket, dict.fromkeys(keys, ANSWER)) as retry:
            while True:
                event = await retry.next()
                if isinstance(event, (Reply, Open)):
                    return event
                if heard is not None:
                    heard.append(event)

    def refused(self, ticket: Ticket) -> str:
        with pytest.raises(RpcError) as caught:
            self.parking.resume(ticket, {})
        assert caught.value.code == -32602
        return caught.value.message


def _say(question: Question) -> dict[str, Raw]:
    if question.method == "roots/list":
        raise CannotSay("this host has no roots")
    return {"message": Raw(b'"said"')}


@asynccontextmanager
async def opened(limit: int = 10) -> AsyncGenerator[Lot]:
    """Nothing may be left in it once all that was parked has ended."""
    async with trio.open_nursery() as nursery:
        lot = Lot(Parking(nursery, limit, PATIENCE))
        yield lot
    assert len(lot.parking) == 0


def keys(opened: Reply | Open) -> list[str]:
    assert isinstance(opened, Open)
    return [asked.question.key for asked in opened.asked]


async def test_a_retry_goes_on_with_the_very_call() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect, lot, ticket, ("a",), REPLY)
            await trio.testing.wait_all_tasks_blocked()
            assert call.answers == {"a": ANSWER}
            assert call.state == "open"
            call.put(REPLY)
        assert call.state == "over"


async def _expect(lot: Lot, ticket: Ticket, answers: tuple[str, ...], outcome: Any) -> None:
    assert await lot.retry(ticket, *answers) is outcome


async def test_what_comes_meanwhile_is_kept_for_the_retry_a_result_too() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        said = [Progress({"progress": Raw(b"1")}), LogMessage({"data": Raw(b"1")})]
        call.put(*said, Withdrawn("a"), REPLY)
        await trio.testing.wait_all_tasks_blocked()
        assert call.state == "over"  # nothing upstream is held for a host that may never come
        heard: list[Any] = []
        assert await lot.retry(ticket, "a", heard=heard) is REPLY
        assert heard == said
        assert call.answers == {}


async def test_of_much_that_comes_meanwhile_the_newest_is_kept() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        said = [LogMessage({"data": Raw(b"%d" % number)}) for number in range(3 * MAX_KEPT)]
        call.put(*said, REPLY)
        await trio.testing.wait_all_tasks_blocked()
        heard: list[Any] = []
        assert await lot.retry(ticket, heard=heard) is REPLY
        assert heard == said[-MAX_KEPT:]


async def test_an_error_comes_to_the_retry_as_itself() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        call.put(FAILED)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(UpstreamGone) as caught:
            await lot.retry(ticket, "a")
        assert caught.value is FAILED


async def test_missing_answers_are_asked_again_and_unknown_keys_ignored() -> None:
    async with opened() as lot:
        call, first = lot.park("a", "b")
        again = await lot.retry(first, "b", "nobody asked")
        assert keys(again) == ["a"]
        assert call.answers == {"b": ANSWER}
        assert isinstance(again, Open)
        call.put(REPLY)
        assert await lot.retry(again.ticket, "a") is REPLY


async def test_a_second_question_begins_a_second_round() -> None:
    async with opened() as lot:
        call, first = lot.park("a")
        call.put(question("b"), question("c"), question("refused", "roots/list"))
        await trio.testing.wait_all_tasks_blocked()
        second = await lot.retry(first, "a")
        assert keys(second) == ["b", "c"]
        assert isinstance(second, Open)
        assert isinstance(call.answers["refused"], RpcError)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_asks_for_d, lot, call, second.ticket)
            await trio.testing.wait_all_tasks_blocked()
            call.put(question("d"))


async def _asks_for_d(lot: Lot, call: Call, ticket: Ticket) -> None:
    third = await lot.retry(ticket, "b", "c")
    assert keys(third) == ["d"]
    assert isinstance(third, Open)
    call.put(REPLY)
    assert await lot.retry(third.ticket, "d") is REPLY


async def test_a_withdrawn_question_is_not_asked_again() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a", "b")
        call.put(Withdrawn("a"))
        await trio.testing.wait_all_tasks_blocked()
        again = await lot.retry(ticket)
        assert keys(again) == ["b"]
        lot.parking.leave("host")


async def test_a_repeat_joins_the_retry_while_it_lasts_and_is_refused_later() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_expect, lot, ticket, ("a",), REPLY)
            await trio.testing.wait_all_tasks_blocked()
            call.put(Progress({"progress": Raw(b"1")}), REPLY)
        assert "is over" in lot.refused(ticket)


async def test_an_earlier_round_is_refused_while_the_next_one_waits() -> None:
    async with opened() as lot:
        _, first = lot.park("a", "b")
        second = await lot.retry(first, "a")
        assert isinstance(second, Open)
        assert "used before" in lot.refused(first)
        assert "used before" in lot.refused(Ticket(first.id, 7))
        assert "is over" in lot.refused(Ticket("nobody", 1))
        lot.parking.leave("host")


async def test_the_call_is_cancelled_when_the_last_who_follows_it_leaves() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        first, second = (trio.CancelScope() for _ in range(2))

        async def follow(scope: trio.CancelScope) -> None:
            with scope:
                await lot.retry(ticket, "a")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, first)
            nursery.start_soon(follow, second)
            await trio.testing.wait_all_tasks_blocked()
            first.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert call.state == "open"
            second.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert call.state == "over"
        assert "is over" in lot.refused(ticket)


async def test_a_retry_that_only_asked_for_more_leaves_the_call_parked() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        assert keys(await lot.retry(ticket)) == ["a"]
        await trio.testing.wait_all_tasks_blocked()
        assert call.state == "open"
        lot.parking.leave("host")


@in_virtual_time
async def test_one_that_nobody_comes_for_is_cancelled_in_time() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        assert call.held == 1  # so that no other limit ends it, or one of its questions, before
        await trio.sleep(PATIENCE - 1)
        assert call.state == "open"
        again = await lot.retry(ticket)
        assert isinstance(again, Open)
        assert call.held == 1
        await trio.sleep(PATIENCE - 1)  # each round has its own time
        assert call.state == "open"
        await trio.sleep(2)
        assert call.state == "over"
        with pytest.raises(UpstreamTimeout, match="not answered within 600 s"):
            await lot.retry(again.ticket, "a")


@in_virtual_time
async def test_a_running_retry_has_no_such_limit() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect, lot, ticket, ("a",), REPLY)
            await trio.sleep(10 * PATIENCE)
            assert call.state == "open"
            assert call.held == 0
            call.put(REPLY)


@in_virtual_time
async def test_a_result_is_kept_so_long_and_no_longer() -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        call.put(REPLY)
        await trio.sleep(PATIENCE + 1)
        assert "is over" in lot.refused(ticket)


async def test_a_host_that_leaves_takes_what_is_its_own() -> None:
    async with opened() as lot:
        gone, _ = lot.park("a", owner="leaves")
        stays, ticket = lot.park("a", owner="stays")
        lot.parking.leave("leaves")
        await trio.testing.wait_all_tasks_blocked()
        assert (gone.state, stays.state) == ("over", "open")
        stays.put(REPLY)
        assert await lot.retry(ticket, "a") is REPLY


async def test_there_is_room_for_so_many() -> None:
    async with opened(limit=1) as lot:
        lot.park("a")
        with pytest.raises(McpxError, match="the limit is 1"):
            lot.park("a")
        lot.parking.leave("host")


@pytest.mark.parametrize("bug", [InputRequired((), None, LATEST_MODERN, "one"), KeyError("x")])
async def test_a_bug_comes_to_the_retry_and_ends_nothing_else(bug: Any) -> None:
    async with opened() as lot:
        call, ticket = lot.park("a")
        call.put(bug)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises((LocalProtocolError, BaseExceptionGroup)) as caught:
            await lot.retry(ticket, "a")
        assert isinstance(caught.value, LocalProtocolError) or caught.group_contains(KeyError)
        assert call.state == "over"


async def test_pain_10_ten_thousand_parked_calls_come_and_go() -> None:
    async with opened() as lot:
        for number in range(10_000):
            call, ticket = lot.park("a")
            if number % 2:
                lot.parking.leave("host")
            else:
                with lot.parking.resume(ticket, {"a": ANSWER}):
                    pass  # its host goes at once
            await trio.lowlevel.checkpoint()
            while call.state == "open" or len(lot.parking):
                await trio.lowlevel.checkpoint()
