"""How a legacy server's changes are heard of: those of its lists come unasked, those of a resource by subscription.

(2024-11-05 to 2025-11-25 server/resources, Subscriptions.)
"""

from __future__ import annotations

import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from mcpx.errors import RpcError, UpstreamError, UpstreamUnanswered
from mcpx.spec.lists import RESOURCE_UPDATED
from mcpx.upstream.backoff import restart_delay
from mcpx.upstream.call import Interest
from mcpx.upstream.listening import AGREE_LIMIT, LISTENER, Listening, shown
from mcpx.wire import frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from mcpx.upstream.call import News
    from mcpx.upstream.session import Session

log = logging.getLogger("mcpx.upstream")

AT_ONCE = 16  # requests under way at a time

SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"


class LegacyListening(Listening):
    """See ``Listening``. Each URI is subscribed to once, however many want it."""

    def __init__(self, session: Session, heard: Callable[[News], None]) -> None:
        super().__init__(session, heard)
        self.agreed = Interest(self._lists)
        self._asking: set[str] = set()  # what is being subscribed to, or unsubscribed from
        self._generation = 0  # counts how often the server has forgotten what it was asked for
        self._lost = False  # and what it said meanwhile is to be made up for
        self._failures = 0  # in a row, of requests that the server did not get
        self._retry_at = 0.0

    def notified(self, method: str, params: dict[str, Raw]) -> None:
        if method == RESOURCE_UPDATED:
            self._updated(params)

    def interrupted(self, *, forgotten: bool) -> None:
        if not forgotten:
            super().interrupted(forgotten=False)
            return
        self._generation += 1
        self._lost = True  # said once it is subscribed to again
        self.agreed = Interest(self._lists)
        self.poke()

    async def _run(self) -> None:
        limit = trio.CapacityLimiter(AT_ONCE)
        async with trio.open_nursery() as nursery:
            while True:
                goal = self._possible(self._wanted()).uris
                self.declined &= Interest(uris=goal)  # what nobody wants any more is asked for anew when somebody does
                missing = goal - self.agreed.uris - self.declined.uris
                leaving = self.agreed.uris - goal - self._asking
                coming = frozenset[str]() if self._given_up else missing - self._asking
                later = bool(coming) and self._retry_at > trio.current_time()
                for ask, uris in ((self._unsubscribe, leaving), (self._subscribe, () if later else coming)):
                    self._asking.update(uris)
                    for uri in sorted(uris):
                        nursery.start_soon(ask, uri, limit)
                if self._lost and (not missing or self._given_up):
                    self._lost = False
                    self._say(self._wanted())
                await self._wait(self._retry_at if later else float("inf"))

    async def _subscribe(self, uri: str, limit: trio.CapacityLimiter) -> None:
        one = Interest(uris=frozenset({uri}))
        async with limit:
            generation = self._generation
            try:
                why = await self._ask(SUBSCRIBE, uri)
                if self._session.connection.closed.is_set():
                    pass  # the next session begins with all of them
                elif why is not None:
                    self.declined |= one
                    log.warning("[%s] is not subscribed to for %s: %s", self._session.server, shown({uri}), why)
                elif generation == self._generation:
                    self.agreed |= one
                    self._failures = 0
            except UpstreamUnanswered as error:
                self._take_failure(uri, error)
        self._done(uri)

    async def _unsubscribe(self, uri: str, limit: trio.CapacityLimiter) -> None:
        async with limit:
            with suppress(UpstreamUnanswered):  # what it says of it from now on is wanted by nobody
                await self._ask(UNSUBSCRIBE, uri)
            self.agreed -= Interest(uris=frozenset({uri}))
        self._done(uri)

    def _done(self, uri: str) -> None:
        self._asking.discard(uri)
        self._on_settled()
        self.poke()

    async def _ask(self, method: str, uri: str) -> str | None:
        """Ask for a resource; why that was refused, if it was. Raises ``UpstreamUnanswered`` where it was not heard."""
        if self._given_up:
            return "the server does not know the method"
        try:
            with trio.move_on_after(AGREE_LIMIT):
                await self._session.ask(method, {"uri": frames.to_raw(uri)}, LISTENER)
                return None
        except RpcError as error:
            self._given_up |= error.code == frames.METHOD_NOT_FOUND
            return f"the server answered with the error {error.code} {error.message}"
        except UpstreamUnanswered:
            raise
        except UpstreamError as error:
            return error.reason
        return f"the server did not answer within {AGREE_LIMIT:g} s"

    def _take_failure(self, uri: str, error: UpstreamUnanswered) -> None:
        """Ask again later; those that fail together are one failure."""
        limits = self._session.limits
        if self._retry_at <= trio.current_time():
            self._failures += 1
            delay = restart_delay(
                self._failures + 1, limits.restart_backoff_step, limits.restart_backoff_max, random.random()
            )
            self._retry_at = trio.current_time() + delay
        log.info("[%s] could not be subscribed to for %s yet: %s", self._session.server, shown({uri}), error.reason)
