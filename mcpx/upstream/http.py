"""A channel to a server that speaks Streamable HTTP: each message a POST, each answer JSON or a stream of events.

A request of the modern era says all of itself in its body and again in its headers, and closing its stream cancels it
(2026-07-28 basic/transports/streamable-http). One of the legacy era belongs to a session, survives the end of its
stream, and is cancelled by a notification (2025-03-26 to 2025-11-25 basic/transports). Which it is each message says
itself, so that one channel carries the probe and whatever comes of it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from msgspec import Raw

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.spec.codes import MODERN_CODES, UNSUPPORTED_VERSION
from mcpx.spec.headers import LAST_EVENT_ID, MCP_SESSION_ID, request_headers
from mcpx.transports.channel import Gap, Said
from mcpx.transports.crew import open_crew
from mcpx.transports.reasons import secrets_among
from mcpx.upstream.http_answers import (
    ACCEPT,
    EVENTS,
    TOO_LATE,
    NoAnswer,
    SessionExpired,
    error_code,
    no_answer,
    read_events,
    read_messages,
    read_refusal,
)
from mcpx.upstream.http_channel import CLOSE_LIMIT, JSON_HEADERS, Exchange, PostingChannel
from mcpx.upstream.http_letters import INITIALIZE, INITIALIZED, LISTEN, read_answer, read_letter
from mcpx.upstream.http_listen import run_listening
from mcpx.upstream.http_session import LegacySession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.settings import Limits
    from mcpx.transports.http_client import HttpAnswer, HttpClient
    from mcpx.upstream.http_answers import Take
    from mcpx.upstream.http_letters import Letter
    from mcpx.upstream.mirrored import Mirrored

FAREWELL_LIMIT = 2.0  # seconds that a cancelled request's stream stays open until the server has taken the notification
RESUME_TRIES = 5  # in a row without anything new, before a stream that broke is given up
RESUME_DELAY = 1.0  # seconds before a stream is resumed, times the try, where the server names none
RESUME_LEAST = 0.1  # seconds, whatever it names

OPENING = frozenset({"server/discover", INITIALIZE})
# What a server never answers to a request of its own era: a status with nothing of MCP in it, or one of these errors.
NOT_FOUND = frozenset({400, 404, 405, 410})
LEGACY_DOUBTS = MODERN_CODES
MODERN_DOUBTS = frozenset({UNSUPPORTED_VERSION})


class HttpChannel(PostingChannel):
    """A ``ClientChannel`` over Streamable HTTP. Open it with ``open_http_channel``."""

    def __init__(
        self, server: str, client: HttpClient, crew: trio.Nursery, mirrored: Mirrored, *, max_frame: int
    ) -> None:
        super().__init__(server, client, crew, max_frame=max_frame)
        self.session = LegacySession(
            server, client, crew, end=self.end, renewed=self._session_renewed, max_frame=max_frame
        )
        self._mirrored = mirrored
        self._modern: str | None = None  # the version that modern requests name

    def cancel(self, number: int, farewell: bytes | None) -> None:
        """Say that a request is no longer awaited; see ``ClientChannel``.

        A modern one is cancelled by closing its stream, a legacy one by the notification; one that was not sent whole
        never began. Where nothing may be said the exchange goes on, and what it brings is dropped.
        """
        exchange = self._exchanges.get(number)
        if exchange is None or farewell is None:
            return
        told = exchange.letter.version is None and exchange.sent and exchange.generation == self.session.generation
        if not told or self.ended:
            exchange.scope.cancel()
            return
        exchange.scope.deadline = trio.current_time() + FAREWELL_LIMIT
        self._begin_note(read_letter(farewell), exchange.scope.cancel)

    async def aclose(self) -> None:
        """Let what is under way come to its end, for a moment, and give the session back."""
        with trio.move_on_after(CLOSE_LIMIT, shield=True):
            with trio.move_on_after(CLOSE_LIMIT / 2):
                await self.flush()
            self.end("mcpx closed the connection.")
            await self.session.delete()

    async def _session_renewed(self) -> None:
        await self.deliver(Gap(forgotten=True))

    # -- what goes out

    def _headers(self, letter: Letter) -> dict[str, str]:
        headers = {"Accept": ACCEPT, **JSON_HEADERS}
        version = letter.version
        if version is None and letter.id is None and self.session.generation == 0:
            version = self._modern  # a notification: it names none, and the headers must
        if version is not None and letter.method is not None:
            headers.update(request_headers(letter.method, letter.params, version))
            if letter.name is not None:
                headers.update(self._mirrored.headers(letter.name, letter.params.get("arguments")))
        elif letter.method != INITIALIZE:
            headers.update(self.session.headers)
        return headers

    def _secrets(self, headers: dict[str, str]) -> tuple[str, ...]:
        session = headers.get(MCP_SESSION_ID)
        return self.client.secrets if session is None else secrets_among((*self.client.secrets, session))

    async def _post_note(self, letter: Letter) -> str | None:
        if letter.method == INITIALIZED:
            try:
                return await super()._post_note(letter)
            finally:
                self.session.completed()
        if self.session.generation:
            await self.session.until_ready()
        return await super()._post_note(letter)

    async def _converse(self, exchange: Exchange) -> str | None:
        letter = exchange.letter
        again = False
        if letter.version is not None:
            self._modern = letter.version
        while True:
            if letter.version is None and letter.method != INITIALIZE:
                await self.session.until_ready()
            generation = exchange.generation = self.session.generation
            try:
                await self._post(exchange)
                # Of a batch only the connection knows whether it could read it, and has done so.
                return None if exchange.answered else "The server's answer makes no sense."
            except SessionExpired:
                exchange.sent = False
                # It did not run, so it may be sent again: once, since a server that forgets each session at once has
                # none to give.
                if again or not await self.session.renew(generation):
                    raise NoAnswer("The session with the server expired; try again.", 404) from None
                again = True

    async def _post(self, exchange: Exchange) -> None:
        """Post a request once, and deliver all that comes of it."""
        letter = exchange.letter
        headers = self._headers(letter)
        why: NoAnswer
        try:
            async with self.client.open_answer("POST", headers, letter.body, sent=exchange.mark_sent) as answer:
                if answer.status >= 300:
                    await self._take_refusal(exchange, answer, headers)
                    return
                if await read_messages(answer, self._taker(exchange, answer), exchange.place, self.max_frame):
                    return
                why = no_answer(letter, answer)
        except BrokenAnswer as error:
            why = NoAnswer(str(error))
        await self._resume(exchange, why)

    # -- what comes back

    def _taker(self, exchange: Exchange, answer: HttpAnswer) -> Take:
        async def take(body: bytes, alone: bool) -> bool:
            found = read_answer(body, exchange.number, alone=alone)
            if found.frame is not None:
                self._look_at(exchange, found.frame.result, answer)
                if error_code(found.frame) in (LEGACY_DOUBTS if exchange.letter.version is None else MODERN_DOUBTS):
                    self._doubt(exchange)
            if found.frame is None:
                await self.deliver(Said(found.body, exchange.number))
                return False
            exchange.answered = found.alone
            await self.deliver(found.body)
            return True

        return take

    def _look_at(self, exchange: Exchange, result: object, answer: HttpAnswer) -> None:
        """A result of ``initialize`` opens a session."""
        if exchange.letter.method == INITIALIZE and isinstance(result, Raw):
            self.session.agreed(exchange.letter, answer, result)

    async def _take_refusal(self, exchange: Exchange, answer: HttpAnswer, headers: dict[str, str]) -> None:
        refusal = await read_refusal(answer, self._secrets(headers))
        if MCP_SESSION_ID in headers and refusal.is_expiry(exchange.number):
            raise SessionExpired
        if refusal.error is None or refusal.body is None or refusal.status in TOO_LATE:
            if refusal.status in NOT_FOUND:
                self._doubt(exchange)
            raise NoAnswer(refusal.reason(), refusal.status)
        if refusal.status in NOT_FOUND and exchange.letter.version is not None and not refusal.names(exchange.number):
            self._doubt(exchange)  # a modern server knows what it refuses
        await self._taker(exchange, answer)(refusal.body, True)

    def _doubt(self, exchange: Exchange) -> None:
        """A server answers as one of its era does not: another may have taken its place, so the era is looked at anew.

        Not while other requests are under way: then it may be something about this one alone that a proxy refuses. Nor
        for a request to listen, which is none that everybody knows, and is always under way.
        """
        others = [one for one in self._exchanges.values() if one is not exchange and one.letter.method != LISTEN]
        if exchange.letter.method not in (*OPENING, LISTEN) and not others:
            exchange.doubt = "The server no longer answers as it did when it was opened, and is looked at anew."

    # -- a stream that broke

    async def _resume(self, exchange: Exchange, why: NoAnswer) -> None:
        """Go on with a legacy request's stream where it broke (Resumability and Redelivery), or raise ``why``."""
        place, tries = exchange.place, 0
        while (
            place.last_id is not None
            and exchange.letter.version is None
            and exchange.generation == self.session.generation
            and tries < RESUME_TRIES
        ):
            delay = RESUME_DELAY * (tries + 1) if place.retry is None else place.retry
            await trio.sleep(max(delay, RESUME_LEAST))
            before = place.events
            headers = {"Accept": EVENTS, **self.session.headers, LAST_EVENT_ID: place.last_id}
            try:
                async with self.client.open_answer("GET", headers) as answer:
                    if answer.status != 200 or answer.media_type != EVENTS:
                        refusal = await read_refusal(answer, self._secrets(headers))
                        raise NoAnswer(f"{why.reason} It could not be resumed: {refusal.reason()}", refusal.status)
                    if await read_events(answer, self._taker(exchange, answer), place, self.max_frame):
                        return
            except (ConnectError, BrokenAnswer):
                pass  # it may be there again at the next try
            tries = 0 if place.events > before else tries + 1
        raise why


@asynccontextmanager
async def open_http_channel(
    server: str, client: HttpClient, mirrored: Mirrored, limits: Limits
) -> AsyncGenerator[HttpChannel]:
    """Open a channel to a server over HTTP. Nothing is sent by that.

    Leaving gives notifications a moment to be taken and ends the session, for at most ``CLOSE_LIMIT``, and closes what
    is still open. The tasks outlive the cancellation of the body, so that farewells go out.
    """
    async with open_crew() as crew:
        channel = HttpChannel(server, client, crew, mirrored, max_frame=limits.max_frame)
        crew.start_soon(run_listening, channel, channel.session, limits, name=f"stream of {server}")
        try:
            yield channel
        finally:
            await channel.aclose()
