"""The log messages of one session: at which level the server is to send them, and whose each one is.

No log message says which request caused it, so whose it is must be certain: by the stream that it came on, or because
every call that can have caused it is one host's. Otherwise mcpx shows it in its own log (SUB-07).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import trio

from mcpx.errors import RpcError, UpstreamError
from mcpx.spec.levels import is_level, lowest
from mcpx.spec.revisions import is_modern
from mcpx.transports.last_words import LastWords
from mcpx.upstream.call import LogMessage, Remark
from mcpx.upstream.listening import LISTENER
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

    from msgspec import Raw

    from mcpx.spec.levels import Level
    from mcpx.upstream.call import Asker
    from mcpx.upstream.pending import PendingCall
    from mcpx.upstream.session import Session

log = logging.getLogger("mcpx.upstream")

SET_LEVEL = "logging/setLevel"
LOG_MESSAGE = "notifications/message"
# Seconds that a server may take to agree to a level, before a call goes out without waiting for it any longer.
SET_LIMIT = 5.0


class Levels:
    """The levels that hosts have set for all their requests, as legacy ones do. One table for each server."""

    def __init__(self) -> None:
        self._set: dict[str, tuple[Asker, Level]] = {}

    def set(self, asker: Asker, level: Level | None) -> None:
        """A host wants this level from now on; ``None``: none any more, as it has gone or begins anew."""
        if level is None:
            self._set.pop(asker.host, None)
        else:
            self._set[asker.host] = (asker, level)

    def among(self, place: Callable[[Asker], Hashable], key: Hashable) -> dict[str, Level]:
        """The levels of the hosts whose place is ``key``, by host."""
        return {host: level for host, (asker, level) in self._set.items() if place(asker) == key}


class Heard(Protocol):
    """Takes what belongs to no call; must not block."""

    def __call__(self, news: Remark, /) -> None: ...


class Logs:
    """The log messages of a session. ``heard`` takes those that belong to no call and yet to one host."""

    def __init__(self, session: Session, heard: Heard) -> None:
        self._session = session
        self._heard = heard
        self._modern = is_modern(session.revision)
        self._running = False
        self._standing: Callable[[], Mapping[str, Level]] = dict[str, "Level"]
        self._coming: list[Asker] = []  # who wait for the level before their requests are sent
        self._told: Level | None = None  # the level that the server was told last
        self._poked = trio.Event()  # replaced whenever it is looked at what is wanted
        self._settled = trio.Event()  # replaced whenever the server was told
        self._user: Asker | None = None  # who has used the session, while that is one host alone
        self._shared = False
        self._shown = LastWords(1)  # of what is shown in mcpx's own log, as much as of a server's stderr

    # -- the level

    async def run(self, standing: Callable[[], Mapping[str, Level]]) -> None:
        """Keep the server at the lowest level that is wanted, until cancelled. ``standing`` says what hosts have set
        for all their requests, by host; ``poke`` when that may have changed.
        """
        self._standing = standing
        self._running = not self._modern and self._session.offers("logging")
        while self._running:
            self._poked = trio.Event()
            level = self._wanted(None)
            if level not in (None, self._told):
                await self._tell(level)
                self._told = level  # once is enough, whatever the server makes of it
                self._settled.set()
                self._settled = trio.Event()
            await self._poked.wait()

    def poke(self) -> None:
        """Hosts may want another level now."""
        self._poked.set()

    def forgotten(self) -> None:
        """The server does not know any more what level it was told."""
        self._told = None
        self.poke()

    def is_behind(self, asker: Asker) -> bool:
        """Whether the server is to be told a level before a request of this asker's is sent."""
        return self._running and asker.log_level is not None and self._wanted(asker) not in (None, self._told)

    async def catch_up(self, asker: Asker) -> None:
        """Wait until the server has been told the level, as far as it listens."""
        self._coming.append(asker)
        self.poke()
        try:
            with trio.move_on_after(SET_LIMIT):
                while self.is_behind(asker):
                    await self._settled.wait()
        finally:
            self._coming.remove(asker)

    async def _tell(self, level: str) -> None:
        why: str | None = f"no answer within {SET_LIMIT:g} s"
        try:
            with trio.move_on_after(SET_LIMIT):
                await self._session.ask(SET_LEVEL, {"level": to_raw(level)}, LISTENER)
                why = None
        except RpcError as error:
            why = f"the error {error.code} {error.message}"
        except UpstreamError as error:
            why = error.reason
        if why is not None and not self._session.connection.closed.is_set():
            log.info("[%s] was not set to the log level %s: %s", self._session.server, level, why)

    def _wanted(self, asker: Asker | None) -> Level | None:
        """The lowest level that anybody wants: for all requests, for one in flight, or for the next."""
        return lowest(
            (
                None if asker is None else asker.log_level,
                *(one.log_level for one in self._coming),
                *self._standing().values(),
                *(call.asker.log_level for call in self._session.connection.calls if call.asker is not None),
            )
        )

    # -- the messages

    def note(self, asker: Asker) -> None:
        """A request of this asker's is sent."""
        if self._shared or asker.host == LISTENER.host:
            return
        if self._user is None and asker.lasting:
            self._user = asker
        elif self._user is None or self._user.host != asker.host:
            self._user, self._shared = None, True

    def take(self, params: dict[str, Raw], stream: int | None) -> None:
        """Hand a message to the call that caused it: that with the id ``stream``, where each has a stream of its own.

        One of no call is the host's that has the instance for itself. Must not block.
        """
        message = LogMessage(params)
        causes = self._possible_causes(stream)
        calls = [call for call in causes if call.rank]
        if not calls and self._user is not None and not self._modern:
            self._heard(Remark(self._session.server, self._user.host, message))
        elif calls and self._is_one_host(causes) and self._may_hear(calls[-1].asker):
            calls[-1].put(message)
        else:
            self.show(message)

    def show(self, message: LogMessage) -> None:
        """Show a message in mcpx's own log."""
        level = string_of(message.params.get("level"))
        said = bytes(message.params.get("data", b""))
        for line in self._shown.feed(said.replace(b"\n", b" ") + b"\n", trio.current_time()):
            what = level if is_level(level) else "message"
            log.info("[%s] log %s: %s", self._session.server, what, line)

    def _possible_causes(self, stream: int | None) -> list[PendingCall]:
        """The requests in flight that can have caused a message, in the order in which they were sent.

        Mcpx's own for a host, such as a list, are among them; those for all hosts alike are not. A modern server says
        nothing for one without a level (2026-07-28 server/utilities/logging, Per-request log level).
        """
        if stream is not None:
            call = self._session.connection.find_number(stream)
            return [] if call is None else [call]
        return [
            call
            for call in self._session.connection.calls
            if call.asker is not None
            and call.asker.host != LISTENER.host
            and not (self._modern and call.asker.log_level is None)
        ]

    def _is_one_host(self, causes: Collection[PendingCall]) -> bool:
        """Whether these are calls of one host. Those without a session may bear one name and yet be several."""
        askers = [call.asker for call in causes if call.asker is not None]
        return len(askers) <= 1 or (len({asker.host for asker in askers}) == 1 and all(one.lasting for one in askers))

    def _may_hear(self, asker: Asker | None) -> bool:
        """Whether a host is to hear what is its own: one that asked for a level, or has the instance for itself, as
        what others ask for is not for it.
        """
        if asker is None:
            return False
        if asker.log_level is not None or asker.host in self._standing():
            return True
        return self._user is not None and self._user.host == asker.host
