"""A channel to a server that speaks HTTP+SSE: one stream on which it says everything, and an address to post to, which
is the first thing that it says.

(2024-11-05 basic/transports, HTTP with SSE. Such a server is of the legacy era, of whichever revision.)
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from mcpx.errors import BrokenAnswer, ConnectError, RemoteProtocolError
from mcpx.spec.headers import MCP_PROTOCOL_VERSION
from mcpx.spec.revisions import VERSION_HEADER
from mcpx.transports.crew import open_crew
from mcpx.upstream.http_answers import EVENTS, NoAnswer, is_message, read_refusal, too_long
from mcpx.upstream.http_channel import CLOSE_LIMIT, JSON_HEADERS, Exchange, PostingChannel
from mcpx.upstream.http_letters import INITIALIZE, read_answer, read_letter
from mcpx.wire.raws import members_of, string_of
from mcpx.wire.sse import Event, SseDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.settings import Limits
    from mcpx.transports.http_client import HttpAnswer, HttpClient
    from mcpx.upstream.http_letters import Letter

ENDPOINT = "endpoint"  # the event that says where to post
GONE = frozenset({404, 410})  # what a post is answered with when the server has forgotten whose stream it belongs to


class NoEventStream(ConnectError):
    """There is no HTTP+SSE server at the address; ``status`` is that of its answer, ``None`` where it was no HTTP."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class SseChannel(PostingChannel):
    """A ``ClientChannel`` over HTTP+SSE. Open it with ``open_sse_channel``."""

    def __init__(self, server: str, client: HttpClient, crew: trio.Nursery, *, max_frame: int) -> None:
        super().__init__(server, client, crew, max_frame=max_frame)
        self._endpoint: str | None = None
        self._revision: str | None = None
        self._initializing: int | None = None  # the request whose answer names the revision
        self.failure: ConnectError | None = None  # why there is no endpoint
        self.settled = trio.Event()  # there is an endpoint, or a failure

    def cancel(self, number: int, farewell: bytes | None) -> None:
        """Say that a request is no longer awaited, by the notification; see ``ClientChannel``."""
        if farewell is not None and not self.ended:
            self._begin_note(read_letter(farewell))

    async def run_stream(self) -> None:
        """Read the stream to its end, which is the channel's."""
        try:
            async with self.client.open_answer("GET", {"Accept": EVENTS}) as answer:
                await self._read(answer)
            self._fail("The server ended its stream of events.")
        except NoEventStream as error:
            self._fail(str(error), error)
        except ConnectError as error:
            self._fail(str(error), error)
        except BrokenAnswer as error:
            self._fail(str(error) if self._endpoint is None else "The server's stream of events broke off.")
        except NoAnswer as error:
            self._fail(error.reason)

    def _fail(self, reason: str, error: ConnectError | None = None) -> None:
        if self._endpoint is None:
            self.failure = error or NoEventStream(reason)
        self.settled.set()
        self.end(reason)

    async def _read(self, answer: HttpAnswer) -> None:
        if answer.status != 200:
            raise NoEventStream((await read_refusal(answer, self.client.secrets)).reason(), answer.status)
        if answer.media_type != EVENTS:
            raise NoEventStream("The server has no stream of events at this URL.", answer.status)
        decoder = SseDecoder(self.max_frame)
        while chunk := await answer.receive_some():
            try:
                events = decoder.feed(chunk)
            except RemoteProtocolError:
                raise NoAnswer(too_long(self.max_frame)) from None
            await self._take_all(events)
            del chunk, events  # nothing of them is held while the server is waited for

    async def _take_all(self, events: list[Event]) -> None:
        for event in events:
            await self._take(event)

    async def _take(self, event: Event) -> None:
        if event.event == ENDPOINT and self._endpoint is None:
            try:
                self._endpoint = self.client.resolve(event.data.decode(errors="replace").strip())
            except ConnectError as error:
                raise NoEventStream(f"{error}; what mcpx posts would be told to somebody else.") from None
            self.settled.set()
        elif is_message(event):
            if self._endpoint is None:
                raise NoEventStream("The server's stream does not begin with the address to post to.")
            self._look_at(event.data)
            await self.deliver(event.data)

    def _look_at(self, body: bytes) -> None:
        """The answer to ``initialize`` names the revision, which some servers want to hear again."""
        if self._initializing is not None:
            found = read_answer(body, self._initializing, alone=False).frame
            if found is not None:
                self._initializing = None
                result = found.result if found.result else None
                self._revision = string_of((members_of(result) or {}).get("protocolVersion"))

    @property
    def _target(self) -> str | None:
        return self._endpoint

    def _headers(self, letter: Letter) -> dict[str, str]:
        headers = {"Accept": "*/*", **JSON_HEADERS}
        if letter.method != INITIALIZE and self._revision in VERSION_HEADER:
            headers[MCP_PROTOCOL_VERSION] = self._revision
        return headers

    async def _converse(self, exchange: Exchange) -> None:
        """Post a request. Its answer comes on the stream."""
        letter = exchange.letter
        if letter.method == INITIALIZE:
            self._initializing = exchange.number
        headers = self._headers(letter)
        async with self.client.open_answer("POST", headers, letter.body, target=self._target) as answer:
            if answer.status >= 300:
                refusal = await read_refusal(answer, self.client.secrets)
                if refusal.status in GONE:
                    exchange.doubt = f"The server no longer knows the stream that it opened: {refusal.reason()}"
                raise NoAnswer(refusal.reason(), refusal.status)
            await answer.read(self.max_frame)


@asynccontextmanager
async def open_sse_channel(
    server: str, client: HttpClient, limits: Limits, deadline: float
) -> AsyncGenerator[SseChannel]:
    """Open the stream, and wait for the address to post to until the deadline.

    Raises ``NoEventStream`` where there is no such server, and ``ConnectError`` where it cannot be reached.
    """
    async with open_crew() as crew:
        channel = SseChannel(server, client, crew, max_frame=limits.max_frame)
        crew.start_soon(channel.run_stream, name=f"stream of {server}")
        with trio.move_on_at(deadline):
            await channel.settled.wait()
        if channel.failure is not None:
            raise channel.failure
        if not channel.settled.is_set():
            raise NoEventStream("The server did not say in time where to post to.")
        try:
            yield channel
        finally:
            with trio.move_on_after(CLOSE_LIMIT, shield=True):
                await channel.flush()
            channel.end("mcpx closed the connection.")
