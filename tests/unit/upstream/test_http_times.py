"""How long things take over HTTP, in virtual time, with a client that a test plays."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel

from mcpx.errors import ConnectError
from mcpx.settings import Limits
from mcpx.spec.revisions import LATEST_LEGACY
from mcpx.transports.channel import Lost
from mcpx.upstream.http import FAREWELL_LIMIT, RESUME_TRIES, HttpChannel, open_http_channel
from mcpx.upstream.http_channel import CLOSE_LIMIT, MAX_NOTES, NOTE_LIMIT
from mcpx.upstream.http_listen import HEALTHY
from mcpx.upstream.http_session import RENEW_LIMIT
from mcpx.upstream.mirrored import Mirrored
from mcpx.wire.sse import encode_event
from tests.support.http_up import initialized
from tests.support.running import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcpx.transports.http_client import HttpClient

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}'
CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}'
LIMITS = Limits(restart_backoff_step=2, restart_backoff_max=30)


class Played:
    """An answer: chunks and pauses, and how it ends."""

    def __init__(self, status: int, kind: str = "application/json", *steps: bytes | float, **headers: str) -> None:
        self.status = status
        self.media_type = kind
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._steps = list(steps)

    async def receive_some(self) -> bytes:
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, bytes):
                return step
            await trio.sleep(step)
        return b""

    receive_some_or_nothing = receive_some

    async def read(self, limit: int) -> bytes:
        found = b""
        while chunk := await self.receive_some():
            found += chunk
        return found


class Client:
    """A client whose every request a test answers; it remembers when which came."""

    secrets = ()

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.answers: dict[str, Any] = {
            "initialize": lambda: Played(200, "application/json", result(1, initialized()), mcp_session_id="s1"),
            "notifications/initialized": lambda: Played(202),
            "GET": lambda: Played(405),
        }
        self.left: dict[str, float] = {}

    def times(self, kind: str) -> list[float]:
        return [at for at, one in self.asked if one == kind]

    @asynccontextmanager
    async def open_answer(
        self, method: str, headers: dict[str, str], body: bytes = b"", *, target: Any = None, sent: Any = None
    ) -> AsyncIterator[Played]:
        kind = json.loads(body)["method"] if body else method
        self.asked.append((trio.current_time(), kind))
        if sent is not None:
            sent()
        try:
            answer = self.answers.get(kind)
            if answer is None:
                await trio.sleep_forever()
            yield answer()
        finally:
            self.left[kind] = trio.current_time()


def result(number: int, value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": value}).encode()


@asynccontextmanager
async def opened(client: Client) -> AsyncIterator[HttpChannel]:
    """A channel with a legacy session."""
    stand_in: HttpClient = client  # type: ignore[assignment]
    async with open_http_channel("far", stand_in, Mirrored("far"), LIMITS) as channel:
        channel.send_nowait(INITIALIZE)
        assert len(await channel.receive()) >= 1
        channel.send_nowait(INITIALIZED)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain, channel)
            yield channel
            nursery.cancel_scope.cancel()


async def drain(channel: HttpChannel) -> None:
    while messages := await channel.receive():
        lost.extend(message for message in messages if isinstance(message, Lost))


lost: list[Lost] = []


@pytest.fixture(autouse=True)
def _nothing_lost() -> None:
    lost.clear()


@in_virtual_time
async def test_a_stream_that_ends_early_is_asked_for_ever_more_slowly_and_never_in_a_loop() -> None:
    client = Client()
    client.answers["GET"] = lambda: Played(200, "text/event-stream", b": hello\n\n", 0.1)
    async with opened(client):
        await trio.sleep(300)
    gaps = [later - earlier for earlier, later in pairwise(client.times("GET"))]
    assert gaps[0] < 1
    assert gaps[-1] == pytest.approx(28.6, abs=1.6)
    assert len(gaps) < 25


@in_virtual_time
async def test_one_that_was_open_for_long_is_opened_again_at_once() -> None:
    client = Client()
    client.answers["GET"] = lambda: Played(200, "text/event-stream", HEALTHY + 50, b": hello\n\n")
    async with opened(client):
        await trio.sleep(5 * (HEALTHY + 50) - 1)
    assert len(client.times("GET")) == 5


@in_virtual_time
async def test_a_quiet_stream_is_left_alone() -> None:
    client = Client()
    client.answers["GET"] = lambda: Played(200, "text/event-stream", 100_000.0)
    async with opened(client):
        await trio.sleep(50_000)
    assert len(client.times("GET")) == 1


@in_virtual_time
async def test_a_server_that_is_not_there_for_the_stream_is_asked_with_the_backoff() -> None:
    def refused() -> Played:
        raise ConnectError("refused")

    client = Client()
    client.answers["GET"] = refused
    async with opened(client):
        await trio.sleep(120)
    assert 5 <= len(client.times("GET")) <= 15


@in_virtual_time
async def test_what_is_told_to_wait_waits() -> None:
    client = Client()
    client.answers["GET"] = lambda: Played(200, "text/event-stream", encode_event(b"", id="1", retry=60_000))
    async with opened(client):
        await trio.sleep(179)
    assert len(client.times("GET")) == 3


@in_virtual_time
async def test_a_stream_of_a_call_that_brings_nothing_new_is_given_up() -> None:
    client = Client()
    client.answers["tools/call"] = lambda: Played(200, "text/event-stream", encode_event(b"", id="1"))
    tries = iter(range(100))
    client.answers["GET"] = lambda: Played(405) if next(tries) == 0 else Played(200, "text/event-stream")
    async with opened(client) as channel:
        channel.send_nowait(CALL)
        await trio.sleep(60)
    assert len(client.times("GET")) == 1 + RESUME_TRIES
    assert client.times("GET")[-1] - client.times("tools/call")[0] == pytest.approx(1 + 2 + 3 + 4 + 5)
    assert lost[-1].id == 2


@in_virtual_time
async def test_a_cancelled_call_is_left_when_the_server_has_been_told_or_does_not_listen() -> None:
    for deaf in (False, True):
        client = Client()
        if not deaf:
            client.answers["notifications/cancelled"] = lambda: Played(202)
        async with opened(client) as channel:
            channel.send_nowait(CALL)
            await trio.sleep(5)
            began = trio.current_time()
            channel.cancel(2, CANCEL)
            channel.cancel(2, None)
            await trio.sleep(5)
        assert len(client.times("notifications/cancelled")) == 1
        assert client.left["tools/call"] - began == pytest.approx(FAREWELL_LIMIT if deaf else 0, abs=0.01)


@in_virtual_time
async def test_notifications_that_are_not_taken_are_bounded_in_number_and_time() -> None:
    note = b'{"jsonrpc":"2.0","method":"notifications/x"}'

    client = Client()
    async with opened(client) as channel:
        await trio.sleep(1)
        for _ in range(MAX_NOTES):
            await channel.send(note)
        assert not channel.offer(note)
        began = trio.current_time()
        await channel.send(note)
        assert trio.current_time() - began == pytest.approx(NOTE_LIMIT)
        channel.send_nowait(CALL)  # a request waits for none of them
        await trio.lowlevel.checkpoint()
        assert client.times("tools/call") == [] or client.times("tools/call")[0] == trio.current_time()
        began = trio.current_time()
    assert trio.current_time() - began <= 2 * CLOSE_LIMIT


@in_virtual_time
async def test_a_session_that_cannot_be_opened_anew_in_time_ends_the_connection() -> None:
    client = Client()
    client.answers["tools/call"] = lambda: Played(404)
    async with opened(client) as channel:
        del client.answers["initialize"]
        channel.send_nowait(CALL)
        await trio.sleep(RENEW_LIMIT + 1)
        assert channel.ended
        assert f"not there within {RENEW_LIMIT:g} s" in channel.describe_end()


@in_virtual_time
async def test_a_server_that_does_not_answer_the_end_of_its_session_is_not_waited_for() -> None:
    client = Client()
    async with opened(client):
        await trio.sleep(1)
        began = trio.current_time()
    assert client.times("DELETE") == [began]
    assert trio.current_time() - began == pytest.approx(CLOSE_LIMIT)


@in_virtual_time
async def test_the_headers_of_a_session_by_revision() -> None:
    async with opened(Client()) as channel:
        assert channel.session.headers == {"mcp-session-id": "s1", "mcp-protocol-version": LATEST_LEGACY}


@in_virtual_time
async def test_a_call_that_is_cancelled_while_its_session_is_opened_anew_is_not_made() -> None:
    client = Client()
    client.answers["tools/call"] = lambda: Played(404)
    async with opened(client) as channel:
        again = result(1, initialized())
        client.answers["initialize"] = lambda: Played(200, "application/json", 5.0, again, mcp_session_id="s2")
        channel.send_nowait(CALL)
        await trio.sleep(2)
        channel.cancel(2, CANCEL)
        await trio.sleep(10)
        assert channel.session.id == "s2"
    assert len(client.times("tools/call")) == 1
    assert client.times("notifications/cancelled") == []
