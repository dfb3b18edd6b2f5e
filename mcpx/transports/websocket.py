"""Messages over a WebSocket, one a text frame: a channel to a server at a ``ws://`` or ``wss://`` address.

The library frames, answers pings and makes the closing handshake. Ours are the queue, the only writer, and the stream
beneath, which sees how the server answers: a handshake that fails is told as soon as that is certain.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import h11
import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream
from wsproto.utilities import ProtocolError

from mcpx.errors import ConnectError
from mcpx.settings import KiB
from mcpx.transports.crew import open_crew
from mcpx.transports.handshake import MASK, Opening, is_refusal, opening, why_refused
from mcpx.transports.outbox import MAX_PENDING, Outbox, Sending
from mcpx.transports.sockets import open_tcp
from mcpx.wire.lines import KEPT, Oversize

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

SUBPROTOCOL = "mcp"
READ_SIZE = 64 * KiB
HEAD_KEPT = 64  # bytes of the answer to the handshake that are looked at: its status line
CLOSE_LIMIT = 0.5  # seconds that leaving waits for what is queued and for the closing handshake; within any exit budget
MAX_REASON = 200  # characters shown of the server's reason for closing

NORMAL_CODES = (1000, 1005)  # closed for no particular reason, and without any code (RFC 6455 section 7.4.1)
ABNORMAL = 1006  # not closed at all, but gone
FAULTS = (1002, 1007)  # a frame that makes no sense: the library gives them to what the server sends as well
TOO_BIG = 1009

_BOM = b"\xef\xbb\xbf"


class WebSocketChannel(Sending):
    """A ``Channel`` over a WebSocket. Open it with ``open_websocket``."""

    def __init__(self, stream: trio.abc.Stream, handshake: Opening, *, max_frame: int, max_pending: int) -> None:
        super().__init__(Outbox(max_pending))
        self._stream = _ObservedStream(stream)
        self._handshake = handshake
        self._max_frame = max_frame
        self._socket: WebSocketConnection | None = None
        self._end = "The connection to the server ended."

    def describe_end(self) -> str:
        """How it ended, in a sentence for a person."""
        return self._end

    async def receive(self) -> list[bytes | Oversize]:
        """The next message; see ``Channel``. Empty when the connection has ended, however it did."""
        assert self._socket is not None
        while True:
            try:
                message = await self._socket.get_message()
            except ConnectionClosed as closed:
                self._end = self._why_closed(closed)
                return []
            data = message.encode() if isinstance(message, str) else bytes(message)
            data = data.removeprefix(_BOM)
            if len(data) > self._max_frame:  # the library counts characters
                return [Oversize(len(data), data[:KEPT], data[-KEPT:])]
            if data and not data.isspace():
                return [data]

    async def run_socket(self, settled: trio.Event) -> None:
        """Make the handshake, then read until the connection ends. ``settled`` is set when the handshake is over."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._give_up_early, nursery.cancel_scope)
                handshake = self._handshake
                # No room for messages between the library's reader and ours, so that what came before an oversize
                # message is never dropped with it.
                self._socket = await wrap_client_stream(
                    nursery,
                    self._stream,  # pyright: ignore[reportArgumentType]  # it takes any stream, whatever it declares
                    handshake.host_header,
                    handshake.target,
                    subprotocols=[SUBPROTOCOL],
                    extra_headers=handshake.headers,
                    message_queue_size=0,
                    max_message_size=self._max_frame,
                    receive_buffer_size=READ_SIZE,
                )
                settled.set()
        except* (HandshakeError, ProtocolError, h11.ProtocolError, UnicodeError):
            pass  # the server is no WebSocket, or no longer: the stream knows more than these do
        finally:
            settled.set()

    async def _give_up_early(self, scope: trio.CancelScope) -> None:
        """The library waits for a handshake even when the connection has ended, or an error page is endless."""
        await self._stream.over.wait()
        if self._socket is None:
            scope.cancel()

    async def run_writer(self) -> None:
        """Write what is queued, one message after the other, until the peer has gone or the task is cancelled."""
        assert self._socket is not None
        try:
            while await self._outbox.wait():
                (message,) = self._outbox.take(0)
                await self._socket.send_message(message.decode())
                self._outbox.done(len(message))
        except ConnectionClosed:
            self._outbox.close()  # the reader will say why

    def check_open(self) -> None:
        """Raises ``ConnectError`` where the handshake did not succeed."""
        if self._socket is None:
            raise ConnectError(why_refused(self._stream.head, self._stream.broke))

    async def close_politely(self) -> None:
        """Write what is queued, and make the closing handshake. Bound it with a deadline."""
        if self._socket is not None:
            await self._outbox.flush()
            await self._socket.aclose()

    async def close(self) -> None:
        """Close the stream, whatever is under way on it."""
        self._outbox.close()
        await trio.aclose_forcefully(self._stream)

    def _why_closed(self, closed: ConnectionClosed) -> str:
        reason = closed.reason
        if reason is None or reason.code == ABNORMAL:
            if self._stream.broke is not None:
                return f"The connection to the server broke: {self._stream.broke}."
            return "The server closed the connection without a word."
        if reason.code == TOO_BIG and isinstance(closed.__context__, trio.ClosedResourceError):
            # Closed at this end. Where the server does it, because of what mcpx sent, it is the end of the channel.
            return f"The server sent a message longer than maxFrame allows ({self._max_frame} bytes)."
        said = self._clean(reason.reason or "")
        if reason.code in NORMAL_CODES and not said:
            return "The server closed the connection."
        how = "The WebSocket connection failed" if reason.code in FAULTS else "The server closed the connection"
        known = "" if reason.name.endswith("_RESERVED") else f" ({reason.name.replace('_', ' ').lower()})"
        return f"{how} with WebSocket code {reason.code}{known}{f': {said}' if said else ''}."

    def _clean(self, said: str) -> str:
        """What the server says, without secrets and control characters, and without a full stop."""
        for secret in self._handshake.secrets:
            said = said.replace(secret, MASK)
        said = "".join(one if one.isprintable() else " " for one in said[:MAX_REASON])
        return said.strip().rstrip(".")


class _ObservedStream(trio.abc.Stream):
    """A stream that remembers how the answer to the handshake began, and how the stream ended."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.head = b""  # of what was received
        self.broke: str | None = None
        self.over = trio.Event()  # set when nothing more will come that is worth waiting for

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        except trio.BrokenResourceError as error:
            self._note(error)
            raise
        if len(self.head) < HEAD_KEPT:
            self.head += data[: HEAD_KEPT - len(self.head)]
        if not data or is_refusal(self.head):
            self.over.set()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as error:
            self._note(error)
            raise

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self.over.set()
        await self._stream.aclose()

    def _note(self, error: trio.BrokenResourceError) -> None:
        cause = error.__cause__
        if self.broke is None and isinstance(cause, OSError):
            self.broke = cause.strerror or str(cause)
        self.over.set()


@asynccontextmanager
async def open_websocket(
    url: str, headers: Mapping[str, str], *, deadline: float, max_frame: int, max_pending: int = MAX_PENDING
) -> AsyncGenerator[WebSocketChannel]:
    """Open a channel to a server at a ``ws://`` or ``wss://`` URL. ``deadline`` is for connecting and the handshake.

    Raises ``ConnectError``, which says in a sentence what is wrong. For the rest see ``open_websocket_channel``.
    """
    handshake = opening(url, headers)
    stream: trio.abc.Stream | None = None
    with trio.move_on_at(deadline):
        stream = await _dial(handshake)
    if stream is None:
        raise ConnectError(f"{handshake.where} could not be connected to in time.")
    async with open_websocket_channel(
        stream, handshake, deadline=deadline, max_frame=max_frame, max_pending=max_pending
    ) as channel:
        yield channel


@asynccontextmanager
async def open_websocket_channel(
    stream: trio.abc.Stream, handshake: Opening, *, deadline: float, max_frame: int, max_pending: int = MAX_PENDING
) -> AsyncGenerator[WebSocketChannel]:
    """Open a channel over a byte stream to a server, which becomes the channel's own.

    A received message of more than ``max_frame`` bytes ends the connection; ``max_pending`` bounds the bytes queued for
    a peer that does not read before ``send`` waits. Leaving writes what is queued and makes the closing handshake, for
    at most ``CLOSE_LIMIT`` seconds, and closes the stream. The writer outlives the cancellation of the body, so that
    farewells go out. Raises ``ConnectError``.
    """
    channel = WebSocketChannel(stream, handshake, max_frame=max_frame, max_pending=max_pending)
    try:
        async with open_crew() as crew:
            settled = trio.Event()
            crew.start_soon(channel.run_socket, settled)
            with trio.move_on_at(deadline) as waiting:
                await settled.wait()
            if waiting.cancelled_caught:
                raise ConnectError(
                    f"{handshake.where} did not answer the WebSocket handshake in time. Is it a WebSocket server?"
                )
            channel.check_open()
            crew.start_soon(channel.run_writer)
            try:
                yield channel
            finally:
                with trio.move_on_after(CLOSE_LIMIT, shield=True):
                    await channel.close_politely()
    finally:
        await channel.close()


async def _dial(handshake: Opening) -> trio.abc.Stream:
    """Connect, and agree on TLS where the address wants it. Raises ``ConnectError``."""
    plain = await open_tcp(handshake.host, handshake.port)
    if not handshake.tls:
        return plain
    secured = trio.SSLStream(plain, ssl.create_default_context(), server_hostname=handshake.host, https_compatible=True)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(plain)
        raise ConnectError(_why_no_tls(handshake, error.__cause__)) from None
    except BaseException:
        await trio.aclose_forcefully(plain)
        raise
    return secured


def _why_no_tls(handshake: Opening, cause: BaseException | None) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = cause.verify_message.rstrip(".")
        own = "If it is one of your own, name the file of its authority in mcpx's environment variable SSL_CERT_FILE."
        return f"The certificate of {handshake.where} is not accepted: {why}. {own}"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return f"{handshake.where} does not speak TLS; its URL should begin with ws://."
        if cause.reason:
            return f"TLS with {handshake.where} failed: {cause.reason.replace('_', ' ').lower()}."
    return f"{handshake.where} closed the connection during the TLS handshake."
