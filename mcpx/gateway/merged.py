"""The lists of several servers as one, put together once and not for each page."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from mcpx.gateway.name_table import Owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpx.gateway.catalog import Item, Shelf
    from mcpx.gateway.cursors import Key
    from mcpx.gateway.name_table import NameTable
    from mcpx.spec.lists import ListKind

KEPT = 8  # merged lists: of each kind one, and some more for hosts that are shown others


class Merged(msgspec.Struct, frozen=True, eq=False):
    """All that hosts may see, in order: by server as the configuration has them, then as each server lists it."""

    keys: list[Key]
    items: list[tuple[Shelf, Item]]


class MergedLists:
    """Merges lists, and keeps the last few. What they were made of is told by identity, and held on to for that.

    Without ``whole`` an item is left out that hosts may not see: a name that several servers offer is nobody's.
    """

    def __init__(self, names: NameTable, *, whole: bool) -> None:
        self._names = names
        self._whole = whole
        self._kept: OrderedDict[tuple[ListKind, int, tuple[int, ...]], tuple[list[list[Item]], Merged]] = OrderedDict()

    def merge(self, kind: ListKind, shelves: Sequence[Shelf]) -> Merged:
        """The shelves as one list."""
        key = (kind, self._names.generation(kind), tuple(id(shelf.items) for shelf in shelves))
        if (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return known[1]
        items = [
            (shelf, item)
            for shelf in shelves
            for item in shelf.items
            if self._whole or self._names.is_shown(kind, item.public, Owner(shelf.server, item.own))
        ]
        merged = Merged([(shelf.server, item.own) for shelf, item in items], items)
        self._kept[key] = ([shelf.items for shelf in shelves], merged)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return merged
