"""Merged lists: put together once, however many pages are taken of them, and anew where anything has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from mcpx.gateway import cursors
from mcpx.gateway.catalog import Item, Shelf
from mcpx.gateway.merged import KEPT, MergedLists
from mcpx.gateway.name_table import NameTable, Owner
from tests.support.running import run_in_virtual_time
from tests.unit.gateway.fakes import HOST, Scripted, gateway_of, tool

if TYPE_CHECKING:
    from mcpx.spec.lists import ListKind


class Counting(NameTable):
    """Counts how often it is asked whether an item may be shown."""

    asked = 0

    def is_shown(self, kind: ListKind, public: str, owner: Owner) -> bool:
        self.asked += 1
        return super().is_shown(kind, public, owner)


def shelf(server: str, *names: str) -> Shelf:
    return Shelf(server, "", [Item(f"{server}__{name}", name, Raw(b"{}")) for name in names], 0.0, "public")


def table(*shelves: Shelf) -> Counting:
    names = Counting()
    for one in shelves:
        names.replace(one.server, "tools", [(item.public, item.own) for item in one.items])
    return names


def test_each_item_is_looked_at_once_however_many_pages_there_are() -> None:
    one, two = shelf("one", *map(str, range(300))), shelf("two", *map(str, range(100)))
    names = table(one, two)
    lists = MergedLists(names, whole=False)
    cursor, seen = None, 0
    while True:
        merged = lists.merge("tools", [one, two])
        page = cursors.page("tools", merged.keys, ["one", "two"], cursor, 10)
        seen += page.stop - page.start
        if (cursor := page.next_cursor) is None:
            break
    assert (seen, names.asked) == (400, 400)


def test_a_page_looks_at_few_of_the_keys_of_a_long_list() -> None:
    class Looked(list[cursors.Key]):
        count = 0

        def __getitem__(self, index):  # type: ignore[no-untyped-def]
            Looked.count += 1
            return super().__getitem__(index)

    keys = Looked((server, str(number)) for server in ("one", "two") for number in range(50_000))
    page = cursors.page("tools", keys, ["one", "two"], None, 1000)
    for _ in range(3):
        page = cursors.page("tools", keys, ["one", "two"], page.next_cursor, 1000)
    assert page.start == 3000
    assert Looked.count < 1000


def test_what_has_changed_is_merged_anew() -> None:
    one, two = shelf("one", "a"), shelf("two", "b")
    names = table(one, two)
    lists = MergedLists(names, whole=False)
    before = lists.merge("tools", [one, two])
    assert lists.merge("tools", [one, two]) is before
    assert lists.merge("tools", [one]).keys == [("one", "a")]
    names.replace("three", "tools", [("one__a", "x")])  # now the name is nobody's
    assert lists.merge("tools", [one, two]).keys == [("two", "b")]
    assert MergedLists(names, whole=True).merge("tools", [one, two]).keys == [("one", "a"), ("two", "b")]


def test_few_merged_lists_are_kept() -> None:
    shelves = [shelf("one", str(number)) for number in range(KEPT + 1)]
    names = table()
    lists = MergedLists(names, whole=False)
    first = lists.merge("tools", shelves[:1])
    assert lists.merge("tools", shelves[:1]) is first
    for one in shelves[1:]:
        lists.merge("tools", [one])
    assert lists.merge("tools", shelves[:1]) is not first


def test_a_list_that_was_fetched_anew_and_is_the_same_keeps_its_items() -> None:
    async def test() -> None:
        server = Scripted(tools_list={"tools": [tool("a"), tool("b")]})  # it tells no changes, so it is asked each time
        async with gateway_of(one=server) as gateway:
            [before] = (await gateway.list("tools", HOST, None)).parts
            [after] = (await gateway.list("tools", HOST, None)).parts
            assert server.count("tools/list") == 2
            assert [id(item) for item in after.items] == [id(item) for item in before.items]

    run_in_virtual_time(test)
