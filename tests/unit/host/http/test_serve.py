"""What there is at which path, who is let in, and how all of it ends. A gateway of the test's own, a real port."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import trio

from mcpx.errors import McpxError
from mcpx.host.ending import Ending
from mcpx.host.http import Access, plan_access, serve_http
from mcpx.host.service import Service
from mcpx.settings import Limits
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05
from mcpx.transports.http_server import server_tls
from tests.support.certificate import make_certificate
from tests.support.http_wire import JSON, wired
from tests.support.waiting import PATIENCE
from tests.unit.host.http.serving import serving, sse_host, sse_stream, until, ws_host
from tests.unit.host.talk import FakeGateway, raw

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

TOKEN = "s3cret-t0ken"
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {}}

PATHS = ["/mcp", "/sse", "/messages", "/ws", "/v1/protocol", "/v1/status", "/v1/health", "/", "/nothing"]


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/", 404, None),
        ("POST", "/", 404, None),
        ("GET", "/v1", 404, None),
        ("GET", "/mcp/x", 404, None),
        ("PUT", "/mcp", 405, {"POST", "GET", "DELETE"}),
        ("POST", "/sse", 405, {"GET"}),
        ("GET", "/messages", 405, {"POST"}),
        ("POST", "/ws", 405, {"GET"}),
        ("GET", "/ws", 426, None),
        ("POST", "/v1/status", 405, {"GET", "HEAD"}),
        ("DELETE", "/v1/health", 405, {"GET", "HEAD"}),
        ("OPTIONS", "/v1/health", 405, {"GET", "HEAD"}),
        ("GET", "/v1/health", 200, None),
        ("HEAD", "/v1/health", 200, None),
        ("GET", "/v1/health/", 200, None),
    ],
)
async def test_routes(method: str, path: str, status: int, allowed: set[str] | None) -> None:
    async with serving(FakeGateway()) as served, served.wired() as wire:
        reply = await wire.ask(method, path)
        assert reply.status == status
        if allowed is not None:
            assert set(reply.headers["allow"].split(", ")) == allowed
        if status == 404:
            assert b"MCP is served at /mcp" in reply.body
        assert (await wire.ask("GET", "/v1/health")).json == {"status": "ok"}  # the connection goes on


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_mcp_is_served(path: str) -> None:
    async with serving(FakeGateway()) as served, served.wired() as wire:
        assert (await wire.post(path, PING)).json == PONG


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example:80"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
        ({}, 401),
    ],
)
async def test_who_is_not_let_in_gets_nowhere(path: str, headers: dict[str, str], status: int) -> None:
    async with serving(FakeGateway(), token=TOKEN) as served, served.wired() as wire:
        for method in ("GET", "POST"):
            await wire.send(method, path, b"{}" if method == "POST" else b"", {**JSON, **headers})
            reply = await wire.answer()
            free = path == "/v1/health" and status == 401
            assert reply.status == ((200 if method == "GET" else 405) if free else status)
        assert served.service.conversations == []


async def test_whoever_is_refused_is_so_before_the_body_is_read() -> None:
    """A wrong token costs no memory: the answer comes although the body never does."""
    async with serving(FakeGateway(), token=TOKEN) as served, served.wired() as wire:
        head = f"POST /mcp HTTP/1.1\r\nHost: {wire.host}\r\nContent-Length: 1000000\r\n\r\n"
        await wire.stream.send_all(head.encode())
        with trio.fail_after(PATIENCE):
            assert bytes(await wire.stream.receive_some()).startswith(b"HTTP/1.1 401 ")


async def test_the_token_lets_in_everywhere_and_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    gateway = FakeGateway()
    async with serving(gateway, token=TOKEN) as served, served.wired() as wire:
        right = f"Bearer {TOKEN}"
        assert (await wire.post("/mcp", PING, Authorization=right)).json == PONG
        assert (await wire.ask("GET", "/", Authorization=right)).status == 404
        async with ws_host(served, Authorization=right) as talk:
            await talk.ask(2, "ping")
            assert (await talk.hear())["result"] == {}
        async with sse_stream(served, Authorization=right):
            pass
        assert (await wire.post("/mcp", PING, Authorization=f"{right}x")).status == 401
    assert TOKEN not in caplog.text


async def test_what_a_host_shows_goes_no_further() -> None:
    """Nothing of a request's headers reaches the gateway, so that no upstream can be given any of it."""
    gateway = FakeGateway()
    async with serving(gateway, token=TOKEN) as served, served.wired() as wire:
        meta = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}, CLIENT_INFO: {"name": "me", "version": "1"}}
        params = {"name": "x", "_meta": meta}
        call = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params}
        said = {
            "Authorization": f"Bearer {TOKEN}", "Cookie": "c00kie", "MCP-Protocol-Version": LATEST_MODERN,
            "Mcp-Method": "prompts/get", "Mcp-Name": "x",
        }  # fmt: skip

        async def answer() -> None:
            await until(lambda: gateway.calls)
            gateway.calls[0].reply(raw({"messages": []}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            reply = await wire.post("/mcp", call, **said)
        assert reply.status == 200
        [asked] = [one.request for one in gateway.calls]
        everything = repr(
            (asked.params, asked.meta, asked.asker.capabilities, asked.asker.client_info, asked.asker.host)
        )
        assert TOKEN not in everything
        assert "c00kie" not in everything


async def test_a_browser_gets_what_it_needs() -> None:
    origin = "http://localhost:6274"
    async with serving(FakeGateway(), token=TOKEN) as served, served.wired() as wire:
        asked = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "mcp-method",
        }
        preflight = await wire.ask("OPTIONS", "/mcp", **asked)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-headers"] == "mcp-method"
        said = {"Origin": origin, "Authorization": f"Bearer {TOKEN}"}
        for reply in (
            preflight,
            await wire.post("/mcp", PING, **said),
            await wire.ask("GET", "/v1/status/x", **said),
            await wire.ask("GET", "/v1/protocol", Origin=origin),  # without the token
        ):
            assert reply.headers["access-control-allow-origin"] == origin
            assert reply.headers["vary"] == "Origin"
            assert "Mcp-Session-Id" in reply.headers["access-control-expose-headers"]
        assert "access-control-allow-origin" not in (await wire.ask("GET", "/v1/health")).headers


async def test_the_log_hears_of_a_refusal_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(FakeGateway(), token=TOKEN) as served, served.wired() as wire:
        for _ in range(3):
            assert (await wire.post("/mcp", PING, Authorization="Bearer wr0ng-t0ken")).status == 401
            assert (await wire.post("/mcp", PING, Host="evil.example")).status == 403
    refusals = [one for one in caplog.messages if one.startswith("Refused")]
    assert refusals == [
        "Refused a request from 127.0.0.1: it did not show the token (401)",
        "Refused a request from 127.0.0.1: its Host or Origin is not allowed (403); the answer says which, and what "
        "would allow it",
    ]
    assert "wr0ng" not in caplog.text


# -- where


async def test_it_says_where_it_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(FakeGateway()) as served:
        assert served.urls == [f"http://127.0.0.1:{served.port}/mcp"]
        assert served.port > 0
        assert f"listening on {served.urls[0]}" in caplog.messages


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            (),
            [
                "{scheme}://127.0.0.1:{port}/mcp and every other address of this machine; --allow-host adds the name "
                "that others call it by"
            ],
        ),
        (
            ("one.example", "127.0.0.1", "fd00::1"),
            ["{scheme}://one.example:{port}/mcp", "{scheme}://[fd00::1]:{port}/mcp"],
        ),
    ],
)
async def test_on_every_address_it_names_what_can_be_used(
    names: tuple[str, ...], said: list[str], scheme: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    path = make_certificate(tmp_path)
    tls = server_tls(str(path), str(path)) if scheme == "https" else None
    access = plan_access(("0.0.0.0", 0), token=TOKEN, hosts=names)
    async with serving(FakeGateway(), ("0.0.0.0", 0), access=access, tls=tls) as served:
        expected = {f"listening on {one.format(scheme=scheme, port=served.port)}" for one in said}
        assert {one for one in caplog.messages if one.startswith("listening")} == expected


async def test_a_program_serves_this_machine_with_nothing_but_an_address() -> None:
    ending = Ending()
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, Service(FakeGateway()), ("127.0.0.1", 0), ending)  # type: ignore[arg-type]
        [url] = await nursery.start(serve)
        async with wired(urlsplit(url).port or 0) as wire:
            assert (await wire.post("/mcp", PING)).json == PONG
            assert (await wire.post("/mcp", PING, Host="evil.example")).status == 403
        ending.stop.set()


async def test_and_others_with_a_token_only() -> None:
    with pytest.raises(McpxError, match="needs a token"):
        await serve_http(Service(FakeGateway()), ("0.0.0.0", 0), Ending())  # type: ignore[arg-type]


def test_what_serves_http_is_named_beside_the_others_but_loaded_late() -> None:
    program = (
        "import sys\n"
        "import mcpx.host\n"
        "heavy = {one for one in sys.modules if one.startswith('mcpx.host.http') or one == 'httptools'}\n"
        "assert not heavy, heavy\n"
        "from mcpx.host import *\n"
        "assert serve_http is mcpx.host.http.serve_http and plan_access and Access\n"
        "assert not hasattr(mcpx.host, 'serve_carrier_pigeons')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_ipv6() -> None:
    async with serving(FakeGateway(), ("::1", 0)) as served, served.wired(host="::1") as wire:
        assert served.urls == [f"http://[::1]:{served.port}/mcp"]
        assert (await wire.post("/mcp", PING)).json == PONG


async def test_localhost() -> None:
    async with serving(FakeGateway(), ("localhost", 0)) as served:
        host = served.urls[0].removeprefix("http://").rpartition(":")[0].strip("[]")
        async with served.wired(host=host) as wire:
            assert (await wire.post("/mcp", PING)).json == PONG


async def test_tls(tmp_path: Path) -> None:
    path = make_certificate(tmp_path)
    trusting = client_context(path)
    async with serving(FakeGateway(), tls=server_tls(str(path), str(path))) as served:
        assert served.urls == [f"https://127.0.0.1:{served.port}/mcp"]
        async with served.wired(tls=trusting) as wire:
            assert (await wire.post("/mcp", PING)).json == PONG
        async with served.wired() as wire:  # without
            await wire.stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with trio.fail_after(PATIENCE):
                await closed(wire.stream)


def client_context(path: Path) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cafile=str(path))


async def closed(stream: trio.abc.Stream) -> None:
    """Wait until the other end has closed it."""
    try:
        while await stream.receive_some():
            pass
    except trio.BrokenResourceError:
        pass


async def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(McpxError, match=f"127.0.0.1:{port} cannot be listened on"):
            await serve_http(Service(FakeGateway()), ("127.0.0.1", port), Ending(), access=Access())  # type: ignore[arg-type]


async def test_a_name_that_stands_for_more_than_this_machine() -> None:
    """What could not be known before: nothing is served where others could come without a token."""
    with pytest.raises(McpxError, match="needs a token"):
        await serve_http(Service(FakeGateway()), ("0.0.0.0", 0), Ending(), access=Access())  # type: ignore[arg-type]


# -- limits


async def test_one_connection_too_many_is_told_so() -> None:
    async with serving(FakeGateway(max_connections=2)) as served, served.wired() as one, served.wired() as two:
        for wire in (one, two):
            assert (await wire.ask("GET", "/v1/health")).status == 200
        async with served.wired() as three:
            assert (await three.ask("GET", "/v1/health")).status == 503
        await trio.aclose_forcefully(one.stream)
        with trio.fail_after(PATIENCE):
            while True:  # until its place is free, which nothing tells of
                async with served.wired() as three:
                    if (await three.ask("GET", "/v1/health")).status == 200:
                        break


async def test_a_body_over_the_limit_is_refused_unread() -> None:
    async with serving(FakeGateway(max_frame=Limits().max_frame)) as served, served.wired() as wire:
        head = f"POST /mcp HTTP/1.1\r\nHost: {wire.host}\r\nContent-Length: {Limits().max_frame + 1}\r\n\r\n"
        await wire.stream.send_all(head.encode())
        with trio.fail_after(PATIENCE):
            assert bytes(await wire.stream.receive_some()).startswith(b"HTTP/1.1 413 ")


async def test_a_slow_head_is_not_waited_for() -> None:
    async with serving(FakeGateway(head_time=0.1)) as served, served.wired() as wire:
        await wire.stream.send_all(b"POST /mcp HTTP/1.1\r\n")
        with trio.fail_after(PATIENCE):
            assert bytes(await wire.stream.receive_some()).startswith(b"HTTP/1.1 408 ")


async def test_a_slow_body_is_not_waited_for() -> None:
    async with serving(FakeGateway(body_time=0.1)) as served, served.wired() as wire:
        await wire.stream.send_all(f"POST /mcp HTTP/1.1\r\nHost: {wire.host}\r\nContent-Length: 9\r\n\r\n{{".encode())
        with trio.fail_after(PATIENCE):
            assert bytes(await wire.stream.receive_some()).startswith(b"HTTP/1.1 408 ")


# -- the end


async def test_at_the_end_every_stream_ends_properly_with_what_is_owed() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, sse_host(served) as sse, ws_host(served) as socket:
        await sse.shake(V2024_11_05)
        await sse.call(7)
        await until(lambda: len(gateway.calls) == 1)
        await socket.call(7, LATEST_MODERN)
        await until(lambda: len(gateway.calls) == 2)
        served.ending.stop.set()
        for call in gateway.calls:
            call.reply()
        for talk in (sse, socket):
            assert (await talk.hear())["result"]["content"]
        await served.ended.wait()


async def test_what_is_owed_and_does_not_come_is_an_error_in_time() -> None:
    gateway = FakeGateway(exit_budget_server=2.6)  # 0.1 s of it for answers
    async with serving(gateway) as served, sse_host(served) as sse, ws_host(served) as socket:
        for number, talk in enumerate((sse, socket), 1):
            await talk.shake(LATEST_LEGACY)
            await talk.call(7)
            await until(lambda number=number: len(gateway.calls) == number)
        served.ending.stop.set()
        for talk in (sse, socket):
            assert (await talk.hear())["error"]["message"] == "mcpx is stopping"
        with trio.fail_after(PATIENCE):
            await served.ended.wait()


async def test_the_streams_end_as_http_has_it() -> None:
    async with serving(FakeGateway()) as served, sse_stream(served) as (wire, _):
        served.ending.stop.set()
        assert await wire.event() is None  # the last chunk, or h11 would complain


async def test_a_request_that_is_half_there_holds_up_no_end() -> None:
    gateway = FakeGateway(exit_budget_server=2.6)
    async with serving(gateway) as served, served.wired() as wire:
        await wire.stream.send_all(f"POST /mcp HTTP/1.1\r\nHost: {wire.host}\r\nContent-Length: 9\r\n\r\n{{".encode())
        async with served.wired() as other:
            assert (await other.ask("GET", "/v1/health")).status == 200
        served.ending.stop.set()
        with trio.fail_after(PATIENCE):
            await served.ended.wait()


async def test_a_client_that_reads_nothing_holds_up_no_end() -> None:
    gateway = FakeGateway(exit_budget_server=2.6)
    async with serving(gateway) as served, sse_stream(served) as (_, endpoint), served.wired() as wire:
        big = "x" * 500_000
        for number in range(20):  # each answer repeats it
            frame = {"jsonrpc": "2.0", "id": number, "method": big}
            with trio.move_on_after(0.2):
                await wire.post(endpoint, frame)
        served.ending.stop.set()
        with trio.fail_after(PATIENCE):
            await served.ended.wait()


async def test_nobody_can_connect_any_more_once_the_end_begins() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, ws_host(served) as talk:
        await talk.call(7)
        await until(lambda: gateway.calls)
        served.ending.stop.set()
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    async with served.wired():
                        await trio.lowlevel.checkpoint()
                except OSError:
                    break
        gateway.calls[0].reply()
        assert (await talk.hear())["result"]["content"]


async def test_a_connection_that_waits_is_closed_as_the_end_begins() -> None:
    """So that nobody who asks how mcpx is could hear that it stops."""
    async with serving(FakeGateway()) as served, served.wired() as wire:
        assert (await wire.ask("GET", "/v1/health")).json == {"status": "ok"}
        served.ending.stop.set()
        with trio.fail_after(PATIENCE):
            await closed(wire.stream)
