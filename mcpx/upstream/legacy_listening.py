"""How a legacy server's changes are heard of: those of its lists come unasked, those of a resource by subscription.

(2024-11-05 to 2025-11-25 server/resources, Subscriptions.)
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

import trio

from mcpx.errors import RpcError, UpstreamError, UpstreamGone, UpstreamUnanswered
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
        while True:
            goal = self._possible(self._wanted()).uris
            self.declined &= Interest(uris=goal)  # what nobody wants any more is asked for anew when somebody does
            coming = goal - self.agreed.uris - self.declined.uris
            leaving = self.agreed.uris - goal
            due = self._retry_at <= trio.current_time()
            if leaving or (coming and due and not self._given_up):
                await self._ask_all(UNSUBSCRIBE, leaving)
                await self._ask_all(SUBSCRIBE, coming if due else frozenset())
                self._on_settled()
                continue
            if self._lost and (not coming or self._given_up):
                self._lost = False
                self._say(self._wanted())
            await self._wait(self._retry_at if coming and not self._given_up else float("inf"))

    async def _ask_all(self, method: str, uris: frozenset[str]) -> None:
        """Subscribe to, or unsubscribe from, each of these; several at once, as a slow server may be far away."""
        before = self._failures
        limit = trio.CapacityLimiter(AT_ONCE)
        async with trio.open_nursery() as nursery:
            for uri in sorted(uris):
                nursery.start_soon(self._ask, method, uri, limit)
        if method == SUBSCRIBE and self._failures == before:
            self._failures = 0
        elif self._failures > before:
            self._failures = before + 1  # they failed together
            limits = self._session.limits
            delay = restart_delay(
                self._failures + 1, limits.restart_backoff_step, limits.restart_backoff_max, random.random()
            )
            self._retry_at = trio.current_time() + delay

    async def _ask(self, method: str, uri: str, limit: trio.CapacityLimiter) -> None:
        async with limit:
            if self._given_up or self._session.connection.closed.is_set():
                return
            generation = self._generation
            why = f"no answer within {AGREE_LIMIT:g} s"
            try:
                with trio.move_on_after(AGREE_LIMIT):
                    await self._session.ask(method, {"uri": frames.to_raw(uri)}, LISTENER)
                    why = ""
            except RpcError as error:
                why = f"error {error.code} {error.message}"
                self._given_up |= error.code == frames.METHOD_NOT_FOUND
            except UpstreamGone:
                return  # the session ends, and another begins with all of them
            except UpstreamUnanswered as error:
                self._failures += method == SUBSCRIBE
                log.info("[%s] %s of %s failed: %s", self._session.server, method, shown({uri}), error.reason)
                if method == SUBSCRIBE:
                    return
            except UpstreamError as error:
                why = error.reason
        one = Interest(uris=frozenset({uri}))
        if method == UNSUBSCRIBE:
            self.agreed -= one
        elif why:
            self.declined |= one
            log.warning("[%s] is not subscribed to for %s: %s", self._session.server, shown({uri}), why)
        elif generation == self._generation:
            self.agreed |= one
