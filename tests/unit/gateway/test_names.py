"""Public names: pure, within limits, one for each item; and the kept way back."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.errors import NameClash
from mcpx.gateway.name_table import NameTable, Owner
from mcpx.names import (
    DEFAULT_LIMIT,
    HASH_DIGITS,
    MAX_SERVER_PART,
    MIN_LIMIT,
    candidates,
    public_name,
    server_part,
)

STEADY = settings(deadline=None)  # a shared machine may be slow at any moment

ANY_NAME = st.text(max_size=90)
# Names that are likely to meet each other: few letters, and all that has a meaning in a public name.
NEAR_NAME = st.text(alphabet="ab_-. é0", max_size=70)
NAME = ANY_NAME | NEAR_NAME
LIMIT = st.integers(min_value=MIN_LIMIT, max_value=140)


@pytest.mark.parametrize(
    ("server", "item", "public"),
    [
        ("github", "create_issue", "github__create_issue"),
        ("my-server", "a__b", "my-server__a__b"),
        ("files", "_private_", "files___private_"),
        ("_x", "-", "_x__-"),
        ("a" * 32, "b" * 30, "a" * 32 + "__" + "b" * 30),
    ],
)
def test_a_name_that_fits_is_shown_as_it_is(server: str, item: str, public: str) -> None:
    assert public_name(server, item) == public


@pytest.mark.parametrize(
    ("server", "item", "pattern"),
    [
        ("github", "admin.tools.list", r"github__admin_tools_list-[0-9a-f]{10}"),
        ("github", "données", r"github__donn_es-[0-9a-f]{10}"),
        ("github", "日本語", r"github__[0-9a-f]{10}"),
        ("github", "", r"github__[0-9a-f]{10}"),
        ("github", "x" * 57, r"github__x{45}-[0-9a-f]{10}"),
        ("github", "line\nbreak", r"github__line_break-[0-9a-f]{10}"),
        ("my server", "echo", r"my_server-[0-9a-f]{10}__echo"),
        ("a__b", "echo", r"a_b-[0-9a-f]{10}__echo"),
        ("a_é_b", "echo", r"a_b-[0-9a-f]{10}__echo"),
        ("ends_", "echo", r"ends-[0-9a-f]{10}__echo"),
        ("", "echo", r"[0-9a-f]{10}__echo"),
        ("__", "echo", r"[0-9a-f]{10}__echo"),
        ("✨", "echo", r"[0-9a-f]{10}__echo"),
        ("s" * 33, "echo", r"s{21}-[0-9a-f]{10}__echo"),
    ],
)
def test_a_name_that_does_not_fit_keeps_its_head_and_gets_a_hash(server: str, item: str, pattern: str) -> None:
    assert re.fullmatch(pattern, public_name(server, item))


def test_names_that_differ_only_beyond_the_limit_stay_two() -> None:
    first, second = public_name("s", "x" * 100 + "1"), public_name("s", "x" * 100 + "2")

    assert first != second
    assert len(first) == len(second) == DEFAULT_LIMIT


def test_a_name_never_equals_the_hashed_form_of_another() -> None:
    hashed = public_name("s", "admin.list").removeprefix("s__")

    assert public_name("s", hashed) != public_name("s", "admin.list")
    assert re.fullmatch(r"s__admin_list-[0-9a-f]{10}-[0-9a-f]{10}", public_name("s", hashed))


def test_a_name_that_ends_in_a_date_is_no_hash() -> None:
    assert public_name("s", "report-20250101") == "s__report-20250101"


def test_names_are_the_same_in_another_process() -> None:
    """A hash that changed from start to start, as Python's own does, would rename tools at each."""
    code = "from mcpx.names import public_name; print(public_name('my server', 'a.b'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    assert other == public_name("my server", "a.b")
    assert other == "my_server-b129874b63__a_b-2e7336dc8e"


def test_a_limit_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 44, not 43"):
        public_name("s", "x", limit=43)


@STEADY
@given(NAME)
def test_a_server_part_keeps_its_rules(server: str) -> None:
    part = server_part(server)

    assert re.fullmatch(r"[A-Za-z0-9_-]+", part)
    assert "__" not in part
    assert not part.endswith("_")
    assert len(part) <= MAX_SERVER_PART
    assert server_part(part) == part


@STEADY
@given(NAME, NAME, LIMIT)
def test_a_public_name_keeps_its_rules(server: str, item: str, limit: int) -> None:
    public = public_name(server, item, limit)

    assert re.fullmatch(r"[A-Za-z0-9_-]+", public)
    assert len(public) <= limit
    assert public.startswith(server_part(server) + "__")
    assert len(public) > len(server_part(server) + "__")
    assert public_name(server, item, limit) == public


@STEADY
@given(st.lists(st.tuples(NEAR_NAME, NEAR_NAME), max_size=30), LIMIT)
def test_two_items_never_share_a_name(items: list[tuple[str, str]], limit: int) -> None:
    """Of one server, and of two servers with two parts; two with one part are refused with the configuration."""
    owners: dict[str, tuple[str, str]] = {}
    for server, item in items:
        owner = (server_part(server), item)
        assert owners.setdefault(public_name(server, item, limit), owner) == owner


@STEADY
@given(NEAR_NAME, LIMIT)
def test_a_shown_name_is_not_taken_by_an_item_of_that_name(item: str, limit: int) -> None:
    shown = public_name("s", item, limit).removeprefix("s__")

    assert shown == item or public_name("s", shown, limit) != public_name("s", item, limit)


@STEADY
@given(st.lists(NEAR_NAME, unique_by=server_part, max_size=8), NEAR_NAME)
def test_the_candidates_for_a_name_are_its_server_alone(servers: list[str], item: str) -> None:
    for server in servers:
        assert candidates(public_name(server, item), servers) == [server]


def test_candidates_of_names_of_nobody() -> None:
    servers = ["git", "git-hub", "github"]

    assert candidates("github__x", servers) == ["github"]
    assert candidates("github_x", servers) == []
    assert candidates("hub__x", servers) == []
    assert candidates("", servers) == []


# The table.

KINDS = st.sampled_from(["tools", "prompts"])
TABLE = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", "a b"]), KINDS), st.lists(NEAR_NAME, max_size=8), max_size=6
)


def named(server: str, items: list[str]) -> list[tuple[str, str]]:
    return [(public_name(server, item), item) for item in items]


@STEADY
@given(TABLE, st.lists(NEAR_NAME, max_size=8), KINDS)
def test_the_table_finds_each_owner_and_forgets_what_was_replaced(table, before: list[str], kind) -> None:
    names = NameTable()
    for server in ("a", "b", "a b"):
        assert names.replace(server, kind, named(server, before)) == []
    for server in ("a", "b", "a b"):
        names.replace(server, kind, [])
    for (server, each), items in table.items():
        assert names.replace(server, each, named(server, items)) == []

    for (server, each), items in table.items():
        for item in items:
            assert names.find(each, public_name(server, item)) == Owner(server, item)
            assert names.is_shown(each, public_name(server, item), Owner(server, item))
    for item in before:
        if item not in table.get(("a", kind), []):
            assert names.find(kind, public_name("a", item)) is None


def test_a_server_that_is_added_renames_nothing() -> None:
    names = NameTable()
    names.replace("a", "tools", named("a", ["search", "x.y"]))
    before = {item: public_name("a", item) for item in ("search", "x.y")}
    names.replace("b", "tools", named("b", ["search", "x.y"]))

    assert [names.find("tools", public) for public in before.values()] == [Owner("a", "search"), Owner("a", "x.y")]


def test_tools_and_prompts_are_two_tables() -> None:
    names = NameTable()
    names.replace("a", "tools", [("a__x", "x")])

    assert names.find("tools", "a__x") == Owner("a", "x")
    assert names.find("prompts", "a__x") is None


@pytest.mark.parametrize("items", [["one", "two", "six", "ten"], ["ten", "six", "two", "one", "two"]])
def test_of_the_items_of_one_server_with_one_public_name_the_smallest_is_kept(items: list[str]) -> None:
    names = NameTable()
    [clash] = names.replace("a", "tools", [("a__same", item) for item in items])

    assert clash == ("tools", "a__same", Owner("a", "one"), tuple(Owner("a", own) for own in ("six", "ten", "two")))
    assert str(clash) == (
        "'a' has several tools that would be named 'a__same': 'one' is shown, 'six', 'ten', 'two' not"
    )
    assert names.find("tools", "a__same") == Owner("a", "one")
    assert names.is_shown("tools", "a__same", Owner("a", "one"))
    assert not names.is_shown("tools", "a__same", Owner("a", "two"))


def test_an_item_listed_twice_counts_once() -> None:
    assert NameTable().replace("a", "tools", [("a__x", "x"), ("a__x", "x")]) == []


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_name_that_two_servers_offer_is_an_error_that_names_both(order: tuple[str, str]) -> None:
    """As two servers in pass-through may, whoever came first."""
    names = NameTable()
    assert names.replace(order[0], "tools", [("search", "search")]) == []
    [clash] = names.replace(order[1], "tools", [("search", "search")])

    assert clash == ("tools", "search", None, (Owner("a", "search"), Owner("b", "search")))
    assert not names.is_shown("tools", "search", Owner("a", "search"))
    with pytest.raises(NameClash) as caught:
        names.find("tools", "search")
    assert caught.value.server == "a, b"
    assert caught.value.reason == "'a' and 'b' each offer a tool named 'search', so neither is shown."

    names.replace("b", "tools", [])
    assert names.find("tools", "search") == Owner("a", "search")
    assert names.is_shown("tools", "search", Owner("a", "search"))


def test_the_hash_is_as_long_as_the_module_says() -> None:
    assert HASH_DIGITS == 10
    assert MIN_LIMIT == 44
