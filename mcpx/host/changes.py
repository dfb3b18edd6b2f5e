"""What a host is told of changes: what of them was not said yet on one stream, and what is said unasked to a legacy
host, that is list changes it was promised and updates of what it subscribed to (the list and resource pages of the
legacy revisions), log messages that belong to no request of its, and that a visit to a URL is over which it was asked
for. In pass-through that is also whatever an upstream says that no revision defines.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import trio

from mcpx.gateway.uris import ancestors
from mcpx.host.logs import HostLogs
from mcpx.spec.asking import without_hop_keys
from mcpx.spec.lists import LIST_CHANGED, RESOURCE_UPDATED
from mcpx.spec.meta import SUBSCRIPTION_ID
from mcpx.spec.methods import defined
from mcpx.upstream.call import Change, Foreign, Interest, Remark, Visited
from mcpx.wire.frames import encode, notification
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from types import TracebackType

    from msgspec import Raw

    from mcpx.gateway.gateway import Gateway
    from mcpx.gateway.watch import Watch
    from mcpx.host.inbound import Handshake, Way
    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import Asker, News

log = logging.getLogger("mcpx.host")

# Seconds for which nothing is said again that was just said on the same stream; what changes meanwhile is said once
# they are over. A host answers most of what it hears with a list or a read: so a server that notifies in a loop costs
# ten of them a second, and nobody notices that the last one came so much later.
QUIET = 0.1
# Updates of resources inside of a subscribed one that wait to be said; beyond it the subscribed one itself is said to
# have been updated, which is as true.
MAX_INNER = 256
# Foreign notifications and log messages kept for a host that is slow to read; beyond it the oldest are dropped, as
# nobody knows what could be merged.
MAX_FOREIGN = 256
MAX_SHOWN = 200  # characters of a URI in the log

VISITED = "notifications/elicitation/complete"

Key = tuple["ChangeKind", str | None]  # what has changed: a list, or the resource with this URI


def say(key: Key, id: Raw | None = None) -> bytes:
    """The notification of a change; on a listen stream with the ``id`` of that."""
    kind, uri = key
    params: dict[str, Any] = {} if uri is None else {"uri": uri}
    if id is not None:
        params = {"_meta": {SUBSCRIPTION_ID: id}, **params}
    method = LIST_CHANGED[kind] if uri is None else RESOURCE_UPDATED
    return encode(notification(method, params) if params else notification(method))


class Pending:
    """What has changed and was not yet said on one stream: a set and no queue, so a slow host costs no memory.

    ``lists`` and ``uris`` are what the host wants to hear of, at any time.
    """

    def __init__(self) -> None:
        self.lists: AbstractSet[ChangeKind] = frozenset()
        self.uris: AbstractSet[str] = frozenset()
        self._ready: dict[Key, None] = {}  # to be said, in the order of the first change of each
        self._resting: dict[Key, float] = {}  # said a moment ago, and until when it is not said again; the first first
        self._again: dict[Key, None] = {}  # of these, what has changed once more
        self._work = trio.Event()

    def note(self, news: News) -> None:
        """Something has changed. Whatever else is news is nothing for this stream."""
        if isinstance(news, Change):
            key = (news.kind, news.uri if news.uri is None else self._bounded(news.uri))
            (self._again if key in self._resting else self._ready)[key] = None
            self._work.set()

    async def wait(self) -> None:
        """Wait until there is something to be said."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._look():
            self._work = trio.Event()
            with trio.move_on_at(next(iter(self._resting.values())) if self._again else float("inf")):
                await self._work.wait()

    def take(self) -> Key | None:
        """What is to be said now; ``None`` where there is nothing any more."""
        while self._look():
            key = next(iter(self._ready))
            del self._ready[key]
            if self._is_wanted(key):
                self._resting[key] = trio.current_time() + QUIET
                return key
        return None

    def _look(self) -> bool:
        """Whether there is something to be said now."""
        now = trio.current_time()
        while self._resting:
            key, until = next(iter(self._resting.items()))
            if until > now:
                break
            del self._resting[key]
            if key in self._again:
                del self._again[key]
                self._ready[key] = None
        return bool(self._ready)

    def _is_wanted(self, key: Key) -> bool:
        """Whether the host still wants to hear of a change."""
        kind, uri = key
        if uri is None:
            return kind in self.lists
        return uri in self.uris or any(outer in self.uris for outer in ancestors(uri))

    def _bounded(self, uri: str) -> str:
        """The URI, or, of a resource inside of a subscribed one, that of the outer one where too many wait already."""
        if uri in self.uris or len(self._ready) + len(self._again) < len(self.uris) + MAX_INNER:
            return uri
        return next((outer for outer in ancestors(uri) if outer in self.uris), uri)


class ChangeRelay:
    """What is said unasked to one host, over the ``way`` to it.

    A context manager, whose end is the end of the watches on the gateway; ``run`` does the sending meanwhile.
    """

    def __init__(self, gateway: Gateway, way: Way) -> None:
        self._gateway = gateway
        self._way = way
        self._promised = ExitStack()  # the watch on the lists that the host was promised to hear of
        self._listed: Watch | None = None
        self._followed: Handshake | None = None
        self._chosen = ExitStack()  # the watch on the resources that it has subscribed to, while there are any
        self._watch: Watch | None = None
        self._subscriber: Asker | None = None
        self._uris: set[str] = set()
        self._pending = Pending()
        self._pending.uris = self._uris
        self._foreign: deque[bytes] = deque(maxlen=MAX_FOREIGN)
        self._some_foreign = trio.Event()
        self._logs = HostLogs(gateway)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._promised.close()
        self._forget()
        self._logs.close()

    @property
    def logs(self) -> HostLogs:
        """The log level of the host, and what it is told of log messages."""
        return self._logs

    @property
    def subscribed(self) -> int:
        """How many resources the host has subscribed to."""
        return len(self._uris)

    def follow(self, handshake: Handshake) -> None:
        """From now on say what the host of this handshake was promised; what an earlier one was, no longer."""
        if handshake is self._followed:
            return
        self._promised.close()
        self._foreign.clear()
        if self._subscriber is not handshake.asker:
            self._forget()
        self._followed = handshake
        self._logs.follow(handshake.asker)
        self._listed = self._promised.enter_context(
            self._gateway.watch(handshake.asker, Interest(), self._note, keep=False)
        )
        self._promise(handshake)

    def promise(self, handshake: Handshake) -> None:
        """What the host is promised is known: only now, where it has confirmed its handshake before it was answered."""
        if handshake is self._followed:
            self._promise(handshake)

    async def subscribe(self, asker: Asker, uri: str) -> None:
        """Say each update of a resource, and of what is inside of it, from now on, until ``unsubscribe``.

        Comes back when the server has agreed, or when ``listTimeout`` is over. That a resource is of no server, or of
        one that tells no updates, is said in the log: its subscription succeeds all the same.
        """
        limits = self._gateway.settings.limits
        if asker is not self._subscriber:
            self._forget()
            self._subscriber = asker
        if len(self._uris) >= limits.max_subscriptions and uri not in self._uris:
            log.warning("Host %s: %s", asker.host, _undelivered(uri, "it has maxSubscriptions subscriptions already"))
            return
        self._uris.add(uri)
        watch = self._watch_chosen(asker)
        with trio.move_on_after(limits.list_timeout):
            await watch.settled({uri})
        if self._watch is watch and uri in self._uris and not watch.grants(uri):
            log.warning("Host %s: %s", asker.host, _undelivered(uri, "no server tells of its updates"))

    def unsubscribe(self, uri: str) -> None:
        """Say no more of a resource."""
        self._uris.discard(uri)
        if not self._uris:
            self._forget()
        elif self._watch is not None:
            self._watch.change(Interest(uris=frozenset(self._uris)))

    async def run(self) -> None:
        """Say what there is to say, one notification at a time, each when the host has taken all that went before."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_changes)
            nursery.start_soon(self._say_foreign)

    async def _say_changes(self) -> None:
        while True:
            await self._pending.wait()
            await self._way.flush()
            key = self._pending.take()
            if key is not None:
                await self._way.send(say(key))

    async def _say_foreign(self) -> None:
        while True:
            await self._some_foreign.wait()
            self._some_foreign = trio.Event()
            while self._foreign:
                await self._way.flush()
                if self._foreign:  # a new handshake may have come meanwhile
                    await self._way.send(self._foreign.popleft())

    def _promise(self, handshake: Handshake) -> None:
        assert self._listed is not None
        self._listed.change(Interest(handshake.declared))
        self._pending.lists = handshake.declared

    def _note(self, news: News) -> None:
        if isinstance(news, Foreign):
            self._keep(encode(notification(news.method, news.params)))
        elif isinstance(news, Remark):
            handshake = self._followed
            assert handshake is not None  # it is what the watch was opened for
            if said := self._logs.say_beside(news.message, handshake.asker, handshake.revision):
                self._keep(said)
        elif isinstance(news, Visited):
            handshake = self._followed
            assert handshake is not None  # likewise
            if said := _say_visited(news, handshake.revision):
                self._keep(said)
        else:
            self._pending.note(news)

    def _keep(self, message: bytes) -> None:
        self._foreign.append(message)
        self._some_foreign.set()

    def _watch_chosen(self, asker: Asker) -> Watch:
        """The watch on what the host has subscribed to, brought up to date."""
        chosen = Interest(uris=frozenset(self._uris))
        if self._watch is None:
            self._watch = self._chosen.enter_context(self._gateway.watch(asker, chosen, self._pending.note, keep=True))
        else:
            self._watch.change(chosen)
        return self._watch

    def _forget(self) -> None:
        """The host has subscribed to nothing."""
        self._uris.clear()
        self._chosen.close()
        self._watch = None


def _say_visited(news: Visited, revision: str) -> bytes | None:
    """``notifications/elicitation/complete``, where the host's revision has it (2025-11-25 client/elicitation)."""
    if not defined(VISITED, revision, "upstream") or string_of(news.params.get("elicitationId")) is None:
        return None
    return encode(notification(VISITED, without_hop_keys(news.params)))


class Unheard:
    """A ``Relay`` for a host that nothing can be said to unasked, as it opened no session."""

    subscribed = 0

    def __init__(self, host: str) -> None:
        self._host = host
        self.logs = HostLogs(None)

    def follow(self, handshake: Handshake) -> None:
        """Nothing can be kept."""

    def promise(self, handshake: Handshake) -> None:
        """Nor was anything promised that could be."""

    async def subscribe(self, asker: Asker, uri: str) -> None:
        """It succeeds, and nothing comes of it."""
        await trio.lowlevel.checkpoint()
        log.warning("Host %s: %s", self._host, _undelivered(uri, "it has opened no session in which to be told"))

    def unsubscribe(self, uri: str) -> None:
        """There is nothing to end."""


def _undelivered(uri: str, why: str) -> str:
    """For the log, without what may be secret in a URI."""
    shown = uri.partition("?")[0]
    shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
    return f"updates of {shown!r} cannot be delivered: {why}"
