"""The life of one server: which instances of it run, who uses them, and what happens when one ends.

Instances are keyed by what they were told (design, An exchange, and whose question it is): a legacy server hears a
host's capabilities once, at its handshake, so hosts share an instance only where it was told the same, and never where
that includes anything that can ask. A modern server hears them on every request and needs one instance.

A host without a connection, as over modern HTTP, may be anybody, so that its requests have such an instance for
themselves, one at a time: if possible the one that the same caller had last.
"""

from __future__ import annotations

import logging
import random
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import trio

from mcpx.errors import UpstreamError, UpstreamGone, UpstreamStartError, UpstreamTimeout
from mcpx.spec.capabilities import is_implementation
from mcpx.spec.revisions import is_modern
from mcpx.upstream.backoff import restart_delay
from mcpx.upstream.call import Interest
from mcpx.upstream.eras import Memory
from mcpx.upstream.instance import COMMON_KEY, Instance, InstanceStatus, Key, user_of
from mcpx.upstream.interests import Group, Interested, Interests, union_of
from mcpx.upstream.listening import say_all
from mcpx.upstream.logs import Levels
from mcpx.upstream.target import Surroundings, is_http, open_session
from mcpx.upstream.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from msgspec import Raw

    from mcpx.settings import ServerSettings
    from mcpx.spec.levels import Level
    from mcpx.upstream.call import Asker, News, Unasked
    from mcpx.upstream.instance import State
    from mcpx.upstream.session import Session

log = logging.getLogger("mcpx.upstream")

FIRST_SEAT = 1


class Supervisor:
    """One server's instances, each a task of ``nursery``: when that is cancelled, all of them end at once, by the
    ladder.

    Starts nothing by itself. ``heard``, ``came_up`` and ``unasked`` are called by the readers and must not block;
    ``unasked`` takes a question that belongs to no call, if its host can be asked at once.
    """

    def __init__(
        self,
        server: ServerSettings,
        surroundings: Surroundings,
        state_folder: str | None,
        nursery: trio.Nursery,
        *,
        heard: Callable[[Supervisor, Key, News], None],
        came_up: Callable[[Supervisor], None],
        unasked: Callable[[Unasked], bool] = lambda unasked: False,
    ) -> None:
        self.server = server
        self.memory = Memory(server, state_folder)
        self._surroundings = surroundings
        self._nursery = nursery
        self._on_news = heard
        self._came_up = came_up
        self._unasked = unasked
        self._instances: dict[Key, Instance] = {}
        self._news = trio.Event()  # replaced whenever an instance changes its state or is let go
        self._start_lock = trio.Lock()  # one start at a time
        self._calls = 0
        self._interests = Interests(self.key, self._interest_changed)
        self._levels = Levels()
        self._telling = Telling(server)
        self._modern: bool | None = None  # as the last start showed; before it, as remembered

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def instances(self) -> Iterable[Instance]:
        return self._instances.values()

    def status(self) -> list[InstanceStatus]:
        """One row per instance."""
        return [one.status() for one in self._instances.values()]

    # -- leasing

    def key(self, asker: Asker) -> Key:
        """The key under which this asker's instance goes, as far as the server's era is known; with scope "call" none
        goes under it.
        """
        modern = self._modern if self._modern is not None else self.memory.value.era == "modern"
        if modern or self.server.scope == "shared":
            return COMMON_KEY
        told = self._telling.of(asker)
        if not told.capabilities:
            return COMMON_KEY  # told nothing: the same instance, whichever era the server turns out to be of
        if not told.can_ask:
            return Key(told.canonical)
        if asker.lasting:
            return Key(told.canonical, asker.host)
        # Where each request has a stream of its own, that says whose a question is.
        return Key(told.canonical, seat=None if self._is_streamable else FIRST_SEAT)

    @property
    def _is_streamable(self) -> bool:
        """Whether the server is one of Streamable HTTP, as far as that is known."""
        server = self.server
        return is_http(server) and server.transport != "sse" and not self.memory.value.sse

    def told_key(self, asker: Asker) -> bytes:
        """What of an asker the lists of this server may depend on: two askers with one key see the same."""
        return self._telling.of(asker).canonical

    def lease_nowait(self, asker: Asker) -> Instance | None:
        """An instance that is up, taken; ``None`` where one must be waited for."""
        if self.server.scope == "call":
            return None
        key = self.key(asker)
        instance = self._instances.get(key) if key.seat is None else self._free_seat(key, asker)
        if instance is None or not instance.ready:
            return None
        return self._take(instance, asker)

    def session_nowait(self, asker: Asker) -> Session | None:
        """The session that a notification of this asker's is for: its own, or the only one that is up.

        A notification of a modern host declares nothing, so that the key of its requests may be another.
        """
        own = self._instances.get(self.key(asker))
        ready = [own] if own is not None and own.ready else [one for one in self._instances.values() if one.ready]
        return ready[0].session if len(ready) == 1 else None

    async def lease(self, asker: Asker) -> Instance:
        """Take an instance for this asker, starting one where none runs; give it back with ``release``.

        Raises ``UpstreamStartError`` as soon as a start has failed, or at once where the last one did and the next is
        not due yet; ``UpstreamTimeout`` where all instances stayed busy for twice ``startTimeout``.
        """
        # A start gets its whole time, and so does one that waits behind another.
        patience = 2 * self.server.limits.start_timeout
        call = self._call_key() if self.server.scope == "call" else None
        with trio.move_on_after(patience):
            while True:
                key = call or self.key(asker)
                if key.seat is None:
                    instance = self._instances.get(key) or await self._start(key, asker)
                else:
                    instance = await self._find_seat(key, asker)
                    if instance is None:
                        continue
                self._take(instance, asker)
                # Who waits for an instance uses it: otherwise two could push out each other's for ever.
                try:
                    while self._instances.get(instance.key) is instance and self._serves(
                        instance, call or self.key(asker)
                    ):
                        if instance.ready:
                            return instance
                        await self._wait_for_start(instance)
                except BaseException:
                    self.release(instance)
                    raise
                self.release(instance)  # it has ended, or has turned out to be for others
        raise UpstreamTimeout(
            self.name,
            f"No instance was free within {patience:g} s; {len(self._instances)} are in use or starting. "
            "Raise maxInstances, or try again later.",
        )

    async def _find_seat(self, key: Key, asker: Asker) -> Instance | None:
        """An instance that nobody uses, for an asker without a connection; ``None`` where it is to be looked again."""
        if (free := self._free_seat(key, asker)) is not None:
            return free
        taken = {one.key.seat for one in self._instances.values() if one.key.told == key.told}
        seat = next(seat for seat in count(FIRST_SEAT) if seat not in taken)
        if len(self._instances) >= self.server.limits.max_instances and not self._make_room():
            await self._news.wait()  # one may be given back
            return None
        instance = await self._start(Key(key.told, seat=seat), asker)
        return None if instance.leases else instance  # somebody may have been quicker

    def _free_seat(self, key: Key, asker: Asker) -> Instance | None:
        """The best of those that nobody uses: one that is ready, that this caller had last, or else the last used."""
        user = user_of(asker)
        return max(
            (one for one in self._instances.values() if one.key.told == key.told and one.is_free_seat),
            key=lambda one: (one.ready, one.user == user, one.last_used),
            default=None,
        )

    def _serves(self, instance: Instance, key: Key) -> bool:
        """Whether an instance is one for askers of that key, as far as the server's era is known now."""
        return instance.key == key or (key.seat is not None and instance.key.seat is not None)

    def _call_key(self) -> Key:
        """A key for one call and no other."""
        self._calls += 1
        return Key(call=self._calls)

    async def _wait_for_start(self, instance: Instance) -> None:
        """Wait for any news. Raises ``UpstreamStartError`` where the start fails, or has failed and the next is not due
        yet.
        """
        if instance.state == "backing off" and instance.start_failed:
            raise self._not_yet(instance)
        failures = instance.failures
        await self._news.wait()
        if instance.failures > failures and instance.start_failed and instance.last_error is not None:
            raise UpstreamStartError(self.name, instance.last_error.reason)

    def release(self, instance: Instance) -> None:
        """Give a leased instance back."""
        instance.leases -= 1
        if instance.leases == 0:
            instance.last_used = trio.current_time()
        if instance.key.seat is not None:
            if instance.questions is not None:
                instance.questions.released()
            self._wake()
        if instance.idle:
            if instance.key.call is not None:
                instance.end()
            self._wake()

    def _take(self, instance: Instance, asker: Asker) -> Instance:
        instance.leases += 1
        if instance.key.seat is not None:
            before, instance.user = instance.user, user_of(asker)
            if instance.user != before and instance.questions is not None:
                instance.questions.replaced()
        return instance

    def _not_yet(self, instance: Instance) -> UpstreamStartError:
        assert instance.last_error is not None
        wait = max(instance.retry_at - trio.current_time(), 0.0)
        how = "running; it is started" if self.server.url is None else "connected; it is tried"
        return UpstreamStartError(self.name, f"Not {how} again in {wait:.0f} s. {instance.last_error.reason}")

    async def _start(self, key: Key, asker: Asker) -> Instance:
        """Make room for one more instance and begin its life."""
        while len(self._instances) >= self.server.limits.max_instances and key not in self._instances:
            self._make_room()
            await self._news.wait()
        if key not in self._instances:
            self._instances[key] = instance = Instance(key, asker, trio.current_time())
            instance.kept = self._interests.keeps(key)
            self._nursery.start_soon(self._supervise, instance, name=f"upstream {self.name}")
        return self._instances[key]

    def _make_room(self) -> bool:
        """Have the instance end that nobody has used for longest; whether there is one that nobody uses."""
        victim = min((one for one in self._instances.values() if one.idle), key=_last_used, default=None)
        if victim is None:
            return False
        victim.end()
        return True

    # -- listening

    @contextmanager
    def interested(self, asker: Asker, interest: Interest, *, keep: bool) -> Generator[Interested]:
        """Want to hear of changes while entered: the instance that this asker's requests go to listens for all that
        anybody wants who has the same. Changes are said to ``heard``; after a time in which some may have been lost,
        one of everything that is wanted.

        With ``keep`` (somebody has subscribed) the server is started for it, does not fall idle, and is started again
        when it ends, with the backoff that it has anyway. Without, it is listened to while it happens to be up. With
        scope "call" an instance of its own listens, as no call's lasts.
        """
        one = Interested(asker, interest, keep=keep, look=self._settled)
        self._interests.add(one)
        try:
            yield one
        finally:
            self._interests.remove(one)

    def _settled(self, one: Interested) -> Interest | None:
        """What of an interest is delivered; ``None`` where that will show."""
        instance = self._instances.get(one.group.key)
        if instance is None:
            return None if one.group.keepers else Interest()
        if instance.session is not None:
            return instance.session.listening.settled(one.interest)
        return Interest() if instance.start_failed else None

    def _interest_changed(self, group: Group) -> None:
        """Have an instance run for a group that wants it, and let it know what is wanted."""
        kept = group.keepers > 0
        if kept and group.keeping is None:
            group.keeping = trio.CancelScope()
            self._nursery.start_soon(self._keep, group, group.keeping, name=f"subscriptions to {self.name}")
        elif not kept and group.keeping is not None:
            group.keeping.cancel()
            group.keeping = None
        instance = self._instances.get(group.key)
        if instance is None:
            return
        if instance.kept != kept:
            instance.kept = kept
            instance.last_used = trio.current_time()
            if instance.idle:
                if self.server.scope == "call":
                    instance.end()  # no call comes to this one
                self._wake()
        if instance.session is not None:
            instance.session.listening.poke()

    async def _keep(self, group: Group, scope: trio.CancelScope) -> None:
        """Have an instance run for those who have subscribed to its changes."""
        with scope:
            while True:
                await trio.lowlevel.checkpoint_if_cancelled()
                if self.key(group.asker) != group.key:
                    self._interests.regroup()  # which cancels this, unless some of them stay
                elif group.key not in self._instances:
                    await self._start(group.key, group.asker)
                else:
                    await self._news.wait()

    def _listened(self, instance: Instance) -> None:
        """An instance may have agreed to what is wanted of it: who missed changes meanwhile is told of them."""
        group, session = self._interests.find(instance.key), instance.session
        if group is None or session is None:
            return
        missed = [
            one for one in group.members if one.interrupted and session.listening.settled(one.interest) is not None
        ]
        for one in missed:
            one.interrupted = False
        say_all(self.name, union_of(missed), partial(self._heard, instance))
        group.wake()

    def _wanted(self, instance: Instance) -> Interest:
        """What an instance is to listen for."""
        group = self._interests.find(instance.key)
        return Interest() if group is None else group.union

    # -- what hosts say beside their requests

    def roots_changed(self, asker: Asker) -> None:
        """A host's roots have changed: the instance that is told of them is to know."""
        instance = self._instances.get(self.key(asker))
        if instance is not None and instance.ready and instance.key.host == asker.host:
            assert instance.session is not None
            instance.session.roots_changed()

    def set_level(self, asker: Asker, level: Level | None) -> None:
        """A host wants log messages of this level from now on; ``None``: none any more."""
        self._levels.set(asker, level)
        for instance in self._instances.values():
            if instance.session is not None:
                instance.session.logs.poke()

    def _set_levels(self, instance: Instance) -> Mapping[str, Level]:
        """The levels that the hosts of an instance have set, by host."""
        return self._levels.among(self.key, instance.key)

    # -- the life of an instance

    async def _supervise(self, instance: Instance) -> None:
        """Start, serve, and on an end back off and start again, until nobody has used the instance for long."""
        limits = self.server.limits
        try:
            with instance.scope:
                while True:
                    try:
                        if not await self._run_once(instance):
                            return
                    except UpstreamStartError as error:
                        if instance.last_error is not error:
                            self._failed(instance, error)
                    await trio.sleep_until(instance.retry_at)
                    if instance.idle and trio.current_time() - instance.last_used > limits.instance_idle:
                        return
                    instance.restarts += 1
                    self._move(instance, "starting")
        finally:
            instance.session = None
            if self._instances.get(instance.key) is instance:
                self._interrupt(instance)
                del self._instances[instance.key]
            self._move(instance, "ended")

    async def _run_once(self, instance: Instance) -> bool:
        """One run. Returns whether the server ended by itself; raises ``UpstreamStartError`` where it never came up."""
        async with AsyncExitStack() as stack:
            async with self._start_lock:
                if self._is_superseded(instance):
                    return False
                session = await stack.enter_async_context(
                    open_session(
                        self.server,
                        self._surroundings,
                        self.memory,
                        asker=instance.asker,
                        tell=self._telling.capabilities,
                        roots=self._telling.roots,
                        client_info=self._client_info(instance.asker),
                        heard=partial(self._heard, instance),
                        unasked=self._unasked,
                        failing=partial(self._failed, instance),
                    )
                )
                if not self._adopt(instance, session):
                    return False
            return await self._serve(instance, session)

    async def _serve(self, instance: Instance, session: Session) -> bool:
        """Until the server ends (``True``) or the instance was idle for long (``False``)."""
        started = trio.current_time()
        if session.questions is not None:
            session.questions.certainty = lambda: instance.certainty
        instance.session = session
        instance.start_failed = False
        self._move(instance, "up")
        log.info("[%s] up, revision %s", self.name, session.revision)
        self._came_up(self)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                session.listening.run, partial(self._wanted, instance), partial(self._listened, instance)
            )
            nursery.start_soon(session.run_questions)
            if instance.key.host is not None:
                session.logs.note(instance.asker)  # nobody else will use it
            nursery.start_soon(session.logs.run, partial(self._set_levels, instance))
            ended = await self._until_ended(instance, session.connection.closed)
            nursery.cancel_scope.cancel()
        if ended:
            if trio.current_time() - started >= self.server.limits.restart_backoff_max:
                instance.failures = 0  # it was healthy: what happened before counts no more
            self._failed(instance, UpstreamGone(self.name, session.connection.end_reason))
        return ended

    async def _until_ended(self, instance: Instance, closed: trio.Event) -> bool:
        """Wait; whether it is the server that has ended."""
        limits = self.server.limits
        while not closed.is_set():
            now = trio.current_time()
            if instance.idle and now >= instance.last_used + limits.instance_idle:
                log.info("[%s] retired after %g s without use", self.name, limits.instance_idle)
                instance.move("ended", now)  # it takes no more calls
                return False
            with trio.move_on_at((instance.last_used if instance.idle else now) + limits.instance_idle):
                await closed.wait()
        return True

    def _failed(self, instance: Instance, error: UpstreamError) -> None:
        limits = self.server.limits
        instance.start_failed = isinstance(error, UpstreamStartError)
        instance.session = None
        instance.last_error = error
        instance.failures += 1
        delay = restart_delay(
            instance.failures + (1 if instance.start_failed else 0),
            limits.restart_backoff_step,
            limits.restart_backoff_max,
            random.random(),
        )
        instance.retry_at = trio.current_time() + delay
        what = "start" if self.server.url is None else "try"
        log.error("[%s] %s (next %s %s)", self.name, error.reason, what, f"in {delay:.1f} s" if delay else "at once")
        self._interrupt(instance)
        self._move(instance, "backing off")

    def _interrupt(self, instance: Instance) -> None:
        """It hears of no changes from now on, until it is up again."""
        if (group := self._interests.find(instance.key)) is not None:
            group.interrupt()

    def _move(self, instance: Instance, state: State) -> None:
        """An instance changes its state: who waits for it, or for what it agrees to, is to look again."""
        instance.move(state, trio.current_time())
        self._wake()
        if (group := self._interests.find(instance.key)) is not None:
            group.wake()

    def _is_superseded(self, instance: Instance) -> bool:
        """Whether, since it was asked for, the server has shown that this instance is not needed."""
        return self._instances.get(self._place(instance)) not in (None, instance)

    def _place(self, instance: Instance) -> Key:
        """The key that an instance belongs under, as far as the server's era is known."""
        if instance.key.call is not None:
            return instance.key
        key = self.key(instance.asker)
        return instance.key if key.seat is not None and instance.key.seat is not None else key

    def _client_info(self, asker: Asker) -> Raw:
        """mcpx's own identity, or in pass-through the host's (LV-19 to LV-21)."""
        if self.server.passthrough and is_implementation(asker.client_info):
            return asker.client_info
        return self._surroundings.client_info

    def _adopt(self, instance: Instance, session: Session) -> bool:
        """Put an instance under the key that its era asks for; ``False`` where one that is ready has that place."""
        before, self._modern = self._modern, is_modern(session.revision)
        if before != self._modern:
            self._interests.regroup()
        place = self._place(instance)
        other = self._instances.get(place)
        if other is not None and other is not instance:
            if other.ready:
                return False
            other.end()  # it waits for its turn to start, or to start again: this one is there already
        if self._instances.get(instance.key) is instance:
            del self._instances[instance.key]
        instance.key = place
        instance.kept = self._interests.keeps(place)
        self._instances[place] = instance
        return True

    def _wake(self) -> None:
        """Let all who wait for news look again."""
        self._news.set()
        self._news = trio.Event()

    def _heard(self, instance: Instance, news: News) -> None:
        self._on_news(self, instance.key, news)


def _last_used(instance: Instance) -> float:
    return instance.last_used
