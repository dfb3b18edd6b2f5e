"""Legacy sessions over HTTP: each owns its exchanges, and a POST or GET is only a view of them.

A connection that ends takes nothing with it: the exchange goes on, its answer is kept a while where the client can come
back for it, and only the end of the session cancels. (2025-03-26 to 2025-11-25 basic/transports, Session Management.)
"""

from __future__ import annotations

import itertools
import logging
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET

from mcpx.errors import RemoteProtocolError
from mcpx.host.changes import ChangeRelay
from mcpx.host.conversation import Conversation, Slot
from mcpx.host.http.exchanges import Taken, answer_all, answer_one
from mcpx.host.http.flights import CALLS, Flight
from mcpx.host.http.outlet import Outlet, Replay
from mcpx.host.http.reply import JSON_HEADERS
from mcpx.spec.revisions import ASSUMED_ON_HTTP, POLLING
from mcpx.wire.frames import decode_frame

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from mcpx.host.answer import Answer
    from mcpx.host.http.exchanges import Owed
    from mcpx.host.http.flights import Flights
    from mcpx.host.http.outlet import View
    from mcpx.host.service import Service
    from mcpx.settings import Limits
    from mcpx.transports.http_server import Aloft, HttpResponse

    GoOn = Callable[["Session", Flight, HttpResponse], Awaitable[None]]

log = logging.getLogger("mcpx.host")

ID_BYTES = 32  # of randomness in a session's id, which is all that tells its host from others
EVICTABLE = 60.0  # seconds without use after which a session may have to make room for a new one
SWEEP = 30.0  # seconds between two looks at which sessions nobody uses any more


class Session:
    """One legacy host over HTTP. ``run`` is its task."""

    _exchanges: trio.Nursery

    def __init__(self, service: Service, name: str, owed: Owed) -> None:
        limits = service.gateway.settings.limits
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.last_used = trio.current_time()
        self.over = trio.Event()
        self._owed = owed
        self._flights: dict[_Flight, None] = {}  # calls that are under way without a task
        self._using = 0  # requests and streams that clients have open
        self._replay = Replay(limits.replay_bytes, limits.replay_time)
        self._numbers = itertools.count(1)
        self.standing = Outlet(self._replay, 0, standing=True)
        self._outlets: dict[int, Outlet] = {0: self.standing}
        self._relay = ChangeRelay(service.gateway, self.standing)
        self.conversation = Conversation(
            service,
            name,
            "http session",
            assumed=ASSUMED_ON_HTTP,
            limit=limits.max_in_flight,
            relay=self._relay,
            line=self.standing,
        )

    @property
    def polls(self) -> bool:
        """Whether the host knows priming events, and comes back to a stream that was closed."""
        return self.conversation.revision in POLLING

    @property
    def idle_since(self) -> float:
        """Since when nobody has used it; never while somebody does. A listen stream that nobody views is no use."""
        working = self.conversation.in_flight > self.conversation.listening
        return float("inf") if self._using or working else self.last_used

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the exchanges until the session is over."""
        with self._relay, self.conversation:
            async with trio.open_nursery() as self._exchanges:
                self._exchanges.start_soon(self._relay.run)
                task_status.started()
                await self.over.wait()
                for flight in list(self._flights):
                    flight.cut_off()
                self._exchanges.cancel_scope.cancel()
        for outlet in self._outlets.values():
            outlet.finish(None)

    @contextmanager
    def used(self) -> Generator[None]:
        """A client has a request or a stream of this session open while entered."""
        self._using += 1
        try:
            yield
        finally:
            self._using -= 1
            self.last_used = trio.current_time()

    async def initialize(self, slot: Slot) -> Answer | None:
        """The answer to the ``initialize`` that opens the session. Raises nothing but a cancellation."""
        return await answer_one(self.conversation, slot, self.standing, self._owed)

    def begin(self, taken: Taken) -> Outlet:
        """Begin the exchanges of one POST; what comes of them is said on the outlet."""
        number = next(self._numbers)
        outlet = self._outlets[number] = Outlet(self._replay, number)
        self._exchanges.start_soon(self._answer, taken, outlet)
        for slot in taken.slots:
            self._owed.add(slot.scope)  # not only once its task has begun
        return outlet

    def send_aloft(self, flights: Flights, aloft: Aloft, go_on: GoOn) -> Flight | None:
        """Begin a call without a task, if that is what the body has; ``go_on`` is its task where it takes one."""
        conversation = self.conversation
        if self.over.is_set() or conversation.is_full:
            return None
        try:
            frame = decode_frame(aloft.request.body)
            if frame.method not in CALLS or frame.id is UNSET:
                return None
            slot = conversation.take_frame(frame)
        except RemoteProtocolError:
            return None
        if not isinstance(slot, Slot):
            return None  # it is refused again, and that is said, where it is taken in again
        flight = _Flight(flights, self, slot, aloft, go_on)
        self._flights[flight] = None
        flight.begin()
        return flight

    def find(self, number: int) -> Outlet | None:
        """A stream by its number, as long as anything can come of it."""
        return self._outlets.get(number)

    @contextmanager
    def view(self, outlet: Outlet, after: int | None) -> Generator[View]:
        """A client's view of a stream; when it is left, nobody may want the stream any more."""
        try:
            with outlet.view(after) as view:
                yield view
        finally:
            self._drop_spent(outlet)

    def stop(self) -> None:
        """Let no more requests in, and end the streams of what is said unasked and of what is listened for."""
        self.conversation.stop()
        self.standing.finish(None)

    def tidy(self) -> None:
        """Let go what nobody can come back for."""
        self._replay.trim()
        for number in [number for number, outlet in self._outlets.items() if outlet.is_spent]:
            del self._outlets[number]

    def drop(self, flight: _Flight) -> None:
        """A call is not under way without a task any more."""
        del self._flights[flight]
        self.last_used = trio.current_time()

    async def _answer(self, taken: Taken, outlet: Outlet) -> None:
        message: bytes | None = None
        try:
            message = await answer_all(self.conversation, taken, outlet, self._owed)
        finally:
            outlet.finish(message)
            self._drop_spent(outlet)
            self.last_used = trio.current_time()  # whoever has lost the connection may come for the answer

    def _drop_spent(self, outlet: Outlet) -> None:
        if outlet.is_spent:
            self._outlets.pop(outlet.number, None)


class _Flight(Flight):
    """A call of a session without a task."""

    __slots__ = ("_go_on_with", "_session")

    def __init__(self, flights: Flights, session: Session, slot: Slot, aloft: Aloft, go_on: GoOn) -> None:
        super().__init__(flights, session.conversation, slot, aloft)
        self._session = session
        self._go_on_with = go_on

    def answered(self, answer: Answer) -> None:
        self._session.drop(self)
        self.aloft.answer(200, answer.data, JSON_HEADERS)

    def left_alone(self) -> None:
        """Only the end of the session cancels it."""
        self._session.drop(self)
        self._session.begin(Taken([self.slot], []))

    def cut_off(self) -> None:
        """The session is over."""
        self.land()
        self.end()

    async def landed(self, response: HttpResponse) -> None:
        self._session.drop(self)
        await self._go_on_with(self._session, self, response)


class Sessions:
    """All sessions of one endpoint. Their tasks are in ``nursery``."""

    def __init__(self, service: Service, nursery: trio.Nursery, owed: Owed) -> None:
        self._service = service
        self._limits: Limits = service.gateway.settings.limits
        self._nursery = nursery
        self._owed = owed
        self._names = (f"http session {number}" for number in itertools.count(1))
        self._sessions: dict[str, Session] = {}
        self._opening: set[Session] = set()  # which nobody finds yet
        self._refused = False
        self._stopping = False

    def __len__(self) -> int:
        return len(self._sessions)

    def is_full(self) -> bool:
        """Whether there is no room for one more, not even by ending one that has been idle for a while: most clients
        never say that they need a session no more, and one that does opens another.
        """
        if self._count >= self._limits.max_sessions:
            self._sweep()
        if self._count >= self._limits.max_sessions:
            idlest = min(self._sessions.values(), key=_idle_since, default=None)
            if idlest is not None and trio.current_time() - idlest.idle_since >= EVICTABLE:
                log.info("Host %s: its session ended to make room for a new one", idlest.conversation.host)
                self.end(idlest)
        full = self._count >= self._limits.max_sessions
        if full and not self._refused:
            log.warning("A host was refused: there are %d HTTP sessions already (maxSessions)", self._count)
        self._refused = full
        return full

    @property
    def _count(self) -> int:
        return len(self._sessions) + len(self._opening)

    async def open(self) -> Session:
        """A new session, which nobody finds before it is admitted. It has to be, or be ended."""
        session = Session(self._service, next(self._names), self._owed)
        self._opening.add(session)
        try:
            await self._nursery.start(session.run)
        except BaseException:
            self._opening.discard(session)
            raise
        return session

    def admit(self, session: Session) -> None:
        """From now on the session is found by its id."""
        self._opening.discard(session)
        self._sessions[session.id] = session
        session.last_used = trio.current_time()
        if self._stopping:
            session.stop()
        log.debug("Host %s: connected", session.conversation.host)

    def find(self, id: str) -> Session | None:
        """The session with this id; ``None`` for one that never was, or is over."""
        return self._sessions.get(id)

    def end(self, session: Session) -> None:
        """The session is over: its exchanges are cancelled, its streams end."""
        self._opening.discard(session)
        if self._sessions.pop(session.id, None) is not None:
            log.debug("Host %s: disconnected", session.conversation.host)
        session.over.set()

    def stop(self) -> None:
        """Let no more requests in, and end the streams of what is said unasked."""
        self._stopping = True
        for session in self._sessions.values():
            session.stop()

    async def run(self) -> None:
        """End the sessions that nobody has used for long."""
        while True:
            await trio.sleep(min(SWEEP, self._limits.session_idle))
            self._sweep()

    def _sweep(self) -> None:
        now = trio.current_time()
        for session in list(self._sessions.values()):
            if now - session.idle_since >= self._limits.session_idle:
                log.info(
                    "Host %s: its session ended after %g s without use",
                    session.conversation.host,
                    self._limits.session_idle,
                )
                self.end(session)
            else:
                session.tidy()


def _idle_since(session: Session) -> float:
    return session.idle_since
