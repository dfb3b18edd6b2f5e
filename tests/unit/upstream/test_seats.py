"""Hosts without a connection, which may be anybody: who gets which instance of a server that can ask. Virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import UpstreamTimeout
from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY
from mcpx.upstream.call import Interest
from mcpx.wire import frames
from tests.support.running import in_virtual_time
from tests.unit.upstream.asking import ACCEPT, CANCEL, DONE, ask, asker, begin, field, nothing, question, reply, request

if TYPE_CHECKING:
    from mcpx.upstream.call import Asker
    from tests.unit.upstream.fakes import FakeServer


async def legacy(server: FakeServer) -> None:
    await server.open_legacy()


async def modern(server: FakeServer) -> None:
    await server.open_modern(tools={})


def caller(name: str = "one", told: dict[str, Any] | None = None) -> Asker:
    """A host of which nothing is known but its address, which all share, and what it calls itself."""
    info = Raw(b'{"name":"%s","version":"1"}' % name.encode())
    return asker("http 127.0.0.1", told, client_info=info, lasting=False)


@in_virtual_time
async def test_ten_calls_one_after_the_other_meet_one_process() -> None:
    async with field(legacy) as one:
        for _ in range(10):
            async with one.using(caller()) as session:
                [server] = one.servers
                with session.call(request(caller())) as call:
                    server.answer(await begin(call, server), DONE)
                    assert await reply(call) == DONE


@in_virtual_time
async def test_two_at_once_have_a_process_each_and_are_asked_their_own_questions() -> None:
    async with field(legacy) as one, one.using(caller("a")) as first, one.using(caller("b")) as second:
        assert first is not second
        with first.call(request(caller("a"))) as mine, second.call(request(caller("b"))) as theirs:
            await begin(mine, one.servers[0])
            await begin(theirs, one.servers[1])
            ask(one.servers[1])
            await question(theirs)
            assert mine.next_nowait() is None
            ask(one.servers[0])
            await question(mine)


@in_virtual_time
async def test_also_two_of_one_caller_who_may_be_two() -> None:
    async with field(legacy) as one, one.using(caller()) as first, one.using(caller()) as second:
        assert first is not second


@in_virtual_time
async def test_a_caller_meets_the_process_that_it_had_before() -> None:
    async with field(legacy) as one:
        async with one.using(caller("a")) as a, one.using(caller("b")) as b:
            pass
        for name, had in (("a", a), ("b", b), ("a", a), ("a", a), ("b", b)):
            async with one.using(caller(name)) as again:
                assert again is had
                await trio.sleep(1)
        async with one.using(caller("c")) as new:  # a stranger gets the one that was used last
            assert new is b
        async with one.using(caller("b")) as again:
            assert again is b
        async with one.using(caller("b")) as again, one.using(caller("b")) as beside:
            assert again is b
            assert beside is a
        assert len(one.servers) == 2


@in_virtual_time
async def test_what_one_caller_left_open_is_not_put_to_the_next() -> None:
    async with field(legacy) as one:
        async with one.using(caller("a")):
            [server] = one.servers
            ask(server, 1)
            await nothing(server)  # it waits for a's call
        assert await server.take() == {"jsonrpc": "2.0", "id": 1, "result": CANCEL}
        ask(server, 2)  # nobody's
        assert await server.take() == {"jsonrpc": "2.0", "id": 2, "result": CANCEL}
        async with one.using(caller("b")) as session:
            with session.call(request(caller("b"))) as call:
                await begin(call, server)
                assert call.next_nowait() is None
        assert one.unasked[1:] == []


@in_virtual_time
async def test_but_who_calls_itself_the_same_may_be_asked_for_its_roots() -> None:
    async with field(legacy) as one:
        async with one.using(caller("a")):  # for a list, say
            [server] = one.servers
            ask(server, 1, "roots/list")
            await nothing(server)
        ask(server, 2, "roots/list")
        await nothing(server)
        async with one.using(caller("a")) as session:
            with session.call(request(caller("a"))) as call:
                first, second = await question(call), await question(call)
                for one_of_them in (first, second):
                    call.answer(one_of_them.key, frames.to_raw({"roots": []}), LATEST_LEGACY)
                    assert (await server.take())["result"] == {"roots": []}
                await begin(call, server)


@in_virtual_time
async def test_and_no_other() -> None:
    async with field(legacy) as one:
        async with one.using(caller("a")):
            [server] = one.servers
            ask(server, 1, "roots/list")
            await nothing(server)
        async with one.using(caller("b")) as session:
            assert (await server.take())["error"]["code"] == -32603
            with session.call(request(caller("b"))) as call:
                await begin(call, server)
                assert call.next_nowait() is None


@in_virtual_time
async def test_a_question_right_after_the_handshake_is_for_the_call_that_started_the_server() -> None:
    async def hasty(server: FakeServer) -> None:
        await server.open_legacy()
        server.say(id="r", method="roots/list")

    async with field(hasty) as one, one.using(caller()) as session:
        [server] = one.servers
        with session.call(request(caller())) as call:
            asked = await question(call)
            assert asked.method == "roots/list"
            call.answer(asked.key, frames.to_raw({"roots": []}), LATEST_LEGACY)
            assert (await server.take())["result"] == {"roots": []}
            await begin(call, server)


@in_virtual_time
async def test_beyond_the_bound_a_call_waits_for_its_turn() -> None:
    limits = Limits(max_instances=2, start_timeout=30)
    async with field(legacy, limits=limits) as one:
        first, second = await one.supervisor.lease(caller()), await one.supervisor.lease(caller())
        with trio.move_on_after(20):
            await one.supervisor.lease(caller())
            raise AssertionError
        got: list[object] = []

        async def third() -> None:
            got.append(await one.supervisor.lease(caller()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(third)
            await trio.sleep(10)
            assert got == []
            one.supervisor.release(second)
        assert got == [second]
        assert first is not second
        with pytest.raises(UpstreamTimeout, match="maxInstances"):
            await one.supervisor.lease(caller())
        assert len(one.servers) == 2


@in_virtual_time
async def test_room_is_made_for_one_by_ending_what_nobody_uses() -> None:
    async with field(legacy, limits=Limits(max_instances=1)) as one:
        async with one.using(asker("stdio")):
            pass
        async with one.using(caller()):
            pass
        async with one.using(asker("stdio")):
            pass
        assert len(one.servers) == 3


@in_virtual_time
async def test_many_at_once_on_a_server_that_turns_out_to_be_modern_share_its_one_process() -> None:
    async with field(modern) as one:
        sessions: list[object] = []

        async def use(name: str) -> None:
            async with one.using(caller(name)) as session:
                sessions.append(session)
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(use, str(number))
        assert len(set(map(id, sessions))) == 1
        assert len(one.servers) == 1


@in_virtual_time
async def test_those_that_cannot_be_asked_share_a_process() -> None:
    plain = caller("a", {}), caller("b", {})
    async with field(legacy) as one, one.using(plain[0]) as first, one.using(plain[1]) as second:
        assert first is second


@in_virtual_time
async def test_other_capabilities_are_another_process() -> None:
    roots = caller("a", {"roots": {}})
    async with field(legacy) as one:
        async with one.using(caller("a")) as first:
            pass
        async with one.using(roots) as second:
            assert second is not first


@in_virtual_time
async def test_who_listens_keeps_the_first_process_which_still_takes_calls() -> None:
    async with field(legacy) as one:
        with one.supervisor.interested(caller("l"), Interest(frozenset({"tools"})), keep=True) as interested:
            await interested.settled()
            for _ in range(3):
                async with one.using(caller("a")):
                    pass
            async with one.using(caller("a")), one.using(caller("b")):
                assert len(one.servers) == 2
            with trio.move_on_after(1):
                await one.supervisor.lease(caller())
        assert len(one.servers) == 2


@in_virtual_time
async def test_a_call_that_waits_is_served_when_a_kept_process_is_given_back() -> None:
    async with field(legacy, limits=Limits(max_instances=1)) as one:
        with one.supervisor.interested(caller("l"), Interest(frozenset({"tools"})), keep=True) as interested:
            await interested.settled()
            first = await one.supervisor.lease(caller("a"))

            async def give_back() -> None:
                await trio.sleep(5)
                one.supervisor.release(first)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(give_back)
                second = await one.supervisor.lease(caller("b"))
            assert second is first
            assert one.supervisor.lease_nowait(caller("c")) is None
            one.supervisor.release(second)
            third = one.supervisor.lease_nowait(caller("c"))
            assert third is first


@in_virtual_time
async def test_a_parked_call_keeps_its_process_to_itself() -> None:
    async with field(legacy) as one, one.using(caller("a")) as session:
        [server] = one.servers
        with session.call(request(caller("a"))) as parked:
            await begin(parked, server)
            ask(server)
            key = (await question(parked)).key
            for _ in range(3):
                async with one.using(caller("a")) as other:
                    assert other is not session
            parked.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert (await server.take())["result"] == ACCEPT
        assert len(one.servers) == 2
