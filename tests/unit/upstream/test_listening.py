"""How servers are listened to: for the union of what is wanted, without a gap, and again whenever that ends. Virtual
time.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.settings import Limits, ServerSettings
from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.upstream.call import Asker, Change, Interest
from mcpx.upstream.listening import AGREE_LIMIT
from mcpx.upstream.supervisor import Supervisor
from tests.support.running import in_virtual_time
from tests.unit.upstream.fakes import FakeServer, surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

LIMITS = Limits(restart_backoff_step=2, restart_backoff_max=30, instance_idle=100, start_timeout=60)
ALL = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"
A, B = "file:///a", "file:///b"

TOOLS = Interest(frozenset({"tools"}))
PROMPTS = Interest(frozenset({"prompts"}))


def uris(*names: str) -> Interest:
    return Interest(uris=frozenset(names))


class Field:
    """One supervised server that plays no part by itself: the test says what it does."""

    def __init__(self) -> None:
        self.servers: list[FakeServer] = []
        self.heard: list[tuple[str, str | None]] = []
        self.supervisor: Supervisor

    @property
    def server(self) -> FakeServer:
        """The one that was started last."""
        return self.servers[-1]

    async def started(self, count: int) -> FakeServer:
        """The ``count``-th start of the server."""
        with trio.fail_after(1000):
            while len(self.servers) < count:
                await trio.testing.wait_all_tasks_blocked(0.1)
        return self.servers[count - 1]

    async def listened(self) -> dict[str, Any]:
        """The next frame, which must ask to listen; what for is in ``wants``."""
        return await self.server.expect(LISTEN)

    async def quiet(self, seconds: float) -> None:
        """Nothing comes to the server for so long."""
        with trio.move_on_after(seconds):
            raise AssertionError(await self.server.take())

    async def lease(self, asker: Asker | None = None) -> None:
        """Somebody makes a call, which starts the server."""
        self.supervisor.release(await self.supervisor.lease(asker or Asker("caller")))


def wants(listen: dict[str, Any]) -> dict[str, Any]:
    return listen["params"]["notifications"]


@asynccontextmanager
async def field(
    opening: Callable[[FakeServer], Awaitable[None]], *, scope: Any = "host", limits: Limits = LIMITS
) -> AsyncGenerator[Field]:
    """A supervisor whose servers take their opening, and from then on are in the hands of the test."""
    found = Field()

    async def script(server: FakeServer) -> None:
        await opening(server)
        await trio.sleep_forever()

    def heard(supervisor: Supervisor, key: object, news: object) -> None:
        assert isinstance(news, Change)
        found.heard.append((news.kind, news.uri))

    async with trio.open_nursery() as nursery:
        found.supervisor = Supervisor(
            ServerSettings(name="fake", builtin="demo", limits=limits, scope=scope),
            surroundings(script, found.servers),
            None,
            nursery,
            heard=heard,
            came_up=lambda supervisor: None,
        )
        yield found
        nursery.cancel_scope.cancel()


async def modern(server: FakeServer) -> None:
    await server.open_modern(**ALL)


async def legacy(server: FakeServer) -> None:
    await server.open_legacy(capabilities=ALL)


HOST = Asker("host")


# -- modern: one stream for all


@in_virtual_time
async def test_a_subscription_starts_the_server_and_opens_one_stream() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(B, A), keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            assert wants(listen) == {"toolsListChanged": True, "resourceSubscriptions": [A, B]}
            assert listen["params"]["_meta"][meta.PROTOCOL_VERSION] == LATEST_MODERN
            assert meta.PROGRESS_TOKEN not in listen["params"]["_meta"]
            one.server.acknowledge(listen)
            assert await interested.settled() == TOOLS | uris(A, B)
            one.server.tell(listen, "notifications/tools/list_changed")
            one.server.tell(listen, "notifications/resources/updated", uri=A)
            await trio.sleep(10_000)  # it has no limit in time
            assert one.heard == [("tools", None), ("resources", A)]
        assert (await one.server.expect(CANCELLED))["params"]["requestId"] == listen["id"]


@in_virtual_time
async def test_a_stream_is_widened_without_a_gap() -> None:
    """The new one is acknowledged before the old one is cancelled, and what comes on either meanwhile counts."""
    async with field(modern) as one:
        with one.supervisor.interested(HOST, uris(A), keep=True) as interested:
            await one.started(1)
            first = await one.listened()
            one.server.acknowledge(first)
            assert await interested.settled() == uris(A)
            with one.supervisor.interested(Asker("other"), PROMPTS, keep=True) as other:
                second = await one.listened()
                assert wants(second) == {"promptsListChanged": True, "resourceSubscriptions": [A]}
                await one.quiet(1)  # the old one stays open
                one.server.tell(first, "notifications/resources/updated", uri=A)
                assert await interested.settled() == uris(A)  # this one waits for nothing
                one.server.acknowledge(second)
                assert await other.settled() == PROMPTS
                assert (await one.server.expect(CANCELLED))["params"]["requestId"] == first["id"]
                assert one.heard == [("resources", A)]
            third = await one.listened()  # narrowed in the same way
            assert wants(third) == {"resourceSubscriptions": [A]}
            one.server.acknowledge(third)
            assert (await one.server.expect(CANCELLED))["params"]["requestId"] == second["id"]
            await one.quiet(100)


@in_virtual_time
async def test_a_burst_is_one_request() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True) as interested:
            await one.started(1)
            one.server.acknowledge(await one.listened())
            await interested.settled()
            for number in range(50):
                interested.change(TOOLS | uris(*(f"file:///{each}" for each in range(number))))
                await trio.lowlevel.checkpoint()
            listen = await one.listened()
            assert len(wants(listen)["resourceSubscriptions"]) == 49
            for number in range(50):  # and what comes while the server thinks about it is another one
                interested.change(PROMPTS | uris(*(f"file:///{each}" for each in range(number))))
            await one.quiet(1)
            one.server.acknowledge(listen)
            frames = {frame["method"]: frame for frame in [await one.server.take(), await one.server.take()]}
            assert frames[CANCELLED]["params"]["requestId"] < listen["id"]
            last = frames[LISTEN]
            assert "promptsListChanged" in wants(last)
            one.server.acknowledge(last)
            assert await interested.settled() == PROMPTS | uris(*(f"file:///{each}" for each in range(49)))


@in_virtual_time
async def test_nothing_is_asked_for_where_nobody_wants_it_any_more() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            one.server.acknowledge(listen)
            await interested.settled()
            interested.change(Interest())
            await one.server.expect(CANCELLED)
            assert await interested.settled() == Interest()
            one.server.tell(listen, "notifications/resources/updated", uri=A)  # late, and nobody's
            await one.quiet(1000)
            assert one.heard == []
            assert len(one.servers) == 1


@in_virtual_time
async def test_only_what_the_server_agrees_to_is_delivered() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | PROMPTS | uris(A, B), keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            one.server.acknowledge(listen, {"toolsListChanged": True, "resourceSubscriptions": [B, "file:///c"]})
            assert await interested.settled() == TOOLS | uris(B)
            await one.quiet(1000)  # it is not asked again for the rest
            with one.supervisor.interested(Asker("other"), TOOLS | uris(A), keep=False) as other:
                assert await other.settled() == TOOLS


@in_virtual_time
async def test_a_server_is_asked_for_what_it_declares_alone() -> None:
    async def opening(server: FakeServer) -> None:
        await server.open_modern(tools={"listChanged": True}, prompts={}, resources={"subscribe": False})

    async with field(opening) as one:
        with one.supervisor.interested(HOST, TOOLS | PROMPTS | uris(A), keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            assert wants(listen) == {"toolsListChanged": True}
            one.server.acknowledge(listen)
            assert await interested.settled() == TOOLS


@in_virtual_time
async def test_a_server_that_declares_nothing_is_not_asked() -> None:
    async def opening(server: FakeServer) -> None:
        await server.open_modern(tools={})

    async with field(opening) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(A), keep=True) as interested:
            await one.started(1)
            assert await interested.settled() == Interest()
            await one.quiet(1000)


@in_virtual_time
async def test_a_server_that_does_not_acknowledge_is_believed() -> None:
    """It has not refused either; whoever waits does not wait for ever, and a late word counts."""
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | PROMPTS, keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            began = trio.current_time()
            assert await interested.settled() == TOOLS | PROMPTS
            assert trio.current_time() - began == pytest.approx(AGREE_LIMIT, abs=1)
            one.server.acknowledge(listen, {"promptsListChanged": True})
            await trio.sleep(1)
            assert await interested.settled() == PROMPTS


@in_virtual_time
async def test_frames_are_told_by_the_id_of_their_subscription() -> None:
    """One that the server made a string of is ours; another one's is not, but for a list that has changed."""
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(A), keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            one.server.acknowledge({**listen, "id": 999})
            one.server.acknowledge({**listen, "id": str(listen["id"])})
            await trio.sleep(0.1)
            assert await interested.settled() == TOOLS | uris(A)
            one.server.tell({"id": str(listen["id"])}, "notifications/resources/updated", uri=A)
            one.server.tell({"id": 999}, "notifications/resources/updated", uri=B)
            one.server.tell({"id": None}, "notifications/resources/updated", uri=B)
            one.server.tell({"id": 999}, "notifications/tools/list_changed")
            await trio.sleep(1)
            assert one.heard == [("resources", A), ("tools", None)]


# -- modern: when it ends


@in_virtual_time
async def test_a_stream_that_ends_is_opened_again_and_what_may_be_lost_is_said() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(A), keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            one.server.acknowledge(listen)
            await trio.sleep(60)
            one.server.answer(listen, {"resultType": "complete"})
            again = await one.listened()
            assert again["id"] != listen["id"]
            assert wants(again) == wants(listen)
            assert one.heard == []  # not before it is listened to again
            one.server.acknowledge(again)
            assert await interested.settled() == TOOLS | uris(A)
            assert one.heard == [("tools", None), ("resources", A)]


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("gracefully", [True, False])
@in_virtual_time
async def test_a_stream_that_is_dropped_at_once_is_asked_for_ever_more_seldom(
    acknowledged: bool, gracefully: bool
) -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True):
            await one.started(1)
            times: list[float] = []
            for _ in range(20):
                listen = await one.listened()
                times.append(trio.current_time())
                if acknowledged:
                    one.server.acknowledge(listen)
                if gracefully:
                    one.server.answer(listen, {"resultType": "complete"})
                elif acknowledged:
                    one.server.refuse(listen, -32603)
                else:
                    one.server.answer(listen, [])  # which is no result of anything
            waits = [after - before for before, after in pairwise(times)]
            assert waits[0] < 1  # a stream that ends now and then is back at once
            assert all(step * 2 * 0.9 <= wait for step, wait in enumerate(waits[:15]))
            assert all(wait >= 27 for wait in waits[16:])
            assert max(waits) <= 31
        await one.quiet(1000)


@in_virtual_time
async def test_a_stream_that_lasted_is_opened_again_at_once() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True):
            await one.started(1)
            for _ in range(5):
                listen = await one.listened()
                one.server.acknowledge(listen)
                await trio.sleep(60)
                began = trio.current_time()
                one.server.answer(listen, {"resultType": "complete"})
            await one.listened()
            assert trio.current_time() - began < 1


@in_virtual_time
async def test_a_server_that_refuses_is_not_asked_again_before_its_next_start() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(A), keep=True) as interested:
            await one.started(1)
            one.server.refuse(await one.listened(), -32601)
            assert await interested.settled() == Interest()
            interested.change(TOOLS | uris(A, B))
            assert await interested.settled() == Interest()
            await one.quiet(1000)
            one.server.channel.close()
            await one.started(2)
            one.server.acknowledge(await one.listened())
            assert await interested.settled() == TOOLS | uris(A, B)


@in_virtual_time
async def test_one_uri_that_is_refused_costs_the_others_nothing() -> None:
    """It is found among hundreds in a few requests, and the rest is listened to."""
    good = [f"file:///{number}" for number in range(200)]
    bad = "file:///1x"
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(bad, *good), keep=True) as interested:
            await one.started(1)
            asked = 0

            async def serve() -> None:
                nonlocal asked
                while True:
                    frame = await one.server.take()
                    if frame["method"] == LISTEN:
                        asked += 1
                        if bad in wants(frame).get("resourceSubscriptions", ()):
                            one.server.refuse(frame, -32602, "no such resource")
                        else:
                            one.server.acknowledge(frame)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve)
                assert await interested.settled() == TOOLS | uris(*good)
                assert asked < 40
                await trio.sleep(1000)
                assert asked < 40
                interested.change(TOOLS | uris("file:///new", bad, *good))
                await trio.sleep(1)
                assert await interested.settled() == TOOLS | uris("file:///new", *good)
                nursery.cancel_scope.cancel()


@in_virtual_time
async def test_uris_that_were_refused_long_ago_say_nothing_about_others() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True) as interested:
            await one.started(1)

            async def serve() -> None:
                while True:
                    frame = await one.server.take()
                    if frame["method"] == LISTEN:
                        if any("bad" in uri for uri in wants(frame).get("resourceSubscriptions", ())):
                            one.server.refuse(frame, -32602, "no such resource")
                        else:
                            one.server.acknowledge(frame)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve)
                for number in range(30):
                    interested.change(TOOLS | uris(f"file:///bad{number}"))
                    await trio.sleep(1)
                    assert await interested.settled() == TOOLS
                interested.change(TOOLS | uris(A, B, "file:///bad"))
                await trio.sleep(1)
                assert await interested.settled() == TOOLS | uris(A, B)
                nursery.cancel_scope.cancel()


@in_virtual_time
async def test_a_server_that_refuses_every_uri_keeps_its_lists() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True) as interested:
            await one.started(1)
            listen = await one.listened()
            one.server.acknowledge(listen)
            await interested.settled()
            interested.change(TOOLS | uris(*(f"file:///{number}" for number in range(1000))))
            asked = 0
            while True:
                with trio.move_on_after(1000) as scope:
                    one.server.refuse(await one.listened(), -32602)
                    asked += 1
                if scope.cancelled_caught:
                    break
            assert asked < 25
            assert await interested.settled() == TOOLS
            one.server.tell(listen, "notifications/tools/list_changed")
            await trio.sleep(1)
            assert one.heard == [("tools", None)]


# -- the life of the server under an interest


@pytest.mark.parametrize("opening", [modern, legacy])
@in_virtual_time
async def test_a_server_that_ends_under_a_subscription_is_started_again(opening: Any) -> None:
    """And everything that was subscribed to has changed, as far as anybody knows."""
    async with field(opening) as one:
        with one.supervisor.interested(HOST, TOOLS | uris(A), keep=True) as interested:
            for start in (1, 2):
                server = await one.started(start)
                frame = await server.take()
                if frame["method"] == LISTEN:
                    server.acknowledge(frame)
                else:
                    assert (frame["method"], frame["params"]["uri"]) == ("resources/subscribe", A)
                    server.answer(frame, {})
                assert await interested.settled() == TOOLS | uris(A)
                assert one.heard == ([] if start == 1 else [("tools", None), ("resources", A)])
                server.channel.close()
                await trio.lowlevel.checkpoint()


@in_virtual_time
async def test_a_subscription_keeps_its_server_from_falling_idle() -> None:
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True):
            await one.started(1)
            one.server.acknowledge(await one.listened())
            await trio.sleep(1000)
            assert [each.state for each in one.supervisor.instances] == ["up"]
        await trio.sleep(90)
        assert [each.state for each in one.supervisor.instances] == ["up"]
        await trio.sleep(20)
        assert list(one.supervisor.instances) == []
        assert len(one.servers) == 1


@in_virtual_time
async def test_who_has_not_subscribed_hears_of_a_server_while_it_is_up() -> None:
    """Nothing is started for it, or kept; once the server is there again, it may have changed."""
    async with field(modern) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=False) as interested:
            await trio.sleep(1000)
            assert one.servers == []
            assert await interested.settled() == Interest()
            for start in (1, 2):
                await one.lease()
                listen = await one.listened()
                one.server.acknowledge(listen)
                assert await interested.settled() == TOOLS
                assert one.heard == ([] if start == 1 else [("tools", None)])
                await trio.sleep(200)  # it falls idle
                assert list(one.supervisor.instances) == []
                assert await interested.settled() == Interest()


@in_virtual_time
async def test_a_server_that_does_not_start_settles_it_and_is_tried_again() -> None:
    broken = True

    async def opening(server: FakeServer) -> None:
        if broken:
            server.channel.close()
        else:
            await modern(server)

    async with field(opening) as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True) as interested:
            assert await interested.settled() == Interest()
            await trio.sleep(300)
            assert 5 < len(one.servers) < 50
            broken = False
            await trio.sleep(31)
            one.server.acknowledge(await one.listened())
            await trio.sleep(1)
            assert await interested.settled() == TOOLS
            assert one.heard == [("tools", None)]


# -- whose instance


def with_apps(host: str) -> Asker:
    return Asker(host, {"extensions": Raw(b'{"com.example/apps":{}}')})


@in_virtual_time
async def test_two_who_are_told_the_same_share_a_subscription() -> None:
    async with field(legacy) as one:
        with one.supervisor.interested(HOST, uris(A), keep=True) as first:
            await one.started(1)
            one.server.answer(await one.server.expect("resources/subscribe"), {})
            await first.settled()
            with one.supervisor.interested(Asker("other"), uris(A), keep=True) as second:
                assert await second.settled() == uris(A)
                await one.quiet(10)
            await one.quiet(10)
        frame = await one.server.expect("resources/unsubscribe")
        assert frame["params"]["uri"] == A
        assert len(one.servers) == 1


@in_virtual_time
async def test_two_who_are_told_different_things_have_an_instance_each() -> None:
    async with field(legacy) as one:
        with (
            one.supervisor.interested(HOST, uris(A), keep=True) as plain,
            one.supervisor.interested(with_apps("other"), uris(B), keep=True) as apps,
        ):
            wanted: set[str] = set()
            for start in (1, 2):
                server = await one.started(start)
                frame = await server.expect("resources/subscribe")
                wanted.add(frame["params"]["uri"])
                server.answer(frame, {})
            assert wanted == {A, B}
            assert (await plain.settled(), await apps.settled()) == (uris(A), uris(B))


@in_virtual_time
async def test_they_share_the_one_instance_of_a_server_that_turns_out_to_be_modern() -> None:
    async with field(modern) as one:
        with (
            one.supervisor.interested(HOST, uris(A), keep=True) as plain,
            one.supervisor.interested(with_apps("other"), uris(B), keep=True) as apps,
        ):
            await one.started(1)
            listen = await one.listened()
            assert wants(listen) == {"resourceSubscriptions": [A, B]}
            one.server.acknowledge(listen)
            assert (await plain.settled(), await apps.settled()) == (uris(A), uris(B))
            await trio.sleep(1000)
            assert [each.state for each in one.supervisor.instances] == ["up"]


@in_virtual_time
async def test_with_an_instance_for_each_call_one_more_listens() -> None:
    """It lasts as long as the subscription does, and no call goes to it; those of calls are not listened to."""
    async with field(modern, scope="call") as one:
        with one.supervisor.interested(HOST, TOOLS, keep=True) as interested:
            await one.started(1)
            one.server.acknowledge(await one.listened())
            assert await interested.settled() == TOOLS
            assert one.supervisor.lease_nowait(HOST) is None
            instance = await one.supervisor.lease(HOST)
            assert len(one.servers) == 2
            await one.quiet(1)
            one.supervisor.release(instance)
            await trio.sleep(1000)
            assert [each.state for each in one.supervisor.instances] == ["up"]
        await trio.sleep(1)
        assert list(one.supervisor.instances) == []


# -- legacy: each resource by itself


@in_virtual_time
async def test_the_lists_of_a_legacy_server_come_unasked() -> None:
    async with field(legacy) as one:
        with one.supervisor.interested(HOST, TOOLS | PROMPTS, keep=True) as interested:
            await one.started(1)
            assert await interested.settled() == TOOLS | PROMPTS
            one.server.say(method="notifications/prompts/list_changed")
            await one.quiet(1000)
            assert one.heard == [("prompts", None)]


@in_virtual_time
async def test_what_a_legacy_server_refuses_is_not_delivered() -> None:
    async with field(legacy) as one:
        with one.supervisor.interested(HOST, uris(A, B), keep=True) as interested:
            await one.started(1)
            for _ in range(2):
                frame = await one.server.expect("resources/subscribe")
                if frame["params"]["uri"] == A:
                    one.server.refuse(frame, -32002)
                else:
                    one.server.answer(frame, {})
            assert await interested.settled() == uris(B)
            one.server.say(method="notifications/resources/updated", params={"uri": B})
            await one.quiet(1000)
            assert one.heard == [("resources", B)]
            interested.change(uris(B))
            await one.quiet(1)  # nothing to take back
            interested.change(uris(A, B))
            one.server.answer(await one.server.expect("resources/subscribe"), {})  # asked anew
            assert await interested.settled() == uris(A, B)


@in_virtual_time
async def test_a_legacy_server_without_the_method_is_asked_once() -> None:
    async with field(legacy) as one:
        with one.supervisor.interested(HOST, uris(A), keep=True) as interested:
            await one.started(1)
            one.server.refuse(await one.server.expect("resources/subscribe"), -32601)
            assert await interested.settled() == Interest()
            interested.change(uris(A, B))
            assert await interested.settled() == Interest()
            await one.quiet(1000)


@in_virtual_time
async def test_a_legacy_server_that_does_not_answer_is_done_without() -> None:
    async with field(legacy) as one:
        with one.supervisor.interested(HOST, uris(A), keep=True) as interested:
            await one.started(1)
            await one.server.expect("resources/subscribe")
            began = trio.current_time()
            assert await interested.settled() == Interest()
            assert trio.current_time() - began == pytest.approx(AGREE_LIMIT, abs=1)
            await one.server.expect(CANCELLED)
            await one.quiet(1000)
