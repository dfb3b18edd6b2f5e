"""POSTs that stand alone: those of the modern era, and of legacy hosts that opened no session.

Such a request lives in the task of its POST, so its client's hanging up cancels it. (2026-07-28
basic/transports/streamable-http, Cancellation.)
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET, UnsetType

from mcpx.errors import McpxError, RemoteProtocolError, RpcError
from mcpx.host.answer import Refused
from mcpx.host.changes import Unheard
from mcpx.host.conversation import Conversation, Slot
from mcpx.host.eras import Envelopes
from mcpx.host.http.exchanges import answer_all, answer_one, send_refusals, take_body
from mcpx.host.http.flights import CALLS, Flight
from mcpx.host.http.reply import EVENTS, JSON_HEADERS, TEXT_HEADERS, Events, Reply
from mcpx.host.listen import LISTEN
from mcpx.spec import meta
from mcpx.spec.codes import HEADER_MISMATCH, STATUS, UNSUPPORTED_VERSION
from mcpx.spec.headers import MCP_PROTOCOL_VERSION, check_headers, check_params
from mcpx.spec.revisions import ASSUMED_ON_HTTP, SUPPORTED, is_modern
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, decode_frame, id_key
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

    from mcpx.host.answer import Answer
    from mcpx.host.http.exchanges import Owed
    from mcpx.host.http.flights import Flights
    from mcpx.host.http.reply import Pulse
    from mcpx.host.inbound import Inbound
    from mcpx.host.service import Service
    from mcpx.transports.http_server import Aloft, HttpRequest, HttpResponse
    from mcpx.wire.frames import Frame

MAX_SHOWN = 80  # characters of a version in a message

# The HTTP status of a request that was not let in; 400 for any other code. The internal one: mcpx is stopping.
_REFUSED = {**STATUS, INTERNAL_ERROR: 503}


class Stateless:
    """Serves such POSTs, each as a conversation of its own: clients number from 0 (LV-37)."""

    def __init__(self, service: Service, pulse: Pulse, owed: Owed, flights: Flights) -> None:
        self._service = service
        self._pulse = pulse
        self._owed = owed
        self.flights = flights
        self._envelopes = Envelopes()
        self._ending = trio.Event()

    def stop(self) -> None:
        """Let no more requests in, and have the listen streams end."""
        self._ending.set()

    def begin(self, aloft: Aloft) -> Callable[[], None] | None:
        """Begin a POST of the modern era without a task, if it is a call that nothing is wrong with."""
        request = aloft.request
        try:
            frame = decode_frame(request.body)
            if frame.method not in CALLS or frame.id is UNSET or self._ending.is_set():
                return None
            conversation = self._converse(request, 1)
            slot = conversation.take_frame(frame)
            if not isinstance(slot, Slot) or not self._fits(slot.inbound, request.headers):
                return None
        except McpxError:
            return None  # what is wrong is found again, and said, by `modern`
        flight = _Flight(self, conversation, slot, aloft)
        flight.begin()
        return flight.hang_up

    def _fits(self, inbound: Inbound, headers: Mapping[str, str]) -> bool:
        """``_check`` where nothing has to be waited for."""
        if not inbound.modern:
            return False
        check_headers(headers, inbound.method, inbound.params, inbound.revision)
        if inbound.method == "tools/call" and (name := string_of(inbound.params.get("name"))) is not None:
            mirrored = self._service.gateway.mirrored_nowait(name, inbound.asker)
            if mirrored is None:
                return False
            check_params(headers, mirrored, inbound.params.get("arguments"))
        return True

    async def modern(self, request: HttpRequest, response: HttpResponse) -> None:
        """A POST of the modern era: one request or notification, whose headers say what its body does."""
        headers = request.headers
        with self._converse(request, 1) as conversation:
            try:
                frame = decode_frame(request.body)
                if frame.id is UNSET:
                    _check_notification(headers, frame)
                taken = conversation.take_frame(frame)
            except RemoteProtocolError as error:
                taken = conversation.refusal(error.id, error)
            except RpcError as error:  # a notification gets no answer, not even an error
                await response.send(400, f"{error.message}\n".encode(), TEXT_HEADERS)
                return
            if taken is None:
                await response.send(202)
                return
            if isinstance(taken, Slot):
                refusal = await self._check(conversation, taken, headers)
                if refusal is None:
                    await self.answer(conversation, taken, request, response)
                    return
            else:
                refusal = _mismatch(conversation, request) or taken
            await response.send(_REFUSED.get(refusal.code, 400), refusal.data, JSON_HEADERS)

    async def legacy(self, request: HttpRequest, response: HttpResponse) -> None:
        """A POST of a legacy host without a session (LV-10)."""
        with self._converse(request, self._service.gateway.settings.limits.max_in_flight) as conversation:
            taken = take_body(conversation, request.body)
            if not taken.slots:
                await send_refusals(response, taken)
                return
            reply = Reply(response, request.headers.get("accept"))
            if any(map(_needs_stream, taken.slots)) and not reply.streams:
                for slot in taken.slots:
                    conversation.end(slot)
                await _refuse_unheard(response)
                return
            with self._pulse.keeping(reply):
                message = await answer_all(conversation, taken, Events(reply), self._owed)
                if message is None:
                    await reply.finish_empty()
                else:
                    await reply.finish(message)

    def _converse(self, request: HttpRequest, limit: int) -> Conversation:
        version = request.headers.get(MCP_PROTOCOL_VERSION)
        named = version if version in SUPPORTED else None
        name = f"http {request.peer}"
        return Conversation(
            self._service,
            name,
            "http",
            assumed=named or ASSUMED_ON_HTTP,
            limit=limit,
            relay=Unheard(name),
            caller=_caller(request),
            envelopes=self._envelopes,
            ending=self._ending,
            named=named is not None,
        )

    async def _check(self, conversation: Conversation, slot: Slot, headers: Mapping[str, str]) -> Answer | None:
        """Hold the headers against the body; a request that is refused has ended.

        (2026-07-28 basic/transports/streamable-http, Server Validation.)
        """
        inbound = slot.inbound
        try:
            if not inbound.modern:
                raise _no_envelope(inbound, headers.get(MCP_PROTOCOL_VERSION, ""))
            check_headers(headers, inbound.method, inbound.params, inbound.revision)
            if inbound.method == "tools/call" and (name := string_of(inbound.params.get("name"))) is not None:
                with trio.CancelScope() as scope, self._owed.owing(scope):
                    mirrored = await self._service.gateway.mirrored(name, inbound.asker)
                    check_params(headers, mirrored, inbound.params.get("arguments"))
                if scope.cancelled_caught:
                    raise Refused("mcpx is stopping")
        except McpxError as error:
            conversation.end(slot)
            return conversation.refusal(slot.id, error, inbound.method)
        except BaseException:
            conversation.end(slot)
            raise
        return None

    async def answer(
        self,
        conversation: Conversation,
        slot: Slot,
        request: HttpRequest,
        response: HttpResponse,
        since: float | None = None,
    ) -> None:
        """Answer the one request of a modern POST, which has come ``since`` then, or just now."""
        reply = Reply(response, request.headers.get("accept"), since=since)
        if _needs_stream(slot) and not reply.streams:
            conversation.end(slot)
            await _refuse_unheard(response)
            return
        with self._pulse.keeping(reply):
            answer = await answer_one(conversation, slot, Events(reply), self._owed)
            assert answer is not None  # in this conversation nobody can cancel it
            await reply.finish(answer.data, status=_status_of(answer))


class _Flight(Flight):
    """A modern POST without a task."""

    __slots__ = ("_stateless",)

    def __init__(self, stateless: Stateless, conversation: Conversation, slot: Slot, aloft: Aloft) -> None:
        super().__init__(stateless.flights, conversation, slot, aloft)
        self._stateless = stateless
        conversation.__enter__()

    def end(self) -> None:
        super().end()
        self.conversation.__exit__(None, None, None)

    def answered(self, answer: Answer) -> None:
        self.aloft.answer(_status_of(answer), answer.data, JSON_HEADERS)

    def left_alone(self) -> None:
        self.end()

    async def landed(self, response: HttpResponse) -> None:
        try:
            await self._stateless.answer(self.conversation, self.slot, self.aloft.request, response, self.since)
        finally:
            self.conversation.__exit__(None, None, None)


def _status_of(answer: Answer) -> int:
    return 200 if answer.code is None else STATUS.get(answer.code, 200)


def _caller(request: HttpRequest) -> str:
    """Who makes a request, as far as that was shown: with which credentials, none of which can be told from this."""
    return _digest(request.headers.get("authorization", ""))


@lru_cache(maxsize=64)
def _digest(credentials: str) -> str:
    return f"http {sha256(credentials.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _needs_stream(slot: Slot) -> bool:
    return slot.inbound.method == LISTEN


async def _refuse_unheard(response: HttpResponse) -> None:
    """A client that listens and takes no events would wait for ever."""
    await response.send(
        406, f"{LISTEN} is answered as {EVENTS}; the Accept header does not allow it\n".encode(), TEXT_HEADERS
    )


def _no_envelope(inbound: Inbound, version: str) -> McpxError:
    """The header says that a request is modern, and its body does not."""
    if not is_modern(version):
        return _unsupported(version)
    if inbound.method == "initialize":
        return RemoteProtocolError(METHOD_NOT_FOUND, "Method not found: initialize")
    return RemoteProtocolError(INVALID_PARAMS, f"Invalid params: _meta lacks {meta.PROTOCOL_VERSION}")


def _version_of(frame: Frame) -> str | None:
    """The version that a message's metadata names."""
    told = members_of((members_of(frame.params) or {}).get("_meta"))
    return string_of((told or {}).get(meta.PROTOCOL_VERSION))


def _check_notification(headers: Mapping[str, str], frame: Frame) -> None:
    """Hold what headers a notification has against its body. Raises ``RpcError`` where they do not fit, and for a
    version that mcpx does not speak. (2026-07-28 basic/transports/streamable-http, Sending Messages, 5.)
    """
    version = _version_of(frame)
    if frame.method is not UNSET:
        check_headers(headers, frame.method, members_of(frame.params) or {}, version, required=False)
    said = version or headers.get(MCP_PROTOCOL_VERSION, "")
    if not is_modern(said):
        raise _unsupported(said)


def _unsupported(version: str) -> RpcError:
    return RpcError(
        UNSUPPORTED_VERSION,
        f"Unsupported protocol version: {version}",
        {"supported": SUPPORTED, "requested": version},
    )


def _mismatch(conversation: Conversation, request: HttpRequest) -> Answer | None:
    """That header and body name different versions comes before anything that is wrong with either."""
    named = request.headers.get(MCP_PROTOCOL_VERSION)
    try:
        frame = decode_frame(request.body)
    except RemoteProtocolError:
        return None
    version = _version_of(frame)
    if named is None or version is None or named == version:
        return None
    error = RpcError(
        HEADER_MISMATCH,
        f"Header mismatch: MCP-Protocol-Version header value {named[:MAX_SHOWN]!r} does not match body value "
        f"{version[:MAX_SHOWN]!r}",
    )
    return conversation.refusal(_usable(frame.id), error)


def _usable(id: Raw | UnsetType) -> Raw | None:
    return None if isinstance(id, UnsetType) or id_key(id) is None else id
