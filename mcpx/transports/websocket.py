"""The client's end of a WebSocket: a channel to a server at a ``ws://`` or ``wss://`` address.

The stream beneath the library is ours, and sees how the server answers: a handshake that fails is told as soon as that
is certain.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import h11
import trio
from trio_websocket import HandshakeError, wrap_client_stream
from wsproto.utilities import ProtocolError

from mcpx.errors import ConnectError
from mcpx.transports.crew import open_crew
from mcpx.transports.handshake import Opening, is_refusal, opening, why_refused
from mcpx.transports.outbox import MAX_PENDING
from mcpx.transports.reasons import clean, why_no_tls
from mcpx.transports.sockets import open_tcp
from mcpx.transports.websocket_channel import CLOSE_LIMIT, READ_SIZE, SUBPROTOCOL, WebSocketChannel
from mcpx.transports.websocket_frames import FrameFlood, Frames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from trio_websocket import ConnectionClosed

HEAD_KEPT = 64  # bytes of the answer to the handshake that are looked at: its status line

NORMAL_CODES = (1000, 1005)  # closed for no particular reason, and without any code (RFC 6455 section 7.4.1)
ABNORMAL = 1006  # not closed at all, but gone
FAULTS = (1002, 1007)  # a frame that makes no sense: the library gives them to what the server sends as well
TOO_BIG = 1009


class ClientChannel(WebSocketChannel):
    """A ``Channel`` to a server. Open it with ``open_websocket``."""

    def __init__(self, stream: trio.abc.Stream, handshake: Opening, *, max_frame: int, max_pending: int) -> None:
        self._observed = _ObservedStream(stream)
        super().__init__(self._observed, max_frame=max_frame, max_pending=max_pending)
        self._handshake = handshake
        self._end = "The connection to the server ended."

    def describe_end(self) -> str:
        """How it ended, in a sentence for a person."""
        return self._end

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
        await self._observed.over.wait()
        if self._socket is None:
            scope.cancel()

    def check_open(self) -> None:
        """Raises ``ConnectError`` where the handshake did not succeed."""
        if self._socket is None:
            raise ConnectError(why_refused(self._observed.head, self._observed.broke))

    def _note_end(self, closed: ConnectionClosed) -> None:
        self._end = self._why_closed(closed)

    def _why_closed(self, closed: ConnectionClosed) -> str:
        reason = closed.reason
        if reason is None or reason.code == ABNORMAL:
            if self._observed.broke is not None:
                return f"The connection to the server broke: {self._observed.broke}."
            return "The server closed the connection without a word."
        if reason.code == TOO_BIG and isinstance(closed.__context__, trio.ClosedResourceError):
            # Closed at this end. Where the server does it, because of what mcpx sent, it is the end of the channel.
            return f"The server sent a message longer than maxFrame allows ({self._max_frame} bytes)."
        said = clean(reason.reason or "", self._handshake.secrets)
        if reason.code in NORMAL_CODES and not said:
            return "The server closed the connection."
        how = "The WebSocket connection failed" if reason.code in FAULTS else "The server closed the connection"
        known = "" if reason.name.endswith("_RESERVED") else f" ({reason.name.replace('_', ' ').lower()})"
        return f"{how} with WebSocket code {reason.code}{known}{f': {said}' if said else ''}."


class _ObservedStream(trio.abc.Stream):
    """A stream that remembers how the answer to the handshake began, and how the stream ended."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._frames = Frames()
        self.head = b""  # of what was received
        self.broke: str | None = None
        self.over = trio.Event()  # set when nothing more will come that is worth waiting for

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            if self._frames.waiting:
                await trio.lowlevel.checkpoint()  # for others to have their turn
                return self._frames.take()
            data = bytes(await self._stream.receive_some(max_bytes))
            if self._frames.in_head:
                data = self._frames.take_head(data)
            else:
                self._frames.put(data)
                data = self._frames.take()
        except FrameFlood as flood:
            self.broke = str(flood)
            self.over.set()
            raise
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
) -> AsyncGenerator[ClientChannel]:
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
) -> AsyncGenerator[ClientChannel]:
    """Open a channel over a byte stream to a server, which becomes the channel's own.

    A received message of more than ``max_frame`` bytes ends the connection; ``max_pending`` bounds the bytes queued for
    a peer that does not read before ``send`` waits. Leaving writes what is queued and makes the closing handshake, for
    at most ``CLOSE_LIMIT`` seconds, and closes the stream. The writer outlives the cancellation of the body, so that
    farewells go out. Raises ``ConnectError``.
    """
    channel = ClientChannel(stream, handshake, max_frame=max_frame, max_pending=max_pending)
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
        raise ConnectError(why_no_tls(handshake.where, error.__cause__, "ws://")) from None
    except BaseException:
        await trio.aclose_forcefully(plain)
        raise
    return secured
