"""``/mcp``: Streamable HTTP of every revision on one endpoint.

A POST is modern by its version header or by the reserved metadata in its body (LV-24); it stands alone, as does one of
a legacy host that opened no session. ``initialize`` opens one, and what names a session belongs to that.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET

from mcpx.errors import RemoteProtocolError
from mcpx.host.conversation import Slot
from mcpx.host.http.exchanges import Owed, Taken, send_refusals, take_body
from mcpx.host.http.flights import Flights
from mcpx.host.http.outlet import parse_event_id
from mcpx.host.http.reply import EVENTS, JSON, JSON_HEADERS, TEXT_HEADERS, Reply, forms, open_pulse
from mcpx.host.http.sessions import Session, Sessions
from mcpx.host.http.stateless import Stateless
from mcpx.spec import meta
from mcpx.spec.headers import LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID
from mcpx.spec.revisions import SUPPORTED, is_legacy, is_modern
from mcpx.transports.crew import open_crew
from mcpx.wire.frames import decode_frame
from mcpx.wire.headers import media_type
from mcpx.wire.lines import BOM
from mcpx.wire.raws import members_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from mcpx.host.ending import Ending
    from mcpx.host.http.flights import Flight
    from mcpx.host.http.outlet import Outlet, Said, View
    from mcpx.host.http.reply import Pulse
    from mcpx.host.service import Service
    from mcpx.transports.http_server import Aloft, HttpRequest, HttpResponse

NO_GET = (
    b"A GET or DELETE here is for a session, which a POST of initialize opens and Mcp-Session-Id names. "
    b"To a host that knows only HTTP+SSE give the URL that ends in /sse.\n"
)

_media_type = lru_cache(maxsize=64)(media_type)

# A stream to a host that comes back is closed after so long: what is on the way may be about to end it less politely.
POLL_AFTER = 240.0  # seconds; load balancers end what is older than some minutes, whatever goes through it


class Endpoint:
    """Serves requests on ``/mcp``. Open it with ``open_endpoint``."""

    def __init__(
        self,
        sessions: Sessions,
        stateless: Stateless,
        pulse: Pulse,
        owed: Owed,
        flights: Flights,
        ending: Ending,
    ) -> None:
        self._sessions = sessions
        self._stateless = stateless
        self._pulse = pulse
        self._owed = owed
        self._flights = flights
        self._ending = ending
        self._stopping = False
        self._methods: Mapping[str, Callable[[HttpRequest, HttpResponse], Awaitable[None]]] = {
            "POST": self._post,
            "GET": self._get,
            "DELETE": self._delete,
        }

    @property
    def session_count(self) -> int:
        """Legacy sessions that are open."""
        return len(self._sessions)

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Serve one request, until it is answered. Cancelled by its client's hanging up."""
        method = self._methods.get(request.method)
        if method is None:
            await response.send(405, b"", {"Allow": "POST, GET, DELETE"})
        else:
            await method(request, response)

    def begin(self, aloft: Aloft) -> Callable[[], None] | None:
        """Begin a request without a task, if it is a call whose answer may be a JSON body; see ``Begin``.

        Nothing has come of one that is not begun so.
        """
        request = aloft.request
        headers = request.headers
        if (
            request.method != "POST"
            or not self._flights.up.is_open
            or _media_type(headers.get("content-type")) != JSON
            or not forms(headers.get("accept"))[1]
        ):
            return None
        if self._is_modern(request):
            return self._stateless.begin(aloft)
        id = headers.get(MCP_SESSION_ID)
        session = None if id is None else self._sessions.find(id)
        flight = None if session is None else session.send_aloft(self._flights, aloft, self._go_on)
        return None if flight is None else flight.hang_up

    async def _go_on(self, session: Session, flight: Flight, response: HttpResponse) -> None:
        """Go on with a call of a session that was begun without a task."""
        request = flight.aloft.request
        with session.used():
            if session.over.is_set():
                await Reply(response, request.headers.get("accept")).finish_empty()
            else:
                outlet = session.begin(Taken([flight.slot], []))
                await self._view(session, outlet, None, request, response, since=flight.since)

    async def drain(self) -> None:
        """The end has begun: let nothing more in, give what is owed its time, and then cut it short.

        The streams of what is said unasked or is listened for end at once, the others with their answers.
        """
        self._stopping = True
        self._stateless.stop()
        self._sessions.stop()
        with trio.move_on_after(self._ending.drain()):
            await self._owed.settle()
        self._owed.cut()
        await self._owed.settle()

    # -- POST

    async def _post(self, request: HttpRequest, response: HttpResponse) -> None:
        headers = request.headers
        if request.body.startswith(BOM):
            request = request.with_body(request.body.removeprefix(BOM))
        if _media_type(headers.get("content-type")) != JSON:
            await _refuse(response, 415, f"a message is sent as {JSON}")
        elif not Reply(response, headers.get("accept")).acceptable:
            await _refuse(response, 406, f"an answer is {JSON} or {EVENTS}; the Accept header allows neither")
        elif self._is_modern(request):
            await self._stateless.modern(request, response)
        elif (id := headers.get(MCP_SESSION_ID)) is not None:
            session = self._sessions.find(id)
            if session is None:
                await _no_session(response)
            else:
                with session.used():
                    await self._post_in(session, request, response)
        elif _opens_session(request.body):
            await self._initialize(request, response)
        else:
            await self._stateless.legacy(request, response)

    def _is_modern(self, request: HttpRequest) -> bool:
        """LV-24, with as little looking into the body as that takes."""
        version = request.headers.get(MCP_PROTOCOL_VERSION)
        if version is not None and not is_legacy(version):
            return True
        return meta.MARK in request.body and _has_envelope(request.body)

    async def _post_in(self, session: Session, request: HttpRequest, response: HttpResponse) -> None:
        conversation = session.conversation
        await conversation.make_room()
        if session.over.is_set():
            await _no_session(response)
            return
        taken = take_body(conversation, request.body)
        if not taken.slots:
            await send_refusals(response, taken)
            return
        await self._view(session, session.begin(taken), None, request, response)

    async def _initialize(self, request: HttpRequest, response: HttpResponse) -> None:
        """Open a session, which is there once its ``initialize`` has succeeded (2025-11-25, Session Management)."""
        if self._stopping or self._sessions.is_full():
            await _refuse(response, 503, "mcpx is stopping" if self._stopping else "there are too many sessions")
            return
        session = await self._sessions.open()
        kept = False
        try:
            slot = session.conversation.take(request.body)
            answer = await session.initialize(slot) if isinstance(slot, Slot) else slot
            assert answer is not None  # an initialize is a request, and cannot be cancelled
            if answer.code is not None:
                await response.send(200, answer.data, JSON_HEADERS)
                return
            self._sessions.admit(session)
            reply = Reply(response, request.headers.get("accept"))
            await reply.finish(answer.data, headers={"Mcp-Session-Id": session.id})
            kept = not reply.gone
        finally:
            if not kept:  # refused, or its client has gone and never learnt of it
                self._sessions.end(session)

    # -- GET and DELETE

    async def _get(self, request: HttpRequest, response: HttpResponse) -> None:
        session = await self._session_of(request, response)
        if session is None:
            return
        if not Reply(response, request.headers.get("accept")).streams:
            await _refuse(response, 406, f"what is said unasked comes as {EVENTS}")
            return
        if self._stopping:
            await _refuse(response, 503, "mcpx is stopping")
            return
        outlet, after = session.standing, None
        if (last := request.headers.get(LAST_EVENT_ID)) is not None and (id := parse_event_id(last)) is not None:
            found = session.find(id[0])
            if found is None:
                await _refuse(response, 400, "what came after that Last-Event-ID is not kept any more")
                return
            outlet, after = found, id[1]
        with session.used():
            await self._view(session, outlet, after, request, response, at_once=True)

    async def _delete(self, request: HttpRequest, response: HttpResponse) -> None:
        session = await self._session_of(request, response)
        if session is not None:
            self._sessions.end(session)
            await response.send(204)

    async def _session_of(self, request: HttpRequest, response: HttpResponse) -> Session | None:
        """The session that a GET or DELETE names; without one, or from a modern client, there is no such method."""
        version, id = (request.headers.get(name) for name in (MCP_PROTOCOL_VERSION, MCP_SESSION_ID))
        if id is None or (version is not None and is_modern(version)):
            await response.send(405, NO_GET, {"Allow": "POST", **TEXT_HEADERS})
            return None
        if version is not None and not is_legacy(version):
            await _refuse(response, 400, f"mcpx speaks the protocol versions {', '.join(SUPPORTED)}, not that one")
            return None
        session = self._sessions.find(id)
        if session is None:
            await _no_session(response)
        return session

    # -- streams

    async def _view(
        self,
        session: Session,
        outlet: Outlet,
        after: int | None,
        request: HttpRequest,
        response: HttpResponse,
        *,
        at_once: bool = False,
        since: float | None = None,
    ) -> None:
        """Show a client what is said on a stream, from behind ``after`` or what nobody has seen, until it ends.

        It has asked for that ``since`` then, or just now.
        """
        with session.view(outlet, after) as view:
            start = view.cursor

            def begin() -> bytes:
                outlet.begin()
                return outlet.bookmark(start) if session.polls else b""

            reply = Reply(response, request.headers.get("accept"), begin, since=since)
            with self._pulse.keeping(reply):
                if at_once:
                    await reply.open()
                await _show(
                    view,
                    reply,
                    (since or trio.current_time()) + POLL_AFTER if session.polls and reply.streams else float("inf"),
                )


@asynccontextmanager
async def open_endpoint(service: Service, ending: Ending) -> AsyncGenerator[Endpoint]:
    """Open the endpoint: the owner of every legacy session, and of what keeps streams alive.

    Leaving it ends the sessions; ``drain`` comes before, so that what is owed is said.
    """
    limits = service.gateway.settings.limits
    async with open_pulse(limits.keep_alive) as pulse, open_crew() as nursery:
        owed = Owed()
        sessions, flights = Sessions(service, nursery, owed), Flights(limits, owed)
        nursery.start_soon(sessions.run)
        nursery.start_soon(flights.up.run)
        yield Endpoint(sessions, Stateless(service, pulse, owed, flights), pulse, owed, flights, ending)


async def _show(view: View, reply: Reply, end: float) -> None:
    """Say all that comes until then; what is being written then is written whole.

    A client that has gone is shown nothing more, as somebody else may come for it.
    """
    while not reply.gone:
        news: list[Said] | None = None
        with trio.move_on_at(end):
            news = await view.next()
        if news is None:
            await reply.pause(view.bookmark())
            return
        if not news:
            await reply.finish_empty()
            return
        for said in news:
            if said.last:
                await reply.finish(said.message, lambda said=said: said.event)
                return
            await reply.say(said.event)


def _has_envelope(body: bytes) -> bool:
    """Whether a body's metadata has a key that makes it modern."""
    try:
        params = decode_frame(body).params
    except RemoteProtocolError:
        return False
    told = members_of((members_of(None if params is UNSET else params) or {}).get("_meta")) or {}
    return not meta.REQUEST_KEYS.isdisjoint(told)


def _opens_session(body: bytes) -> bool:
    try:
        frame = decode_frame(body)
    except RemoteProtocolError:
        return False
    return frame.method == "initialize" and frame.id is not UNSET


async def _no_session(response: HttpResponse) -> None:
    """2025-11-25 basic/transports, Session Management: its client is to open a new one."""
    await _refuse(response, 404, "there is no such session")


async def _refuse(response: HttpResponse, status: int, why: str) -> None:
    await response.send(status, f"{why}\n".encode(), TEXT_HEADERS)
