"""Servers behind a WebSocket: the same probe, sessions and restarts as for a process. Real sockets."""

from __future__ import annotations

import logging
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.demo import demo_app
from mcpx.errors import UpstreamError, UpstreamGone, UpstreamStartError
from mcpx.gateway import open_gateway
from mcpx.settings import KiB, Limits, ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.upstream.call import Asker
from tests.support.certificate import make_certificate, server_context
from tests.support.waiting import PATIENCE
from tests.support.websockets import Port, listening, playing, serving
from tests.unit.upstream.fakes import FakeServer, discovered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trio_websocket import WebSocketRequest

    from mcpx.upstream.session import Session
    from mcpx.upstream.supervisor import Supervisor

ASKER = Asker("test")
QUICK = Limits(restart_backoff_step=0.05, restart_backoff_max=0.1)
HEADERS = {"Authorization": "Bearer very-secret"}


async def legacy(server: FakeServer) -> None:
    await server.open_legacy()
    await server.rest()


async def modern(server: FakeServer) -> None:
    server.answer(await server.expect("server/discover"), discovered())
    await server.rest()


@asynccontextmanager
async def supervised(url: str, limits: Limits = QUICK, **more: Any) -> AsyncIterator[Supervisor]:
    server = ServerSettings(name="far", url=url, limits=limits, **more)
    async with open_gateway(Settings(servers=(server,))) as gateway:
        yield gateway.supervisors[0]


@asynccontextmanager
async def session_with(supervisor: Supervisor) -> AsyncIterator[Session]:
    instance = await supervisor.lease(ASKER)
    assert instance.session is not None
    try:
        yield instance.session
    finally:
        supervisor.release(instance)


async def why_not(url: str, limits: Limits = QUICK, headers: dict[str, str] = HEADERS) -> str:
    """Why a server does not start, which shows nothing of the headers."""
    async with supervised(url, limits, headers=headers) as supervisor:
        with pytest.raises(UpstreamStartError) as caught:
            await supervisor.lease(ASKER)
    assert "secret" not in caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize(("script", "revision"), [(legacy, LATEST_LEGACY), (modern, LATEST_MODERN)])
@pytest.mark.parametrize("subprotocol", ["mcp", None])
async def test_a_session_of_either_era(script: Any, revision: str, subprotocol: str | None) -> None:
    async with listening(playing(script, subprotocol=subprotocol)) as port:
        async with supervised(port.url + "?a=b", headers=HEADERS) as supervisor, session_with(supervisor) as session:
            assert session.revision == revision
        [request] = port.requests
        assert request.path == "/mcp?a=b"
        assert request.proposed_subprotocols == ("mcp",)
        assert (b"authorization", b"Bearer very-secret") in request.headers
        [connection] = port.sockets
        assert connection.closed is not None
        assert connection.closed.code == 1000  # closed properly


async def test_an_app_behind_it() -> None:
    text = "é😀" * 100_000
    async with (
        listening(serving(demo_app().open_channel)) as port,
        supervised(port.url) as supervisor,
        session_with(supervisor) as session,
    ):
        answer = await session.ask("tools/call", {"name": "echo", "arguments": {"text": text}}, ASKER)
        assert text in bytes(answer).decode()
        with trio.fail_after(PATIENCE):
            await port.sockets[0].ping()


async def test_one_that_closes_in_the_middle_of_a_call_is_connected_to_again() -> None:
    async def goes_away(server: FakeServer) -> None:
        await server.open_legacy()
        await server.expect("tools/list")
        await port.sockets[0].aclose(1012, "new version")

    async with listening(playing(goes_away, legacy)) as port, supervised(port.url) as supervisor:
        async with session_with(supervisor) as session:
            with pytest.raises(UpstreamGone, match=r"code 1012 \(service restart\): new version\."):
                await session.ask("tools/list", {}, ASKER)
        instance = await supervisor.lease(ASKER)
        assert instance.restarts == 1
        assert len(port.requests) == 2


async def test_one_that_dies_without_closing() -> None:
    async def dies(server: FakeServer) -> None:
        await server.open_legacy()
        await server.expect("tools/list")
        await port.sockets[0]._stream.aclose()

    async with (
        listening(playing(dies, legacy)) as port,
        supervised(port.url) as supervisor,
        session_with(supervisor) as session,
    ):
        with pytest.raises(UpstreamGone, match="The server closed the connection without a word"):
            await session.ask("tools/list", {}, ASKER)


async def test_one_that_hangs_up_on_the_probe_is_opened_with_initialize() -> None:
    async def hangs_up(server: FakeServer) -> None:
        await server.expect("server/discover")

    async def takes_initialize(server: FakeServer) -> None:
        first.append(await server.take())
        server.answer(first[0], {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "serverInfo": {"name": "a"}})
        await server.rest()

    first: list[dict[str, Any]] = []
    async with listening(playing(hangs_up, takes_initialize)) as port, supervised(port.url) as supervisor:
        instance = await supervisor.lease(ASKER)
        assert instance.restarts == 0
    assert first[0]["method"] == "initialize"


async def test_a_message_over_max_frame_ends_the_connection_with_that_reason() -> None:
    async def long_winded(server: FakeServer) -> None:
        await server.open_legacy()
        server.answer(await server.expect("tools/list"), {"tools": [], "x": "x" * 2 * KiB})
        await server.rest()

    limits = Limits(max_frame=KiB, restart_backoff_step=0.05)
    async with (
        listening(playing(long_winded)) as port,
        supervised(port.url, limits) as supervisor,
        session_with(supervisor) as session,
    ):
        with pytest.raises(UpstreamError, match=r"longer than maxFrame allows \(1024 bytes\)"):
            await session.ask("tools/list", {}, ASKER)


@pytest.mark.parametrize(
    ("status", "said"), [(401, '"headers": {"Authorization": "Bearer ..."}'), (404, "path"), (301, "does not follow")]
)
async def test_a_refusal(status: int, said: str, caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(port: Port, request: WebSocketRequest) -> None:
        echo = dict(request.headers)[b"authorization"]  # a server may say back what it was told
        await request.reject(status, extra_headers=[(b"X-Was", echo), (b"Location", b"/else")], body=b"was " + echo)

    with caplog.at_level(logging.DEBUG, "mcpx"):
        async with listening(refuse) as port:
            why = await why_not(port.url)
            assert len(port.requests) == 1  # redirects are not followed
    assert f"HTTP status {status}" in why
    assert said in why
    assert "secret" not in caplog.text


async def test_a_port_that_nobody_listens_on() -> None:
    with socket.socket() as unused:  # bound and not listening: nobody else gets the number meanwhile
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert (
            await why_not(f"ws://127.0.0.1:{port}/") == f"127.0.0.1:{port} cannot be connected to: Connection refused."
        )
        assert "Connection refused" in await why_not(f"wss://127.0.0.1:{port}/")


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[str]:
    """A server that says one thing to whoever comes, and then nothing more."""

    async def attend(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, attend, 0)
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("scheme", "answer", "said"),
    [
        ("ws", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "there is no WebSocket at this URL"),
        ("ws", b"220 mail.example ESMTP\r\n", "does not speak WebSocket"),
        ("ws", b"\x15\x03\x01\x00\x02\x02\x46", "should begin with wss://"),
        ("wss", b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS; its URL should begin with ws://"),
    ],
)
async def test_a_server_of_something_else(scheme: str, answer: bytes, said: str) -> None:
    async with saying(answer) as where:
        assert said in await why_not(f"{scheme}://{where}")


@pytest.mark.parametrize(("scheme", "said"), [("ws", "WebSocket handshake in time"), ("wss", "connected to in time")])
async def test_a_handshake_that_takes_too_long(scheme: str, said: str) -> None:
    async with saying(b"") as where:
        assert said in await why_not(f"{scheme}://{where}", Limits(start_timeout=0.2, probe_delay=0.1))


async def test_one_that_accepts_and_never_answers() -> None:
    async def silent(server: FakeServer) -> None:
        await server.rest()

    async with listening(playing(silent)) as port:
        assert "did not open a session within 0.2 s" in await why_not(
            port.url, Limits(start_timeout=0.2, probe_delay=0.1)
        )


async def test_a_header_that_cannot_be_sent() -> None:
    headers = {"X-Token": "very-secret\x01"}
    assert "The value of the header X-Token" in await why_not("ws://127.0.0.1:1/", headers=headers)


# -- TLS


async def test_a_certificate_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    text = "x" * 300_000
    async with listening(serving(demo_app().open_channel), server_context(certificate)) as port:
        for url in (port.url, port.url.replace("127.0.0.1", "localhost")):
            assert url.startswith("wss://")
            async with supervised(url) as supervisor, session_with(supervisor) as session:
                answer = await session.ask("tools/call", {"name": "echo", "arguments": {"text": text}}, ASKER)
                assert text in bytes(answer).decode()


async def test_a_certificate_that_is_not(tmp_path: Path) -> None:
    async with listening(serving(demo_app().open_channel), server_context(make_certificate(tmp_path))) as port:
        why = await why_not(port.url)
        assert f"The certificate of 127.0.0.1:{port.number} is not accepted: self-signed certificate. If it" in why
        assert "SSL_CERT_FILE" in why
        assert port.requests == []  # nothing was said to it, the headers least of all


async def test_a_certificate_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path, "example.org", b"\x0a\0\0\1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with listening(serving(demo_app().open_channel), server_context(certificate)) as port:
        assert "IP address mismatch" in await why_not(port.url)
        assert port.requests == []
