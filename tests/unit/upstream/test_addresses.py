"""Servers at an address: the same probe, sessions and restarts as for a process. Real sockets, a scripted server."""

from __future__ import annotations

import logging
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import RpcError, UpstreamGone, UpstreamStartError
from mcpx.gateway import open_gateway
from mcpx.settings import Limits, ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports.sockets import open_unix_listener
from mcpx.transports.streams import open_line_channel
from mcpx.upstream.call import Asker
from tests.support.running import in_virtual_time
from tests.unit.upstream.fakes import FakeServer, legacy, modern, silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcpx.upstream.supervisor import Supervisor

    Script = Callable[[FakeServer], Awaitable[None]]

ASKER = Asker("test")
QUICK = Limits(restart_backoff_step=0.05, restart_backoff_max=0.1)


async def dies(server: FakeServer) -> None:
    """Ends in its first call."""
    await server.open_legacy()
    await server.expect("tools/list")


async def hangs_up(server: FakeServer) -> None:
    """Ends on being probed; the next connection is opened with ``initialize``."""
    await server.take()


class Port:
    """Where a server is, and every connection it had."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)  # one per connection, the last one for all that follow
        self.connections: list[FakeServer] = []
        self.url = ""

    async def attend(self, stream: trio.SocketStream) -> None:
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        async with open_line_channel(stream, stream, max_frame=1 << 20) as channel:
            server = FakeServer(channel)  # type: ignore[arg-type]
            self.connections.append(server)
            await script(server)


@asynccontextmanager
async def listening(scheme: str, *scripts: Script) -> AsyncIterator[Port]:
    """A server at an address of that scheme."""
    port = Port(*scripts)
    async with trio.open_nursery() as nursery:
        if scheme == "tcp":
            listeners = await nursery.start(trio.serve_tcp, port.attend, 0)
            port.url = f"tcp://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            yield port
        else:
            with tempfile.TemporaryDirectory(prefix="mcpx") as folder:
                port.url = f"unix://{folder}/s"
                async with open_unix_listener(f"{folder}/s") as listener:
                    await nursery.start(trio.serve_listeners, port.attend, [listener])
                    yield port
                    nursery.cancel_scope.cancel()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def supervised(url: str, limits: Limits = QUICK, **more: Any) -> AsyncIterator[Supervisor]:
    server = ServerSettings(name="far", url=url, limits=limits, **more)
    async with open_gateway(Settings(servers=(server,))) as gateway:
        yield gateway.supervisors[0]


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
@pytest.mark.parametrize(("script", "revision"), [(legacy, LATEST_LEGACY), (modern, LATEST_MODERN)])
async def test_a_session_of_either_era(scheme: str, script: Script, revision: str) -> None:
    async with listening(scheme, script) as port:
        async with supervised(port.url) as supervisor:
            instance = await supervisor.lease(ASKER)
            assert instance.session is not None
            assert instance.session.revision == revision
            supervisor.release(instance)
        [connection] = port.connections
        assert connection.methods[0] == "server/discover"


async def test_a_request_and_its_answer() -> None:
    async def answers(server: FakeServer) -> None:
        await server.open_legacy()
        server.answer(await server.expect("tools/list"), {"tools": []})
        server.refuse(await server.expect("tools/list"), -32000)
        await server.rest()

    async with listening("tcp", answers) as port, supervised(port.url) as supervisor:
        instance = await supervisor.lease(ASKER)
        assert instance.session is not None
        assert bytes(await instance.session.ask("tools/list", {}, ASKER)) == b'{"tools": []}'
        with pytest.raises(RpcError, match="no"):
            await instance.session.ask("tools/list", {}, ASKER)


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
async def test_a_connection_that_ends_is_opened_anew(scheme: str) -> None:
    async with listening(scheme, dies, legacy) as port, supervised(port.url) as supervisor:
        instance = await supervisor.lease(ASKER)
        assert instance.session is not None
        with pytest.raises(UpstreamGone, match=r"far: The server closed the connection\."):
            await instance.session.ask("tools/list", {}, ASKER)
        supervisor.release(instance)
        instance = await supervisor.lease(ASKER)
        assert instance.restarts == 1
        assert port.connections[1].methods[0] == "initialize"  # its era is remembered


async def test_one_that_hangs_up_on_the_probe_is_connected_to_again() -> None:
    async with listening("tcp", hangs_up, legacy) as port, supervised(port.url) as supervisor:
        instance = await supervisor.lease(ASKER)
        assert instance.restarts == 0
        assert [connection.methods[0] for connection in port.connections] == ["server/discover", "initialize"]


async def test_one_that_comes_late_is_found() -> None:
    with tempfile.TemporaryDirectory(prefix="mcpx") as folder:
        path = Path(folder) / "s"
        async with supervised(f"unix://{path}") as supervisor:
            with pytest.raises(UpstreamStartError, match=f"There is no socket {path}"):
                await supervisor.lease(ASKER)
            with pytest.raises(UpstreamStartError, match=f"Not connected; it is tried again in .* {path}"):
                await supervisor.lease(ASKER)
            async with trio.open_nursery() as nursery, open_unix_listener(str(path)) as listener:
                await nursery.start(trio.serve_listeners, Port(legacy).attend, [listener])
                [instance] = supervisor.instances
                while not instance.ready:
                    await supervisor._news.wait()
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", "The server speaks TLS, which is not offered"),
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "The server speaks HTTP"),
    ],
)
async def test_a_server_of_something_else(answer: bytes, problem: str) -> None:
    async def attend(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, attend, 0)
        async with supervised(f"tcp://127.0.0.1:{listeners[0].socket.getsockname()[1]}") as supervisor:
            with pytest.raises(UpstreamStartError, match=problem):
                await supervisor.lease(ASKER)
        nursery.cancel_scope.cancel()


async def test_a_silent_server_is_given_up_after_start_timeout() -> None:
    limits = Limits(start_timeout=0.2, probe_delay=0.1)
    async with listening("tcp", silent) as port, supervised(port.url, limits) as supervisor:
        with pytest.raises(UpstreamStartError, match=r"within 0\.2 s\. Raise startTimeout if it needs longer\.$"):
            await supervisor.lease(ASKER)


@in_virtual_time
async def test_connecting_is_bounded_by_start_timeout() -> None:
    class Resolver(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_: Any) -> Any:
            await trio.sleep_forever()

        async def getnameinfo(self, *_: Any) -> Any:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    async with supervised("tcp://far.example:1", Limits(start_timeout=60)) as supervisor:
        start = trio.current_time()
        with pytest.raises(UpstreamStartError, match="could not be connected to within 60 s"):
            await supervisor.lease(ASKER)
        assert trio.current_time() == start + 60


async def test_failed_connections_back_off_like_processes(caplog: pytest.LogCaptureFixture) -> None:
    with tempfile.TemporaryDirectory(prefix="mcpx") as folder, caplog.at_level(logging.ERROR):
        async with supervised(f"unix://{folder}/s") as supervisor:
            with pytest.raises(UpstreamStartError):
                await supervisor.lease(ASKER)
            [instance] = supervisor.instances
            while instance.failures < 3:
                await supervisor._news.wait()
            assert instance.restarts == 2
    assert all("next try in 0.1 s" in message for message in caplog.messages[1:])


async def test_leaving_closes_the_connection() -> None:
    ended = trio.Event()

    async def waits(server: FakeServer) -> None:
        await legacy(server)
        ended.set()

    async with listening("unix", waits) as port:
        async with supervised(port.url) as supervisor:
            await supervisor.lease(ASKER)
        await ended.wait()


async def test_a_scheme_that_nothing_is_known_of() -> None:
    async with supervised("gopher://127.0.0.1/mcp") as supervisor:
        with pytest.raises(UpstreamStartError, match=r"There are no servers at gopher://; http://, https://, unix://"):
            await supervisor.lease(ASKER)
