"""A channel over a WebSocket: how it opens, carries messages and ends. In memory and in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest, wrap_server_stream

from mcpx.errors import ConnectError
from mcpx.transports.channel import Oversize
from mcpx.transports.handshake import opening
from mcpx.transports.websocket import ClientChannel, open_websocket_channel
from mcpx.transports.websocket_channel import CLOSE_LIMIT
from tests.support.running import in_virtual_time
from tests.unit.transports.doubles import GatedSend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Attend = Callable[[WebSocketRequest], Awaitable[None]]

SECRET = "Bearer very-secret"
PENDING = 1000
MAX_FRAME = 10_000
GOES_AWAY = "The server closed the connection without a word."


def client(stream: trio.abc.Stream, **more: Any) -> Any:
    """The channel under test, over a stream."""
    handshake = opening("ws://far.example/mcp?token=abcdef", {"Authorization": SECRET})
    options: dict[str, Any] = {"deadline": trio.current_time() + 60, "max_frame": MAX_FRAME, "max_pending": PENDING}
    return open_websocket_channel(stream, handshake, **{**options, **more})


@asynccontextmanager
async def connected(**more: Any) -> AsyncIterator[tuple[ClientChannel, WebSocketConnection]]:
    """A channel, and the server's end of the same WebSocket."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        ends: list[WebSocketConnection] = []

        async def accept() -> None:
            request = await wrap_server_stream(nursery, theirs)
            ends.append(await request.accept(subprotocol="mcp"))

        nursery.start_soon(accept)
        async with client(ours, **more) as channel:
            await trio.testing.wait_all_tasks_blocked()
            yield channel, ends[0]
        nursery.cancel_scope.cancel()


async def fails(talk: Callable[[trio.StapledStream[Any, Any]], Awaitable[None]]) -> str:
    """Why the channel does not open, where the server talks so."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(talk, theirs)
        with pytest.raises(ConnectError) as caught:
            async with client(ours):
                raise AssertionError("it opened")
        nursery.cancel_scope.cancel()
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")
    for secret in ("secret", "abcdef"):
        assert secret not in str(caught.value)
    return str(caught.value)


# -- opening


@in_virtual_time
async def test_what_it_says_to_open() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            request = await wrap_server_stream(nursery, theirs)
            assert request.path == "/mcp?token=abcdef"
            assert request.proposed_subprotocols == ("mcp",)
            assert (b"authorization", SECRET.encode()) in request.headers
            assert all(name != b"sec-websocket-extensions" for name, _ in request.headers)
            await request.accept()  # none of the subprotocols, which is as good

        nursery.start_soon(accept)
        async with client(ours):
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("status", "said"), [(401, "Give it a token"), (404, "path of the URL"), (302, "redirects")])
@pytest.mark.parametrize("body", [b"", b"no, and SECRETS"])
@in_virtual_time
async def test_a_refusal_is_told_with_its_status(status: int, said: str, body: bytes) -> None:
    async def refuse(stream: trio.StapledStream[Any, Any]) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            await request.reject(status, extra_headers=[(b"Location", b"ws://elsewhere/")], body=body)

    why = await fails(refuse)
    assert f"HTTP status {status}" in why
    assert said in why


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 1000000\r\n\r\nthe rest never comes", "HTTP status 401"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "there is no WebSocket at this URL"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "is not a valid one"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: \xffpgrade\r\n\r\n",
            "is not a valid one",
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: bm90IGl0\r\n\r\n",
            "is not a valid one",
        ),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS"),
        (b"220 mail.example ESMTP\r\n", "does not speak WebSocket"),
        (b"HTTP/1.1 101 " + b"x" * 1_000_000, "is not a valid one"),
    ],
    ids=range(8),
)
@in_virtual_time
async def test_an_answer_that_opens_nothing_is_told_at_once(answer: bytes, said: str) -> None:
    """Though the server leaves the connection open."""

    async def talk(stream: trio.StapledStream[Any, Any]) -> None:
        await stream.receive_some()
        await stream.send_all(answer)
        await trio.sleep_forever()

    start = trio.current_time()
    assert said in await fails(talk)
    assert trio.current_time() == start


@in_virtual_time
async def test_a_server_that_hangs_up() -> None:
    async def talk(stream: trio.StapledStream[Any, Any]) -> None:
        await stream.receive_some()
        await stream.aclose()

    assert await fails(talk) == "The server closed the connection during the WebSocket handshake."


@in_virtual_time
async def test_a_server_that_never_answers_is_given_up_at_the_deadline() -> None:
    async def talk(stream: trio.StapledStream[Any, Any]) -> None:
        await trio.sleep_forever()

    start = trio.current_time()
    assert "far.example:80 did not answer the WebSocket handshake in time" in await fails(talk)
    assert trio.current_time() == start + 60


@in_virtual_time
async def test_one_that_closes_as_soon_as_it_has_accepted() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            request = await wrap_server_stream(nursery, theirs)
            await (await request.accept()).aclose(4000, "full")

        nursery.start_soon(accept)
        async with client(ours) as channel:
            assert await channel.receive() == []
            assert channel.describe_end() == "The server closed the connection with WebSocket code 4000: full."


# -- messages


@in_virtual_time
async def test_messages_are_text_frames_in_the_order_they_were_sent() -> None:
    async with connected() as (channel, server):
        channel.send_nowait(b'{"a":"\xc3\xa9\xf0\x9f\x98\x80"}')
        await channel.send(b"[2]")
        channel.send_nowait(b"[3]")
        assert [await server.get_message() for _ in range(3)] == ['{"a":"é😀"}', "[2]", "[3]"]


@pytest.mark.parametrize("said", ["[1]", b"[1]", "\ufeff[1]", b"\xef\xbb\xbf[1]"])
@in_virtual_time
async def test_both_kinds_of_frames_are_read(said: str | bytes) -> None:
    async with connected() as (channel, server):
        await server.send_message(" ")  # nothing, as an empty line is on a stream
        await server.send_message("")
        await server.send_message(said)
        assert await channel.receive() == [b"[1]"]


@in_virtual_time
async def test_a_binary_frame_that_is_no_utf_8_comes_as_it_is() -> None:
    """It is one bad message, which whoever reads the channel skips and counts."""
    async with connected() as (channel, server):
        await server.send_message(b"\xff\xfe")
        await server.send_message("[2]")
        assert [await channel.receive(), await channel.receive()] == [[b"\xff\xfe"], [b"[2]"]]


@in_virtual_time
async def test_pings_are_answered() -> None:
    async with connected() as (channel, server):
        channel.send_nowait(b"[1]")
        with trio.fail_after(1):
            await server.ping(b"hello")
        assert await server.get_message() == "[1]"


@in_virtual_time
async def test_flush_means_written_and_senders_wait_beyond_the_bound() -> None:
    """A server that does not read: its end of the pipe takes a write at a time."""
    async with throttled() as (channel, gate):
        for _ in range(2):
            channel.send_nowait(b" " * PENDING)
        async with trio.open_nursery() as nursery:
            done: list[str] = []

            async def flush() -> None:
                await channel.flush()
                done.append("flushed")

            async def send() -> None:
                await channel.send(b"[3]")
                done.append("sent")

            nursery.start_soon(flush)
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            assert done == []
            gate.let(1)
            await trio.testing.wait_all_tasks_blocked()
            assert done == ["sent"]  # what is pending now is within the bound
            gate.let(1)
            await trio.testing.wait_all_tasks_blocked()
            assert done == ["sent", "flushed"]
            gate.let(float("inf"))


@in_virtual_time
async def test_a_sender_that_is_cancelled_leaves_nothing_or_all() -> None:
    async with throttled() as (channel, gate):
        await channel.send(b"[%s]" % (b" " * PENDING))
        await trio.testing.wait_all_tasks_blocked()  # the writer is in the middle of this one
        with trio.move_on_after(1) as scope:
            await channel.send(b"[2]")
        assert scope.cancelled_caught
        gate.let(float("inf"))
        await channel.send(b"[3]")
        await channel.flush()
        assert [len(write) > PENDING for write in gate.writes[1:]] == [True, False]  # the first is the handshake


@asynccontextmanager
async def throttled() -> AsyncIterator[tuple[ClientChannel, GatedSend]]:
    """A channel whose writes wait, after the handshake, for being let."""
    ours, theirs = trio.testing.memory_stream_pair()
    gate = GatedSend()
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            request = await wrap_server_stream(nursery, theirs)
            await request.accept()

        class Both(trio.abc.Stream):
            """What is written goes on to the server, once it is let."""

            async def send_all(self, data: bytes | bytearray | memoryview) -> None:
                await gate.send_all(data)
                await ours.send_all(data)

            async def wait_send_all_might_not_block(self) -> None:
                await ours.wait_send_all_might_not_block()

            async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
                return await ours.receive_some(max_bytes)

            async def aclose(self) -> None:
                await gate.aclose()
                await ours.aclose()

        nursery.start_soon(accept)
        async with client(Both()) as channel:
            gate._allowed = 0
            yield channel, gate
        nursery.cancel_scope.cancel()


# -- too large


@in_virtual_time
async def test_the_largest_message_there_may_be() -> None:
    async with connected() as (channel, server):
        await server.send_message("x" * MAX_FRAME)
        assert await channel.receive() == [b"x" * MAX_FRAME]


@in_virtual_time
async def test_a_message_that_is_too_long_ends_the_connection() -> None:
    async with connected() as (channel, server):
        await server.send_message("[1]")
        await server.send_message("x" * (MAX_FRAME + 1))
        await trio.testing.wait_all_tasks_blocked()
        assert await channel.receive() == [b"[1]"]  # what came before it is not lost
        assert await channel.receive() == []
        said = f"The server sent a message longer than maxFrame allows ({MAX_FRAME} bytes)."
        assert channel.describe_end() == said
        with pytest.raises(ConnectionClosed):
            await server.get_message()
        assert server.closed is not None
        assert server.closed.code == 1009


@in_virtual_time
async def test_a_server_that_finds_ours_too_long() -> None:
    """The same code the other way round, with the very same words."""
    async with connected() as (channel, server):
        await server.aclose(1009, f"Exceeded maximum message size: {MAX_FRAME} bytes")
        assert await channel.receive() == []
        assert channel.describe_end().startswith(
            "The server closed the connection with WebSocket code 1009 (message too big): Exceeded"
        )


@in_virtual_time
async def test_one_too_long_in_bytes_but_not_in_characters() -> None:
    """Whose it is can still be told, so it is handed on as what is left of it."""
    async with connected() as (channel, server):
        await server.send_message("é" * (MAX_FRAME - 1))
        await server.send_message("[2]")
        [rest] = await channel.receive()
        assert isinstance(rest, Oversize)
        assert rest.size == 2 * (MAX_FRAME - 1)
        assert await channel.receive() == [b"[2]"]


# -- ending


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        (1000, None, "The server closed the connection."),
        (1000, "bye.", "The server closed the connection with WebSocket code 1000 (normal closure): bye."),
        (1001, None, "The server closed the connection with WebSocket code 1001 (going away)."),
        (1002, "odd", "The WebSocket connection failed with WebSocket code 1002 (protocol error): odd."),
        (4001, "a\x1b[0m\nb", "The server closed the connection with WebSocket code 4001: a [0m b."),
        (
            4001,
            f"no {SECRET}: abcdef very-secret token=abcdef",
            "The server closed the connection with WebSocket code 4001: no ***: abcdef *** ***.",
        ),
    ],
)
@in_virtual_time
async def test_the_code_and_reason_of_the_close_are_told(code: int, reason: str | None, said: str) -> None:
    async with connected() as (channel, server), trio.open_nursery() as nursery:
        await server.send_message("[1]")
        nursery.start_soon(server.aclose, code, reason)
        await trio.testing.wait_all_tasks_blocked()
        assert await channel.receive() == [b"[1]"]
        assert await channel.receive() == []
        assert channel.describe_end() == said
        await channel.send(b"[1]")  # dropped, and no error
        await channel.flush()


@in_virtual_time
async def test_a_server_that_is_gone_without_a_word() -> None:
    async with connected() as (channel, server):
        await server._stream.aclose()
        assert await channel.receive() == []
        assert channel.describe_end() == GOES_AWAY
        await channel.send(b" " * PENDING * 2)
        await channel.send(b"[1]")
        await channel.flush()


@in_virtual_time
async def test_bytes_that_are_no_frames() -> None:
    async with connected() as (channel, server):
        await server._stream.send_all(b"\xff\xff\xff\xff")
        assert await channel.receive() == []
        assert "failed with WebSocket code 1002 (protocol error)" in channel.describe_end()


@in_virtual_time
async def test_a_message_in_pieces_without_end() -> None:
    """They say nothing, so that no bound on the size of a message would ever end it."""
    async with connected() as (channel, server), trio.open_nursery() as nursery:

        async def flood() -> None:
            await server._stream.send_all(b"\x01\x01{")
            while True:
                await server._stream.send_all(b"\x00\x00" * 10_000)

        nursery.start_soon(flood)
        assert await channel.receive() == []
        assert channel.describe_end().endswith("broke: a message came in more than 100000 pieces.")
        nursery.cancel_scope.cancel()


@in_virtual_time
async def test_leaving_writes_what_is_queued_and_closes_properly() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    got: list[object] = []
    async with trio.open_nursery() as nursery:

        async def attend() -> None:
            request = await wrap_server_stream(nursery, theirs)
            server = await request.accept()
            try:
                while True:
                    got.append(await server.get_message())
            except ConnectionClosed as closed:
                got.append(closed.reason and closed.reason.code)

        nursery.start_soon(attend)
        with trio.CancelScope() as scope:
            async with client(ours) as channel:
                channel.send_nowait(b"[1]")
                scope.cancel()
                await trio.sleep_forever()
    assert got == ["[1]", 1000]


@in_virtual_time
async def test_leaving_waits_only_so_long_for_a_server_that_hangs() -> None:
    async with throttled() as (channel, gate):
        channel.send_nowait(b"[1]")
        start = trio.current_time()
    assert trio.current_time() == start + CLOSE_LIMIT
    assert gate.closed


@in_virtual_time
async def test_a_ping_that_crosses_our_close_is_no_crash() -> None:
    """The library has no answer to it any more, and fails."""
    ours, theirs = trio.testing.memory_stream_pair()
    start = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def attend() -> None:
            async with trio.open_nursery() as reading:
                request = await wrap_server_stream(reading, theirs)
                await request.accept()
                reading.cancel_scope.cancel()
            await theirs.receive_some()  # our close
            await theirs.send_all(b"\x89\x00")

        nursery.start_soon(attend)
        async with client(ours):
            await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() == start + CLOSE_LIMIT
