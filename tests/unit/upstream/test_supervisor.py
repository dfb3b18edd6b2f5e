"""Instances of one server: started once, shared or kept apart, restarted with a backoff, bounded, retired. Virtual
time.
"""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from msgspec import Raw

from mcpx.errors import UpstreamGone, UpstreamStartError
from mcpx.settings import Limits, ServerSettings
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.upstream.call import Asker, Reply, Request
from mcpx.upstream.eras import Remembered
from mcpx.upstream.supervisor import Instance, Supervisor
from tests.support.running import run_in_virtual_time
from tests.unit.upstream.fakes import FakeServer, initialized, legacy, modern, silent, surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

LIMITS = Limits(restart_backoff_step=2, restart_backoff_max=5, instance_idle=100, start_timeout=60)


@asynccontextmanager
async def supervised(
    script: Callable[[FakeServer], Awaitable[None]],
    started: list[FakeServer],
    *,
    limits: Limits = LIMITS,
    folder: str | None = None,
    scope: Any = "host",
    ladder: float = 0,
) -> AsyncGenerator[Supervisor]:
    """A supervisor whose server plays ``script`` at each start."""
    server = ServerSettings(name="fake", builtin="demo", limits=limits, scope=scope)
    async with trio.open_nursery() as nursery:
        yield Supervisor(
            server,
            surroundings(script, started, ladder=ladder),
            folder,
            nursery,
            heard=lambda *news: None,
            came_up=lambda supervisor: None,
        )
        nursery.cancel_scope.cancel()


def with_apps(host: str, settings: str = "{}") -> Asker:
    """An asker that declares an extension, which mcpx relays and which asks nothing."""
    return Asker(host, {"extensions": Raw(b'{"com.example/apps":%s}' % settings.encode())})


async def lease(supervisor: Supervisor, asker: Asker) -> Instance:
    instance = await supervisor.lease(asker)
    supervisor.release(instance)
    return instance


def test_nothing_is_started_before_it_is_needed() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(legacy, started):
            await trio.sleep(1000)

        assert started == []

    run_in_virtual_time(test)


def test_many_at_once_start_one_instance() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        got: list[Instance] = []
        async with supervised(legacy, started) as supervisor:

            async def one(host: str) -> None:
                got.append(await lease(supervisor, Asker(host)))

            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(one, str(number))

            assert len(started) == 1
            assert len({id(instance) for instance in got}) == 1

    run_in_virtual_time(test)


def test_hosts_that_declared_the_same_share_an_instance_of_a_legacy_server_and_others_do_not() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(legacy, started) as supervisor:
            plain = await lease(supervisor, Asker("a"))
            apps = await lease(supervisor, with_apps("b"))
            spelled = await lease(supervisor, Asker("c", {"extensions": Raw(b'{ "com.example/apps" : { } }')}))
            other = await lease(supervisor, with_apps("d", '{"x":1}'))

            assert apps is not plain
            assert spelled is apps
            assert other is not apps
            assert len(started) == 3

    run_in_virtual_time(test)


def test_a_modern_server_needs_one_instance_whatever_hosts_declare() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(modern, started) as supervisor:
            first = await lease(supervisor, with_apps("a"))
            second = await lease(supervisor, Asker("b"))

            assert first is second
            assert len(started) == 1

    run_in_virtual_time(test)


def test_two_that_start_before_the_era_is_known_end_as_one_on_a_modern_server() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        got: list[Instance] = []
        async with supervised(modern, started) as supervisor:

            async def one(asker: Asker) -> None:
                got.append(await lease(supervisor, asker))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(one, with_apps("a"))
                nursery.start_soon(one, Asker("b"))

            assert got[0] is got[1]
            assert len(started) == 1

    run_in_virtual_time(test)


def test_two_that_wait_for_a_server_that_proves_legacy_get_an_instance_each() -> None:
    """What one of them declared, the other one's instance must not have been told."""

    async def test() -> None:
        started: list[FakeServer] = []
        got: dict[str, Instance] = {}
        async with supervised(legacy, started) as supervisor:
            supervisor.memory.remember(Remembered("modern", LATEST_MODERN))

            async def one(asker: Asker) -> None:
                got[asker.host] = await lease(supervisor, asker)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(one, with_apps("a"))
                nursery.start_soon(one, Asker("b"))
                nursery.start_soon(one, with_apps("c"))

            assert got["a"] is got["c"]
            assert got["b"] is not got["a"]
            assert len(started) == 2

    run_in_virtual_time(test)


def test_scope_shared_is_told_nothing_and_scope_call_starts_one_each() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(legacy, started, scope="shared") as supervisor:
            first = await lease(supervisor, with_apps("a"))
            assert await lease(supervisor, Asker("b")) is first
            assert started[0].seen[1]["params"]["capabilities"] == {}
        started.clear()
        async with supervised(legacy, started, scope="call") as supervisor:
            one = await supervisor.lease(Asker("a"))
            other = await supervisor.lease(Asker("a"))
            assert one is not other
            supervisor.release(one)
            supervisor.release(other)
            await trio.testing.wait_all_tasks_blocked()
            assert list(supervisor.instances) == []

    run_in_virtual_time(test)


def test_a_start_that_fails_is_told_at_once_and_tried_again_with_a_growing_wait() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        times: list[float] = []

        async def refuses(server: FakeServer) -> None:
            times.append(trio.current_time())
            server.refuse(await server.expect("server/discover"), -32601)
            server.refuse(await server.expect("initialize"), -32000, "no licence")

        async with supervised(refuses, started) as supervisor:
            with pytest.raises(UpstreamStartError, match="no licence"):
                await lease(supervisor, Asker("a"))
            with pytest.raises(UpstreamStartError, match=r"started again in 2 s\..*no licence"):
                await lease(supervisor, Asker("a"))
            await trio.sleep(17)

        waits = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
        assert all(wait <= bound for wait, bound in zip(waits, (2, 4, 5, 5), strict=False))
        assert all(wait >= 0.9 * bound for wait, bound in zip(waits, (2, 4, 5, 5), strict=False))
        assert len(waits) >= 3

    run_in_virtual_time(test)


def test_a_server_that_cannot_be_started_is_left_alone_when_nobody_asks_for_it() -> None:
    """A token that is refused, above all, is not shown again for as long as mcpx runs."""

    async def test() -> None:
        started: list[FakeServer] = []

        async def refuses(server: FakeServer) -> None:
            server.refuse(await server.expect("server/discover"), -32601)
            server.refuse(await server.expect("initialize"), -32000, "no licence")

        async with supervised(refuses, started) as supervisor:
            with pytest.raises(UpstreamStartError):
                await lease(supervisor, Asker("a"))
            await trio.sleep(LIMITS.instance_idle + LIMITS.restart_backoff_max)
            assert list(supervisor.instances) == []
            tries = len(started)
            await trio.sleep(10 * LIMITS.instance_idle)
            assert len(started) == tries
            with pytest.raises(UpstreamStartError, match="no licence"):
                await lease(supervisor, Asker("a"))
            assert len(started) == tries + 1

    run_in_virtual_time(test)


def test_a_crash_ends_the_call_with_the_reason_and_the_next_call_waits_for_the_restart() -> None:
    async def test() -> None:
        started: list[FakeServer] = []

        async def crashes(server: FakeServer) -> None:
            await server.open_legacy()
            request = await server.expect("tools/call")
            if len(started) == 2:
                server.answer(request, {"content": []})
                await server.rest()

        async def call(supervisor: Supervisor) -> object:
            instance = await supervisor.lease(Asker("a"))
            try:
                assert instance.session is not None
                request = Request("tools/call", {"name": Raw(b'"x"')}, instance.session.revision, Asker("a"))
                with instance.session.call(request) as pending:
                    return await pending.next()
            finally:
                supervisor.release(instance)

        async with supervised(crashes, started) as supervisor:
            with pytest.raises(UpstreamGone, match="ended"):
                await call(supervisor)
            assert isinstance(await call(supervisor), Reply)

    run_in_virtual_time(test)


def test_an_instance_that_nobody_uses_is_retired_and_one_in_use_is_not() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(modern, started) as supervisor:
            instance = await supervisor.lease(Asker("a"))
            await trio.sleep(1000)
            assert instance.state == "up"
            supervisor.release(instance)
            await trio.sleep(99)
            assert instance.state == "up"
            await trio.sleep(2)
            assert instance.state == "ended"
            assert list(supervisor.instances) == []

    run_in_virtual_time(test)


def test_at_the_bound_the_least_recently_used_idle_instance_makes_room() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        limits = Limits(max_instances=2, instance_idle=1000)
        async with supervised(legacy, started, limits=limits) as supervisor:
            first = await lease(supervisor, with_apps("a", '{"n":1}'))
            await trio.sleep(1)
            second = await lease(supervisor, with_apps("a", '{"n":2}'))
            await trio.sleep(1)
            await lease(supervisor, with_apps("a", '{"n":3}'))

            assert first.state == "ended"
            assert second.state == "up"

    run_in_virtual_time(test)


def test_at_the_bound_with_all_busy_a_new_one_waits_for_its_turn() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        limits = Limits(max_instances=1)
        async with supervised(legacy, started, limits=limits) as supervisor:
            busy = await supervisor.lease(with_apps("a", '{"n":1}'))
            waited = trio.Event()

            async def second() -> None:
                await lease(supervisor, with_apps("b", '{"n":2}'))
                waited.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(second)
                await trio.sleep(10)
                assert not waited.is_set()
                supervisor.release(busy)
            assert busy.state == "ended"

    run_in_virtual_time(test)


def test_a_server_that_never_opens_a_session_is_given_up_after_the_start_timeout() -> None:
    async def test() -> None:
        started: list[FakeServer] = []

        async with supervised(silent, started) as supervisor:
            start = trio.current_time()
            with pytest.raises(UpstreamStartError, match="within 60 s"):
                await lease(supervisor, Asker("a"))
            assert trio.current_time() - start == 60

    run_in_virtual_time(test)


def test_a_start_that_failed_is_told_before_the_server_has_been_ended() -> None:
    async def test() -> None:
        started: list[FakeServer] = []

        async with supervised(silent, started, limits=Limits(start_timeout=1), ladder=5) as supervisor:
            with pytest.raises(UpstreamStartError, match="within 1 s"):
                await lease(supervisor, Asker("a"))
            assert trio.current_time() < 2

    run_in_virtual_time(test)


def test_the_era_is_remembered_across_restarts_of_mcpx(tmp_path: Path) -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(legacy, started, folder=str(tmp_path)) as supervisor:
            await lease(supervisor, Asker("a"))

        async def opened_at_once(server: FakeServer) -> None:
            server.answer(await server.expect("initialize"), initialized())
            await server.rest()

        async with supervised(opened_at_once, started, folder=str(tmp_path)) as supervisor:
            await lease(supervisor, Asker("a"))
            assert started[-1].methods[0] == "initialize"

    run_in_virtual_time(test)


def test_a_remembered_era_that_leads_nowhere_is_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(modern, started, folder=str(tmp_path)) as supervisor:
            await lease(supervisor, Asker("a"))

        async with supervised(silent, started, folder=str(tmp_path)) as supervisor:
            with pytest.raises(UpstreamStartError):
                await lease(supervisor, Asker("a"))
            assert supervisor.memory.value.era is None

    run_in_virtual_time(test)


async def slowly(server: FakeServer) -> None:
    await trio.sleep(5)
    await server.open_legacy()
    await server.rest()


def test_at_the_bound_nobody_pushes_out_a_start_that_somebody_waits_for() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        served: list[str] = []
        async with supervised(slowly, started, limits=Limits(max_instances=1)) as supervisor:

            async def one(number: str) -> None:
                await lease(supervisor, with_apps(number, f'{{"x":{number}}}'))
                served.append(number)

            async with trio.open_nursery() as nursery:
                for number in ("1", "2", "3"):
                    nursery.start_soon(one, number)

        assert sorted(served) == ["1", "2", "3"]
        assert len(started) == 3

    run_in_virtual_time(test)


def test_scope_call_leaves_no_instance_of_a_call_that_was_cancelled_or_whose_start_failed() -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(slowly, started, scope="call") as supervisor:
            with trio.move_on_after(2):
                await supervisor.lease(Asker("a"))
            await trio.sleep(1)
            assert list(supervisor.instances) == []

        async def refuses(server: FakeServer) -> None:
            server.refuse(await server.expect("server/discover"), -32601)
            server.refuse(await server.expect("initialize"), -32000, "no licence")

        started.clear()
        async with supervised(refuses, started, scope="call") as supervisor:
            with pytest.raises(UpstreamStartError, match="no licence"):
                await supervisor.lease(Asker("a"))
            await trio.sleep(1)
            assert list(supervisor.instances) == []
            await trio.sleep(1000)
            assert len(started) == 1

    run_in_virtual_time(test)


def test_a_server_that_crashes_again_and_again_is_left_alone_once_nobody_has_used_it_for_long() -> None:
    async def test() -> None:
        started: list[FakeServer] = []

        async def crashes(server: FakeServer) -> None:
            await server.open_legacy()
            await trio.sleep(1)

        async with supervised(crashes, started) as supervisor:
            await lease(supervisor, Asker("a"))
            await trio.sleep(50)
            assert len(started) > 3
            await trio.sleep(60)
            assert list(supervisor.instances) == []
            starts = len(started)
            await trio.sleep(1000)
            assert len(started) == starts

    run_in_virtual_time(test)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b'{"era":"stone"}',
        b"[" * 50_000,
        b'{"capabilities":{"x":%s1%s}}' % (b"[" * 50_000, b"]" * 50_000),
    ],
    ids=["empty", "no text", "null", "no era", "unfinished", "too deep"],
)
def test_what_somebody_else_wrote_into_the_state_folder_is_as_good_as_nothing(tmp_path: Path, content: bytes) -> None:
    async def test() -> None:
        started: list[FakeServer] = []
        async with supervised(legacy, started, folder=str(tmp_path)) as supervisor:
            await lease(supervisor, Asker("a"))
        [remembered] = (tmp_path / "servers").iterdir()
        remembered.write_bytes(content)
        async with supervised(legacy, started, folder=str(tmp_path)) as supervisor:
            await lease(supervisor, Asker("a"))
            assert started[-1].methods[0] == "server/discover"

    run_in_virtual_time(test)
