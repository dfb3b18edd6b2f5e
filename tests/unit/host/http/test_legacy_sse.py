"""HTTP with events: a stream that names where to post, messages of any revision, and what is none. A real port."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.host.http.legacy_sse import MESSAGES, open_sse_channel
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS, V2024_11_05, is_modern
from mcpx.upstream.call import Change, Progress
from tests.support.running import in_virtual_time
from tests.support.waiting import PATIENCE
from tests.unit.host.http.serving import serving, sse_host, sse_stream, until
from tests.unit.host.talk import FakeGateway, raw

if TYPE_CHECKING:
    from mcpx.transports.channel import Oversize

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def test_the_first_event_names_an_endpoint_that_nobody_can_guess() -> None:
    async with serving(FakeGateway()) as served, sse_stream(served) as (one, first), sse_stream(served) as (_, second):
        assert first.startswith(f"{MESSAGES}?sessionId=")
        assert first != second
        assert len(first.partition("=")[2]) >= 43  # 256 bits in base64
        assert one.comments == 1  # whoever is on the way has seen that this stream is alive


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_host_of_any_revision(revision: str) -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, sse_host(served) as talk:
        if not is_modern(revision):
            assert (await talk.shake(revision))["protocolVersion"] == revision
        await talk.call(7, revision if is_modern(revision) else None, progressToken="p")
        await until(lambda: gateway.calls)
        gateway.calls[0].put(Progress({"progress": raw(1)}))
        assert (await talk.hear())["params"] == {"progressToken": "p", "progress": 1}
        gateway.calls[0].reply()
        assert (await talk.hear())["result"]["content"]
        [conversation] = served.service.conversations
        assert (conversation.host, conversation.transport) == ("sse 1", "sse")


async def test_hosts_keep_to_themselves() -> None:
    """The same ids on two streams; a host's cancellation and its leaving are its own calls' alone."""
    gateway = FakeGateway()
    async with serving(gateway) as served, sse_host(served) as stays:
        await stays.shake(V2024_11_05)
        await stays.call(7)
        await until(lambda: len(gateway.calls) == 1)
        async with sse_host(served) as leaves:
            await leaves.call(7, LATEST_MODERN)
            await until(lambda: len(gateway.calls) == 2)
            await leaves.notify("notifications/cancelled", {"requestId": 7})
            await until(lambda: gateway.calls[1].state == "cancelled")
            await leaves.call(8, LATEST_MODERN)
            await until(lambda: len(gateway.calls) == 3)
        await until(lambda: gateway.calls[2].state == "cancelled")  # since its stream has ended
        await until(lambda: len(served.service.conversations) == 1)
        assert gateway.calls[0].state == "open"
        gateway.calls[0].reply()
        assert (await stays.hear())["result"]["content"]


async def test_changes_are_said_unasked() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served, sse_host(served) as talk:
        await talk.shake(LATEST_LEGACY)
        await until(lambda: gateway.watching)
        gateway.change(Change("one", "tools"))
        assert (await talk.hear())["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("{endpoint}", {"Content_Type": "text/plain"}, b"{}", 415),
        ("{endpoint}", {"Content_Type": ""}, b"{}", 415),
        ("{endpoint}", {"Content_Type": "application/json; charset=utf-8"}, b"{}", 202),
        ("{endpoint}", {}, b"", 400),
        ("{endpoint}", {}, b" \n", 400),
        ("{endpoint}", {}, b"no json", 202),  # whose error comes on the stream
        ("{endpoint}x", {}, b"{}", 404),
        ("{endpoint}&sessionId=x", {}, b"{}", 404),
        ("/messages", {}, b"{}", 404),
        ("/messages?sessionId=", {}, b"{}", 404),
        ("/messages?sessionId=%ff", {}, b"{}", 404),
        ("/messages?sessionid=x", {}, b"{}", 404),
    ],
)
async def test_what_is_posted(path: str, headers: dict[str, str], body: bytes, status: int) -> None:
    async with serving(FakeGateway()) as served, sse_stream(served) as (stream, endpoint), served.wired() as wire:
        headers = {"Content_Type": "application/json", **headers}
        assert (await wire.ask("POST", path.format(endpoint=endpoint), body, **headers)).status == status
        assert (await wire.post(endpoint, PING)).status == 202
        answers = [await stream.event()]
        if status == 202:
            answers.append(await stream.event())
        assert [json.loads(one.data).get("result") for one in answers if one is not None][-1] == {}


async def test_a_session_ends_with_its_stream() -> None:
    async with serving(FakeGateway()) as served, served.wired() as wire:
        async with sse_stream(served) as (_, endpoint):
            assert (await wire.post(endpoint, PING)).status == 202
        await until(lambda: not served.service.conversations)
        assert (await wire.post(endpoint, PING)).status == 404


async def test_a_session_of_another_host_is_no_way_around_the_token() -> None:
    async with (
        serving(FakeGateway(), token="s3cret") as served,
        sse_stream(served, Authorization="Bearer s3cret") as (_, endpoint),
        served.wired() as wire,
    ):
        assert (await wire.post(endpoint, PING)).status == 401


async def test_a_hundred_streams_that_are_abandoned_leave_nothing() -> None:
    gateway = FakeGateway()
    async with serving(gateway) as served:
        for _ in range(100):
            async with sse_host(served) as talk:
                await talk.call(1, LATEST_MODERN)
        await until(lambda: not served.service.conversations)
        assert not gateway.watching
        assert all(call.state in ("done", "cancelled") for call in gateway.calls)


async def test_a_host_that_reads_nothing_holds_up_itself_alone() -> None:
    gateway = FakeGateway()
    big = {"jsonrpc": "2.0", "id": 1, "method": "x" * 400_000}  # which the error repeats
    async with serving(gateway) as served, sse_stream(served) as (_, endpoint), sse_host(served) as other:
        posted = 0
        async with served.wired() as wire:
            for _ in range(100):
                with trio.move_on_after(0.5) as waiting:
                    assert (await wire.post(endpoint, big)).status == 202
                    posted += 1
                if waiting.cancelled_caught:
                    break
        await other.ask(1, "ping")
        with trio.fail_after(PATIENCE):
            assert (await other.hear())["result"] == {}
        assert posted > 0


# -- the channel itself, in virtual time


class FakeResponse:
    """What is written, and how."""

    def __init__(self) -> None:
        self.written: list[tuple[float, bytes]] = []
        self.gone = False
        self.blocked = False

    async def write(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.blocked:
            await trio.sleep_forever()
        if self.gone:
            raise trio.BrokenResourceError
        self.written.append((trio.current_time(), data))


def channel(response: FakeResponse, **more: Any) -> Any:
    return open_sse_channel(response, b"first\n\n", **{"keep_alive": 15.0, **more})  # type: ignore[arg-type]


@in_virtual_time
async def test_a_quiet_stream_is_kept_alive_from_the_start() -> None:
    response = FakeResponse()
    start = trio.current_time()
    async with channel(response) as one:
        await trio.sleep(40)
        await one.send(b"{}")
        await trio.sleep(20)
    assert [(at - start, data) for at, data in response.written] == [
        (0, b"first\n\n:\n\n"),
        (15, b":\n\n"),
        (30, b":\n\n"),
        (40, b"event: message\ndata: {}\n\n"),
        (55, b":\n\n"),
    ]


@in_virtual_time
async def test_what_is_queued_goes_out_at_the_end_though_it_is_cancelled() -> None:
    response = FakeResponse()
    with trio.move_on_after(1):
        async with channel(response) as one:
            try:
                await trio.sleep_forever()
            finally:
                one.send_nowait(b'"farewell"')
    assert response.written[-1][1] == b'event: message\ndata: "farewell"\n\n'


@in_virtual_time
async def test_leaving_waits_for_a_slow_reader_no_longer_than_it_may() -> None:
    response = FakeResponse()
    response.blocked = True
    start = trio.current_time()
    async with channel(response) as one:
        one.send_nowait(b"{}")
    assert trio.current_time() - start == 0.5


@in_virtual_time
async def test_whoever_posts_waits_until_the_message_is_taken() -> None:
    async with channel(FakeResponse()) as one, trio.open_nursery() as nursery:
        done: list[bool] = []

        async def put(message: bytes) -> None:
            done.append(await one.put(message))

        nursery.start_soon(put, b"1")
        await trio.testing.wait_all_tasks_blocked()
        assert done == []
        messages: list[bytes | Oversize] = await one.receive()
        assert messages == [b"1"]
        await trio.testing.wait_all_tasks_blocked()
        assert done == [True]
        nursery.start_soon(put, b"2")
        await trio.testing.wait_all_tasks_blocked()
        one.close()
        await trio.testing.wait_all_tasks_blocked()
        assert done == [True, False]
        assert await one.put(b"3") is False
        assert await one.receive() == []


@in_virtual_time
async def test_a_host_that_has_gone_ends_its_channel() -> None:
    response = FakeResponse()
    async with channel(response) as one:
        await trio.testing.wait_all_tasks_blocked()
        response.gone = True
        await one.send(b"{}")
        assert await one.receive() == []
