"""Who wants to hear of a server's changes, grouped by the instance that each one's requests go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from mcpx.upstream.call import Interest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import Asker
    from mcpx.upstream.instance import Key


class Interested:
    """One who wants to hear of changes, for as long as registered. See ``Supervisor.interested``."""

    def __init__(
        self, asker: Asker, interest: Interest, *, keep: bool, look: Callable[[Interested], Interest | None]
    ) -> None:
        self.asker = asker
        self.interest = interest
        self.keep = keep
        self.group: Group  # set by `Interests`
        self.interrupted = False  # the instance has ended meanwhile, so that changes may have been lost
        self._look = look

    def change(self, interest: Interest) -> None:
        """Want to hear of something else from now on: of more, or of less."""
        if interest != self.interest:
            self.interest = interest
            self.group.changed(self.group)

    async def settled(self) -> Interest:
        """Wait until the server has agreed to all of the interest, or has refused, cannot do it, or failed to start.

        Returns the part of the interest of which changes will be delivered. The caller bounds the wait. A later
        ``change`` unsettles it, and so does the end of the server.
        """
        while (part := self._look(self)) is None:
            await self.group.moved.wait()
        return part


class Group:
    """All who want to hear of the changes of one instance, whether that runs or not."""

    def __init__(self, key: Key, changed: Callable[[Group], None]) -> None:
        self.key = key
        self.changed = changed  # called when what they want may be something else
        self.members: dict[Interested, None] = {}  # in the order they came
        self.keepers = 0  # members for whom the instance is to run
        self.keeping: trio.CancelScope | None = None  # of the task that has it run
        self.moved = trio.Event()  # replaced whenever what is settled may be something else

    @property
    def union(self) -> Interest:
        """What all of them want together."""
        return union_of(self.members)

    @property
    def asker(self) -> Asker:
        """One of those for whom the instance is to run; it is told the same by all of them."""
        return next(one.asker for one in self.members if one.keep)

    def wake(self) -> None:
        """Let all who wait to be settled look again."""
        self.moved.set()
        self.moved = trio.Event()

    def interrupt(self) -> None:
        """Changes may be lost from now on, until the instance listens again."""
        for one in self.members:
            one.interrupted = True


class Interests:
    """The groups of one server. ``place`` says under which key an asker's instance goes, as far as that is known;
    ``changed`` is called for each group that wants something else than before, or is gone.
    """

    def __init__(self, place: Callable[[Asker], Key], changed: Callable[[Group], None]) -> None:
        self._place = place
        self._changed = changed
        self._groups: dict[Key, Group] = {}

    def find(self, key: Key) -> Group | None:
        """Those who want to hear of the changes of the instance with that key; there are some."""
        return self._groups.get(key)

    def keeps(self, key: Key) -> bool:
        """Whether an instance is to run for any of them."""
        group = self._groups.get(key)
        return group is not None and group.keepers > 0

    def add(self, one: Interested) -> None:
        """Register one more."""
        key = self._place(one.asker)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, self._changed)
        one.group = group
        group.members[one] = None
        group.keepers += one.keep
        self._changed(group)

    def remove(self, one: Interested) -> None:
        """Forget one."""
        group = one.group
        del group.members[one]
        group.keepers -= one.keep
        if not group.members:
            del self._groups[group.key]
        self._changed(group)

    def regroup(self) -> None:
        """The server's era is known now, or another one: everyone's instance may be another."""
        for group in list(self._groups.values()):
            for one in list(group.members):
                if self._place(one.asker) != group.key:
                    self.remove(one)
                    self.add(one)
                    group.wake()


def union_of(those: Iterable[Interested]) -> Interest:
    """What all of them want together."""
    lists: set[ChangeKind] = set()
    uris: set[str] = set()
    for one in those:
        lists |= one.interest.lists
        uris |= one.interest.uris
    return Interest(frozenset(lists), frozenset(uris))
