"""Reading the answer to a POST or a GET: JSON, a stream of events, or a refusal, and what to say of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import trio
from msgspec import Raw

from mcpx.errors import BrokenAnswer, McpxError, RemoteProtocolError
from mcpx.settings import KiB
from mcpx.transports.reasons import ADVICE, clean, said_status
from mcpx.wire import frames
from mcpx.wire.raws import members_of, string_of
from mcpx.wire.sse import MESSAGE, Event, SseDecoder

if TYPE_CHECKING:
    from mcpx.transports.http_client import HttpAnswer
    from mcpx.upstream.http_letters import Letter

JSON = "application/json"
EVENTS = "text/event-stream"
ACCEPT = f"{JSON}, {EVENTS}"

MAX_REFUSAL = 64 * KiB  # bytes read of an answer that is none; whoever writes a longer error page is not quoted
LINGER = 1.0  # seconds that a stream has to end by itself once its answer has come, so that its connection is kept
TOO_LATE = frozenset({401, 403, 407})  # statuses that are about who asks, whatever the body says

_PLAIN = frozenset({"text/plain", JSON, "application/problem+json"})  # of what is quoted; not HTML
_SESSION = re.compile(r"\bsession", re.IGNORECASE)


# Is handed each message, and whether it is all of the HTTP answer; says whether it was what is waited for.
Take = Callable[[bytes, bool], Awaitable[bool]]


class NoAnswer(McpxError):
    """A request has no answer to come: a sentence for a person, and the HTTP status where there was one."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class SessionExpired(McpxError):
    """The server does not know the session that a request was in, so the request did not run."""


class Place:
    """How far a stream of events was read, so that another one can go on from there."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry: float | None = None  # seconds to wait before going on, as the server said
        self.events = 0  # that came


class Refusal(NamedTuple):
    """An answer with a status that means that nothing was done."""

    status: int
    body: bytes | None  # None: too long to be read
    error: frames.Frame | None  # the JSON-RPC error in the body
    said: str  # what the server says, for a person; may be empty

    @property
    def code(self) -> int | None:
        """The code of the JSON-RPC error, if it is one."""
        return None if self.error is None else error_code(self.error)

    def names(self, number: int | None) -> bool:
        """Whether it is an error for the request of that id, as its own id says."""
        return self.error is not None and isinstance(self.error.id, Raw) and frames.id_key(self.error.id) == number

    def is_expiry(self, number: int | None) -> bool:
        """Whether it says that the session is not known.

        It should say 404 (2025-11-25 basic/transports, Session Management), unless that is about the method; widely
        copied example servers say 400 and that there is no valid session. Of a request that a server has begun to work
        on it would say so with that request's id.
        """
        ours = self.names(number)
        if self.status == 404:
            return not (ours and self.code == frames.METHOD_NOT_FOUND)
        return self.status == 400 and not ours and _SESSION.search(self.said) is not None

    def reason(self) -> str:
        """The refusal in a sentence."""
        said = f" It says: {self.said}." if self.said else ""
        advice = f" {ADVICE[self.status]}" if self.status in ADVICE else ""
        return f"The server refused the request with HTTP status {said_status(self.status)}.{said}{advice}"


async def read_refusal(answer: HttpAnswer, secrets: tuple[str, ...]) -> Refusal:
    """Read an answer that is a refusal. Nothing of it is quoted that is among the secrets."""
    try:
        body = await answer.read(MAX_REFUSAL)
    except BrokenAnswer:
        body = None
    error: frames.Frame | None = None
    said = ""
    if body and (not answer.media_type or answer.media_type in _PLAIN):
        said = body.decode(errors="replace")
        try:
            frame = frames.decode_frame(body)
            if frames.kind(frame) == "error":
                error = frame
        except RemoteProtocolError:
            pass
        if (members := members_of(Raw(body))) is not None:
            said = _message(members)
    return Refusal(answer.status, body, error, clean(" ".join(said.split()), secrets))


async def read_messages(answer: HttpAnswer, take: Take, place: Place, max_frame: int) -> bool:
    """Hand every message of a good answer to ``take``; whether one of them was what is waited for, as ``take`` says.

    ``take`` is told too whether the message is all of the answer. Raises ``NoAnswer`` for what is no message, or more
    than ``max_frame`` long, and ``BrokenAnswer`` where the connection breaks.
    """
    if answer.media_type == EVENTS:
        return await read_events(answer, take, place, max_frame)
    body = await answer.read(max_frame)
    if body is None:
        raise NoAnswer(too_long(max_frame), answer.status)
    if answer.media_type not in (JSON, ""):
        if not body:
            return False
        raise NoAnswer(
            f"The server answered with {clean(answer.media_type, ())}, which is no MCP message. Is the URL right?",
            answer.status,
        )
    return bool(body) and not body.isspace() and await take(body, True)


async def read_events(answer: HttpAnswer, take: Take, place: Place, max_frame: int) -> bool:
    """The same for a stream of events, which ends soon after the answer, or is left."""
    decoder = SseDecoder(max_frame)
    while chunk := await answer.receive_some():
        try:
            events = decoder.feed(chunk)
        except RemoteProtocolError:
            raise NoAnswer(too_long(max_frame), answer.status) from None
        if await _hand_over(events, take, place):
            with trio.move_on_after(LINGER):
                while await answer.receive_some_or_nothing():
                    pass
            return True
        del chunk, events  # nothing of them is held while the server is waited for
    return False


async def _hand_over(events: list[Event], take: Take, place: Place) -> bool:
    for event in events:
        place.events += 1
        if event.id is not None:
            place.last_id = event.id
        if event.retry is not None:
            place.retry = event.retry / 1000
        if is_message(event) and await take(event.data, False):
            return True
    return False


def is_message(event: Event) -> bool:
    """Whether an event is one of MCP's; an empty one only says where the stream can be resumed."""
    return event.event == MESSAGE and bool(event.data) and not event.data.isspace()


def no_answer(letter: Letter, answer: HttpAnswer) -> NoAnswer:
    """What to say of a good answer that brought none to its request."""
    if answer.media_type == EVENTS:
        said = "The server's stream ended before the answer came."
    elif answer.status in (202, 204):
        said = f"The server took {letter.method} as if it were a notification, with HTTP status {answer.status}."
    else:
        said = f"The server answered {letter.method} with HTTP status {answer.status} and no answer in it."
    return NoAnswer(said, answer.status)


def too_long(max_frame: int) -> str:
    return f"The server sent a message of more bytes than maxFrame allows ({max_frame})."


def error_code(frame: frames.Frame) -> int | None:
    """The code of an answer that is an error."""
    return frames.error_object(frame.error).code if isinstance(frame.error, Raw) else None


def _message(members: dict[str, Raw]) -> str:
    """What an error object says: JSON-RPC's, OAuth's, a problem's (RFC 9457), or whatever has one of these names."""
    inner = members_of(members.get("error")) or {}
    found = (inner.get("message"), *(members.get(key) for key in ("error_description", "message", "detail", "error")))
    return next((text for one in found if (text := string_of(one)) is not None), "")
