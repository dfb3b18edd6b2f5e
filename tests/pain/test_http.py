"""What hurts users of gateways by HTTP: shutdowns that hang, idle streams, sessions that only grow, and bad clients.

All through the real ``mcpx serve --http``.
"""

from __future__ import annotations

import json
import signal
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import pytest
import trio

from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY, V2024_11_05
from tests.support.fake_down import gone
from tests.support.http_hosts import (
    CALL,
    HELD,
    PING,
    POSTED,
    SHAKE,
    open_session,
    post_call,
    serving_http,
    sse_host,
    sse_stream,
    status_of,
    until_quiet,
    ws_host,
    ws_socket,
)
from tests.support.http_wire import JSON
from tests.support.waiting import BUSY, PATIENCE

if TYPE_CHECKING:
    from tests.support.http_wire import Wire
    from tests.support.stage import Stage


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_pain_07_streams_end_properly_and_calls_in_flight_are_waited_for(
    stage: Stage, number: signal.Signals
) -> None:
    """A GET stream, a stream of events, a WebSocket and a POST, with a call in flight on each."""
    one = stage.upstream("one", **HELD)
    async with (
        serving_http(stage, one) as site,
        site.wired() as opener,
        site.wired() as listener,
        site.wired() as poster,
        sse_host(site) as sse,
        ws_host(site) as socket,
    ):
        said = await open_session(opener)
        await listener.send("GET", "/mcp", headers={"Accept": "text/event-stream", **said})
        assert (await listener.head()).status == 200
        await sse.open(V2024_11_05)
        await socket.open(LATEST_LEGACY)
        asked = [await host.start("tools/call", CALL) for host in (sse, socket)]
        await post_call(poster)
        await one.got("tools/call", 3)
        site.process.signal(number)
        await site.process.logged("stopping")
        assert await listener.event() is None  # its proper end, or h11 would complain
        await one.release("it")
        for each in asked:
            assert (await each.wait()).result["content"]
        assert (await poster.answer()).status == 200
        for host in (sse, socket):
            await host.changes.until(lambda host=host: host.eof_at, "the end of the stream")
        assert await site.process.wait() == 0
        assert site.process.took < Limits().exit_budget_server + BUSY
    await gone(one.pids)


async def test_pain_22_quiet_streams_are_kept_alive_from_the_first_second(stage: Stage) -> None:
    """A stream of a session, a stream of events, and a modern POST whose call takes its time."""
    one = stage.upstream("one", **HELD)
    async with (
        serving_http(stage, one, limits={"keepAlive": 0.2}) as site,
        site.wired() as listener,
        site.wired() as poster,
        site.wired() as events,
    ):
        said = await open_session(listener)
        await listener.send("GET", "/mcp", headers={"Accept": "text/event-stream", **said})
        await events.send("GET", "/sse")
        await post_call(poster)
        await one.got("tools/call")
        for wire in (listener, events, poster):
            with trio.fail_after(1 + BUSY):
                head = await wire.head()
                assert head.headers["content-type"] == "text/event-stream"
                assert head.headers["x-accel-buffering"] == "no"
                await comments(wire, 1)
        with trio.fail_after(PATIENCE):
            for wire in (listener, events, poster):
                await comments(wire, 3)


async def comments(wire: Wire, number: int) -> None:
    """Wait until so many comments have come, and no answer instead of them."""
    while wire.comments < number:
        chunk = await wire.chunk()
        assert chunk is not None
        wire.comments += sum(line.startswith(b":") for line in chunk.splitlines())


async def test_pain_23_sessions_that_are_left_end_by_themselves(stage: Stage) -> None:
    """Those without a stream and without a call; a health check makes none."""
    one = stage.upstream("one", **HELD)
    limits = {"sessionIdle": 0.5, "maxSessions": 1000}
    async with serving_http(stage, one, limits=limits) as site, site.wired() as wire, site.wired() as listener:
        kept = await open_session(listener)
        await listener.send("GET", "/mcp", headers={"Accept": "text/event-stream", **kept})
        assert (await listener.head()).status == 200
        left = [await open_session(wire) for _ in range(100)]
        assert (await wire.ask("GET", "/v1/health")).status == 200
        with trio.fail_after(PATIENCE):
            while (await status_of(wire))["sessions"] > 1:
                pass
        assert (await wire.post("/mcp", PING, **kept)).status == 200
        for said in (left[0], left[-1]):
            assert (await wire.post("/mcp", PING, **said)).status == 404


async def test_pain_23_there_is_a_cap_on_sessions(stage: Stage) -> None:
    one = stage.upstream("one")
    async with serving_http(stage, one, limits={"maxSessions": 2}) as site, site.wired() as wire:
        said = await open_session(wire)
        await open_session(wire)
        refused = await wire.post("/mcp", SHAKE)
        assert refused.status == 503
        assert "mcp-session-id" not in refused.headers
        assert (await wire.ask("DELETE", "/mcp", **said)).status in (200, 204)
        await open_session(wire)


async def test_near_dns_rebinding_and_pages_of_elsewhere(stage: Stage) -> None:
    """As a web page would have a browser do it."""
    async with serving_http(stage, stage.upstream("one")) as site, site.wired() as wire:
        for headers in (
            {"Host": f"evil.example:{site.port}"},
            {"Origin": "http://evil.example"},
            {"Origin": f"http://evil.example:{site.port}", "Host": f"evil.example:{site.port}"},
            {"Origin": "null"},
        ):
            for method, path in (("POST", "/mcp"), ("GET", "/sse"), ("GET", "/ws"), ("GET", "/v1/status")):
                reply = await wire.ask(method, path, b"{}" if method == "POST" else b"", **{**JSON, **headers})
                assert reply.status == 403
                assert "id" not in reply.json
                assert "access-control-allow-origin" not in reply.headers
        assert (await wire.post("/mcp", PING, Origin=f"http://localhost:{site.port}")).status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n", 408),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", 408),
    ],
)
async def test_bad_requests_that_are_none_too_large_or_too_slow(stage: Stage, sent: bytes, status: int) -> None:
    limits = {"headTime": 0.3, "bodyTime": 0.3}
    async with serving_http(stage, stage.upstream("one"), limits=limits) as site, site.wired() as wire:
        await wire.stream.send_all(sent)
        with trio.fail_after(PATIENCE):
            assert bytes(await wire.stream.receive_some()).startswith(b"HTTP/1.1 %d " % status)
        async with site.wired() as other:
            assert (await other.post("/mcp", PING)).json["result"] == {}


async def test_bad_body_that_is_cut_off(stage: Stage) -> None:
    one = stage.upstream("one")
    async with serving_http(stage, one) as site:
        async with site.wired() as wire:
            body = json.dumps(POSTED).encode()
            head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            await wire.stream.send_all(head.encode() + body[:-5])
        async with site.wired() as other:
            assert (await other.post("/mcp", PING)).json["result"] == {}
    assert one.received("tools/call") == []


async def test_pain_23_a_hundred_streams_that_are_abandoned(stage: Stage) -> None:
    """Of each kind, with a call in flight on every tenth: counts return to where they were."""
    one = stage.upstream("one", **HELD)
    async with serving_http(stage, one) as site, site.wired() as wire:
        call = json.dumps(POSTED)
        for number in range(34):
            async with AsyncExitStack() as stack:
                _, endpoint = await stack.enter_async_context(sse_stream(site))
                socket = await stack.enter_async_context(ws_socket(site))
                poster = await stack.enter_async_context(site.wired())
                if number % 10 == 0:
                    assert (await wire.post(endpoint, POSTED)).status == 202
                    await socket.send_message(call)
                    await post_call(poster)
                    await one.got("tools/call", 3 * (number // 10 + 1))
        said = await until_quiet(wire)
        assert said["exchanges"] == said["sessions"] == 0
        [upstream] = said["upstreams"]
        assert upstream["inFlight"] == 0
        await one.got("notifications/cancelled", 12)


async def test_bad_client_that_stops_reading(stage: Stage) -> None:
    async with serving_http(stage, stage.upstream("one")) as site, sse_stream(site) as (_, endpoint):
        big = {"jsonrpc": "2.0", "id": 1, "method": "x" * 1_000_000}  # which the error repeats
        for _ in range(10):
            async with site.wired() as wire:
                with trio.move_on_after(0.3):
                    await wire.post(endpoint, big)
        async with ws_host(site) as host:
            await host.open(LATEST_LEGACY)
            assert await host.names() == ["one__echo"]


async def test_bad_message_in_pieces_without_end(stage: Stage) -> None:
    """On a WebSocket: it ends with the connection of who sends it, and others are served meanwhile."""
    async with serving_http(stage, stage.upstream("one")) as site, site.wired() as wire, ws_socket(site) as socket:
        stream, other = socket._stream, 0
        ended = trio.Event()

        async def flood() -> None:
            await stream.send_all(b"\x01\x81mask" + b"{")
            with suppress(trio.BrokenResourceError):
                while True:
                    await stream.send_all(b"\x00\x80mask" * 1000)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            with trio.fail_after(PATIENCE):
                while not ended.is_set():
                    assert (await wire.post("/mcp", PING)).status == 200
                    other += 1
        assert other > 10
        await until_quiet(wire)
