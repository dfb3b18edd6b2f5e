"""Serving a socket: any number of hosts, none of which notices another. A gateway of the test's own, real sockets."""

from __future__ import annotations

import errno
import logging
import os
import socket
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio
import trio.testing

import mcpx.host.socket
from mcpx.demo import BUILTINS
from mcpx.errors import McpxError
from mcpx.gateway import open_gateway
from mcpx.host import Service, serve_socket
from mcpx.host.ending import SERVER, Ending
from mcpx.settings import ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports.streams import open_line_channel
from mcpx.upstream.call import Change, Progress
from tests.support.running import in_virtual_time
from tests.support.waiting import PATIENCE
from tests.unit.host.talk import FakeGateway, Talk, raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcpx.gateway.gateway import Gateway

MAX_FRAME = 1 << 20


class Served(NamedTuple):
    path: str
    ending: Ending
    ended: trio.Event


@asynccontextmanager
async def serving(gateway: FakeGateway | Gateway) -> AsyncIterator[Served]:
    """Serve a socket; on leaving it is stopped, and nothing may be left of it."""
    with tempfile.TemporaryDirectory(prefix="mcpx") as folder:
        served = Served(f"{folder}/s", Ending(), trio.Event())

        async def serve(*, task_status: trio.TaskStatus[None]) -> None:
            await serve_socket(Service(gateway), served.path, served.ending, task_status=task_status)  # type: ignore[arg-type]
            served.ended.set()

        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            yield served
            served.ending.stop.set()
        assert names(folder) == []
    if isinstance(gateway, FakeGateway):
        assert not gateway.watching
        assert all(call.state in ("done", "cancelled") for call in gateway.calls)


def names(folder: str) -> list[str]:
    return sorted(one.name for one in Path(folder).iterdir())


@asynccontextmanager
async def host(served: Served) -> AsyncIterator[Talk]:
    """A host that is connected; on leaving it is gone at once, whatever is under way."""
    stream = await trio.open_unix_socket(served.path)
    async with open_line_channel(stream, stream, max_frame=MAX_FRAME) as channel, trio.open_nursery() as nursery:
        talk = Talk(channel)  # type: ignore[arg-type]
        nursery.start_soon(talk.listen)
        yield talk
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that nothing tells of."""
    while not condition():
        await trio.lowlevel.checkpoint()


async def ping(talk: Talk, id: Any) -> None:
    await talk.ask(id, "ping")
    assert await talk.hear() == {"jsonrpc": "2.0", "id": id, "result": {}}


async def closed(served: Served) -> bool:
    """Whether a new connection is closed without a word."""
    async with await trio.open_unix_socket(served.path) as stream:
        with trio.move_on_after(PATIENCE):
            return await stream.receive_some() == b""
    return False


async def test_hosts_of_both_eras_with_the_same_ids_and_tokens() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, host(served) as old, host(served) as new:
        assert (await old.shake(LATEST_LEGACY))["protocolVersion"] == LATEST_LEGACY
        await old.call(7, progressToken="p")
        await until(lambda: len(gateway.calls) == 1)
        await new.call(7, LATEST_MODERN, progressToken="p")
        await until(lambda: len(gateway.calls) == 2)
        first, second = gateway.calls
        assert [call.request.asker.host for call in gateway.calls] == ["socket 1", "socket 2"]
        assert [call.request.revision for call in gateway.calls] == [LATEST_LEGACY, LATEST_MODERN]
        first.put(Progress({"progress": raw(1)}))
        assert (await old.hear())["params"] == {"progressToken": "p", "progress": 1}
        second.put(Progress({"progress": raw(2)}))
        assert (await new.hear())["params"] == {"progressToken": "p", "progress": 2}
        second.reply(raw({"content": [{"type": "text", "text": "for the new"}]}))
        first.reply(raw({"content": [{"type": "text", "text": "for the old"}]}))
        assert [(await talk.hear())["result"]["content"][0]["text"] for talk in (old, new)] == [
            "for the old",
            "for the new",
        ]
        assert await old.hear_all() == await new.hear_all() == []


async def test_a_cancellation_reaches_its_own_request_alone() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, host(served) as one, host(served) as other:
        for number, talk in enumerate((one, other), 1):
            await talk.call(7)
            await until(lambda number=number: len(gateway.calls) == number)
        await other.notify("notifications/cancelled", {"requestId": 7})
        await until(lambda: gateway.calls[1].state == "cancelled")
        assert gateway.calls[0].state == "open"
        gateway.calls[0].reply()
        assert (await one.hear())["result"]["content"]
        await ping(other, 8)  # and nothing for 7 before it


async def test_changes_are_for_whoever_was_promised_them() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, host(served) as old, host(served) as new:
        await old.shake(LATEST_LEGACY)
        await new.ask(1, "server/discover", revision=LATEST_MODERN)
        await new.hear()
        await until(lambda: gateway.watching)
        gateway.change(Change("one", "tools"))
        assert (await old.hear())["method"] == "notifications/tools/list_changed"
        assert await new.hear_all() == []


async def test_a_host_that_leaves_mid_call_cancels_its_call_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcpx.host.socket, "DRAIN", 0.05)
    gateway = FakeGateway()
    async with serving(gateway) as served, host(served) as stays:
        await stays.call(1)
        await until(lambda: len(gateway.calls) == 1)
        async with host(served) as leaves:
            await leaves.call(1)
            await until(lambda: len(gateway.calls) == 2)
        await until(lambda: gateway.calls[1].state == "cancelled")
        assert gateway.calls[0].state == "open"
        gateway.calls[0].reply()
        assert (await stays.hear())["id"] == 1


async def test_a_host_that_has_no_more_to_say_still_hears_what_it_is_owed() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, host(served) as talk:
        await talk.call(1)
        await until(lambda: gateway.calls)
        await talk.channel.flush()
        await talk.channel._send_stream.send_eof()  # type: ignore[attr-defined]
        gateway.calls[0].reply()
        assert (await talk.hear())["result"]["content"]


async def test_a_host_that_does_not_read_holds_up_nobody() -> None:
    gateway = FakeGateway(exit_budget_server=2.6)
    async with serving(gateway) as served, await trio.open_unix_socket(served.path) as deaf, host(served) as other:
        line = b'{"jsonrpc":"2.0","id":"%d' + b"x" * 2000 + b'","method":"ping"}\n'
        with trio.move_on_after(0.3):
            for number in range(100_000):  # until mcpx takes no more of them
                await deaf.send_all(line % number)
        await ping(other, 1)
        await other.call(2)
        await until(lambda: gateway.calls)
        gateway.calls[0].reply()
        assert (await other.hear())["id"] == 2
        start = trio.current_time()
        served.ending.stop.set()
        await served.ended.wait()
        assert trio.current_time() - start < 2.6 - SERVER.ladder + 1  # the second is a busy machine's


async def test_no_more_than_so_many_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeGateway(max_connections=2)) as served, host(served) as one:
        async with host(served) as two:
            await ping(one, 1)
            await ping(two, 1)
            with caplog.at_level(logging.WARNING):
                assert await closed(served)
                assert await closed(served)
            assert [record.getMessage() for record in caplog.records] == [
                "A host was refused: 2 are connected already (maxConnections)"
            ]
            await ping(two, 2)
        await until(lambda: "So were 1 more, until now" in caplog.messages)
        async with host(served) as three:
            await ping(three, 1)
        await ping(one, 2)


async def test_fifty_hosts_come_and_go_and_leave_nothing() -> None:
    gateway = FakeGateway()

    def counts() -> tuple[int, int, int]:
        return trio.lowlevel.current_statistics().tasks_living, len(os.listdir("/dev/fd")), len(gateway.watching)  # noqa: PTH208

    async def come_and_go(number: int) -> None:
        async with host(served) as talk:
            if number % 2:
                await talk.shake(LATEST_LEGACY)
            await ping(talk, number)
            await talk.write(b"no JSON")
            assert (await talk.hear())["error"]["code"] == -32700

    async with serving(gateway) as served:
        before = counts()
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for number in range(25):
                    nursery.start_soon(come_and_go, number)
        await until(lambda: counts() == before)


async def test_they_leave_nothing_in_a_real_gateway_either() -> None:
    """Some of them leave in the middle of a call, each of them with a handshake of its own."""

    def counts() -> tuple[int, int, int, int, int]:
        instances = [one for supervisor in gateway.supervisors for one in supervisor.instances]
        descriptors = len(os.listdir("/dev/fd"))  # noqa: PTH208
        tasks = trio.lowlevel.current_statistics().tasks_living
        return tasks, descriptors, len(gateway._watches), len(instances), sum(one.leases for one in instances)

    async def come_and_go(number: int) -> None:
        async with host(served) as talk:
            await talk.shake(LATEST_LEGACY, clientInfo={"name": f"host {number}", "version": "1"})
            await talk.ask(1, "tools/call", {"name": "demo__echo", "arguments": {"text": str(number)}})
            assert (await talk.hear())["result"]["content"][0]["text"] == str(number)
            if number % 5 == 0:
                await talk.ask(2, "tools/call", {"name": "demo__slow", "arguments": {"seconds": 30}})

    settings = Settings(servers=(ServerSettings(name="demo", builtin="demo"),))
    async with open_gateway(settings, builtins=BUILTINS) as gateway, serving(gateway) as served:
        await come_and_go(1)  # which starts the server
        await until(lambda: not gateway._watches)
        await trio.testing.wait_all_tasks_blocked(0.1)  # its connection has ended as well
        before = counts()
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(come_and_go, number)
        await until(lambda: counts() == before)


async def test_at_the_end_what_is_owed_is_waited_for_and_nobody_new_gets_in() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, host(served) as talk:
        await talk.call(1)
        await until(lambda: gateway.calls)
        served.ending.stop.set()
        await until(lambda: not names(os.path.dirname(served.path)))  # noqa: PTH120
        with pytest.raises(OSError, match="No such file"):
            await trio.open_unix_socket(served.path)
        await talk.ask(2, "ping")
        assert (await talk.hear())["error"]["message"] == "mcpx is stopping"
        assert not served.ended.is_set()
        gateway.calls[0].reply()
        assert (await talk.hear())["result"]["content"]
        await served.ended.wait()
        assert gateway.exit_plan.end is not None
        assert gateway.exit_plan.end == pytest.approx(trio.current_time() + 5, abs=1)


async def test_with_no_host_the_end_is_planned_all_the_same() -> None:
    gateway = FakeGateway()
    async with serving(gateway):
        pass
    assert gateway.exit_plan.end is not None


@in_virtual_time
async def test_the_shares_of_the_exit_budget() -> None:
    gateway, ending = FakeGateway(), Ending()
    ending.plan_for(gateway, alone=SERVER, hastened=SERVER)  # type: ignore[arg-type]
    assert ending.drain() == pytest.approx(5 - 2 - 0.5)
    assert gateway.exit_plan.end == trio.current_time() + 5
    await trio.sleep(1)
    assert not ending.signalled()
    assert gateway.exit_plan.end == trio.current_time() + 4
    assert ending.signalled()
    assert gateway.exit_plan.end == trio.current_time()


async def test_a_path_that_is_taken_is_an_error() -> None:
    async with serving(FakeGateway()) as served:
        for ending in (None, Ending()):  # and no group of them
            with pytest.raises(McpxError, match="Another server listens"):
                await serve_socket(Service(FakeGateway()), served.path, ending)  # type: ignore[arg-type]


async def test_no_descriptors_left_for_another_host_is_not_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ECONNABORTED, "gone again")]
    accept = trio.SocketListener.accept

    async def failing(self: trio.SocketListener) -> trio.SocketStream:
        if failures:
            await trio.lowlevel.checkpoint()
            raise failures.pop(0)
        return await accept(self)

    monkeypatch.setattr(trio.SocketListener, "accept", failing)
    async with serving(FakeGateway()) as served, host(served) as talk:
        await ping(talk, 1)
    assert "No more hosts can connect for now: Too many open files" in caplog.messages


async def test_a_host_that_is_reset_is_one_that_left() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served:
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(served.path)
            rude.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            await until(lambda: _readable(rude))  # unread when it closes, which is a reset
        async with host(served) as talk:
            await ping(talk, 1)


def _readable(one: socket.socket) -> bool:
    try:
        return bool(one.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False
