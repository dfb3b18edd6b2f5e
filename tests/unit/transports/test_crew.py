"""Tasks that stay at work while the body that they serve is being cancelled."""

from __future__ import annotations

import pytest
import trio

from mcpx.transports.crew import open_crew


class Boom(Exception):
    pass


async def test_the_crew_works_through_a_cancellation_until_the_body_has_ended() -> None:
    asked, answered = trio.Event(), trio.Event()
    ended: list[str] = []

    async def serve() -> None:
        try:
            await asked.wait()
            answered.set()
            await trio.sleep_forever()
        finally:
            ended.append("crew")

    with trio.CancelScope() as scope:
        async with open_crew() as crew:
            crew.start_soon(serve)
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                asked.set()
                with trio.CancelScope(shield=True):
                    await answered.wait()
                ended.append("body")
    assert scope.cancelled_caught
    assert ended == ["body", "crew"]


async def test_what_the_body_raises_comes_out_as_itself() -> None:
    boom = Boom()

    async def work() -> None:
        async with open_crew() as crew:
            crew.start_soon(trio.sleep_forever)
            raise boom

    with pytest.raises(Boom) as caught:
        await work()
    assert caught.value is boom
    assert boom.__context__ is None


async def test_a_crash_in_the_crew_cancels_the_body_and_comes_out() -> None:
    async def crash() -> None:
        raise Boom

    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        async with open_crew() as crew:
            crew.start_soon(crash)
            await trio.sleep_forever()


async def test_a_crash_hides_nothing_that_the_body_raises() -> None:
    async def crash() -> None:
        raise Boom

    with pytest.RaisesGroup(Boom, KeyError, flatten_subgroups=True):
        async with open_crew() as crew:
            crew.start_soon(crash)
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError


async def test_a_crew_opened_under_a_cancellation_works_and_ends_as_well() -> None:
    worked = trio.Event()

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        worked.set()
        await trio.sleep_forever()

    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_crew() as crew:
            crew.start_soon(work)
            with trio.CancelScope(shield=True):
                await worked.wait()
            await trio.sleep_forever()
    assert scope.cancelled_caught
