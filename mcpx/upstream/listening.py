"""What a session does to hear of a server's changes, in whichever way its era has for that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import trio

from mcpx.spec.capabilities import promises_changes, takes_subscriptions
from mcpx.spec.lists import LIST_CHANGED
from mcpx.upstream.call import Asker, Change, Interest
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from msgspec import Raw

    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import News
    from mcpx.upstream.session import Session

# Seconds for which changes of what hosts want are gathered: many that come and go together cost one request, and
# nobody notices that they waited.
GATHER = 0.02
# Seconds that a server may take to agree to what it is asked for, before it is done without.
AGREE_LIMIT = 10.0

SHOWN = 200  # characters of a URI in the log

LISTENER = Asker("")  # mcpx itself, for all hosts: what one of them declared is no part of it


class Listening(ABC):
    """Listens on one session for what is wanted. ``heard`` takes the changes."""

    def __init__(self, session: Session, heard: Callable[[News], None]) -> None:
        offered = session.identity.capabilities
        self.agreed = Interest()  # of which changes are delivered now
        self.declined = Interest()  # which the server was asked for, and does not do
        self._session = session
        self._heard = heard
        self._lists: frozenset[ChangeKind] = frozenset(
            kind for kind in LIST_CHANGED if promises_changes(offered.get(kind))
        )
        self._takes_uris = takes_subscriptions(offered.get("resources"))
        self._given_up = False  # it is not asked for anything more
        self._wanted: Callable[[], Interest] = Interest
        self._on_settled: Callable[[], None] = lambda: None
        self._poked = trio.Event()

    def settled(self, interest: Interest) -> Interest | None:
        """The part of an interest that is delivered; ``None`` while the server has yet to agree to some of it."""
        possible = self._possible(interest)
        if not self._given_up and possible - self.agreed - self.declined:
            return None
        return possible & self.agreed

    @property
    def streams(self) -> int:
        """Requests of it that are in flight because they are to stay so."""
        return 0

    def poke(self) -> None:
        """What is wanted may be something else now."""
        self._poked.set()

    async def run(self, wanted: Callable[[], Interest], on_settled: Callable[[], None]) -> None:
        """Listen for what ``wanted`` says, until cancelled. ``on_settled`` is called when ``settled`` may say more."""
        self._wanted, self._on_settled = wanted, on_settled
        on_settled()
        await self._run()

    @abstractmethod
    async def _run(self) -> None:
        """Listen for what is wanted."""

    @abstractmethod
    def notified(self, method: str, params: dict[str, Raw]) -> None:
        """Take what the server says of a subscription. Must not block."""

    def interrupted(self, *, forgotten: bool) -> None:
        """What the server said may have been lost, and with ``forgotten`` it no longer knows what it was asked for."""
        self._say(self._wanted())

    def _possible(self, interest: Interest) -> Interest:
        """The part of an interest that the server declares to have word of."""
        return Interest(interest.lists & self._lists, interest.uris if self._takes_uris else frozenset())

    async def _wait(self, until: float = float("inf")) -> None:
        """Until something else may be wanted, and all that comes together with that is known."""
        with trio.move_on_at(until):
            await self._poked.wait()
            await trio.sleep(GATHER)
        self._poked = trio.Event()

    def _updated(self, params: dict[str, Raw]) -> None:
        """A resource has changed."""
        if (uri := string_of(params.get("uri"))) is not None:
            self._heard(Change(self._session.server, "resources", uri))

    def _say(self, lost: Interest) -> None:
        """Changes may have been lost: whoever wants to hear of them is told that there was one of each."""
        say_all(self._session.server, lost, self._heard)


def say_all(server: str, interest: Interest, heard: Callable[[Change], None]) -> None:
    """Say a change of everything in an interest."""
    for kind in sorted(interest.lists):
        heard(Change(server, kind))
    for uri in sorted(interest.uris):
        heard(Change(server, "resources", uri))


def shown(uris: Collection[str]) -> str:
    """URIs for the log: one of them, without a query, and how many more there are."""
    one = min(uris).partition("?")[0][:SHOWN]
    return repr(one) if len(uris) == 1 else f"{one!r} and {len(uris) - 1} more"
