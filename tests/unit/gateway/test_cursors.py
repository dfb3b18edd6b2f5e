"""Cursors: opaque, checked, and good while lists change under them."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.errors import RpcError
from mcpx.gateway.cursors import MAX_CURSOR, REMEMBERED, Cursor, Key, decode, encode, page

STEADY = settings(deadline=None)  # a shared machine may be slow at any moment

SERVERS = ["a", "b", "c"]


def keys(*names: str) -> list[Key]:
    return [(name[0], name) for name in names]


def walk(pages: list[list[Key]], size: int, servers: list[str] = SERVERS) -> list[Key]:
    """What a host sees that asks page after page while the list changes: the list at its first, second, ... request."""
    seen: list[Key] = []
    cursor = None
    for index in range(10_000):
        items = pages[min(index, len(pages) - 1)]
        found = page("tools", items, servers, cursor, size)
        seen += items[found.start : found.stop]
        cursor = found.next_cursor
        if cursor is None:
            return seen
    raise AssertionError("a walk that never ends")


@STEADY
@given(st.lists(st.tuples(st.sampled_from(SERVERS), st.text(max_size=5)), unique=True), st.integers(1, 7))
def test_a_list_that_stays_is_given_once_and_whole(items: list[Key], size: int) -> None:
    items.sort(key=lambda key: SERVERS.index(key[0]))

    assert walk([items], size) == items


@st.composite
def changing_lists(draw: st.DrawFn) -> list[list[Key]]:
    """Versions of a list, each a part of one order, with some items that are always there."""
    size = draw(st.integers(1, 40))
    order = sorted(draw(st.lists(st.tuples(st.sampled_from(SERVERS), st.integers(0, 99)), min_size=size, unique=True)))
    whole = [(server, str(number)) for server, number in order]
    versions = draw(st.lists(st.sets(st.sampled_from(whole)), min_size=1, max_size=8))
    stays = draw(st.sets(st.sampled_from(whole)))
    return [[key for key in whole if key in version or key in stays] for version in versions]


@STEADY
@given(changing_lists(), st.integers(1, 4))
def test_no_item_that_stays_is_left_out_or_given_twice_while_a_remembered_one_is_left(
    versions: list[list[Key]], size: int
) -> None:
    stays = [key for key in versions[0] if all(key in version for version in versions)]
    seen: list[Key] = []
    remembered: list[Key] = []
    cursor = None
    for index in range(200):
        items = versions[min(index, len(versions) - 1)]
        if cursor is not None and not set(remembered) & set(items):
            return
        found = page("tools", items, SERVERS, cursor, size)
        seen += items[found.start : found.stop]
        remembered = items[max(0, found.stop - REMEMBERED) : found.stop]
        cursor = found.next_cursor
        if cursor is None:
            break

    assert cursor is None
    assert [key for key in seen if key in stays] == stays


@STEADY
@given(changing_lists(), st.integers(1, 4))
def test_a_walk_ends_however_a_list_changes(versions: list[list[Key]], size: int) -> None:
    seen = walk(versions, size)

    assert set(seen) <= {key for version in versions for key in version}


@pytest.mark.parametrize(
    ("before", "after", "rest"),
    [
        ("a1 a2 a3 a4", "a1 a2 a3 a4", "a3 a4"),
        ("a1 a2 a3 a4", "a0 a1 a2 a3 a4", "a3 a4"),  # one more before the place
        ("a1 a2 a3 a4", "a1 a2 a2b a3 a4", "a2b a3 a4"),  # one more at the place
        ("a1 a2 a3 a4", "a2 a3 a4", "a3 a4"),  # one less before the place
        ("a1 a2 a3 a4", "a1 a3 a4", "a3 a4"),  # the last given one is gone
        ("a1 a2 a3 a4", "a0 a1 a3 a4", "a3 a4"),  # and one more before it
        ("a1 a2 a3 a4", "a1 a2 a4", "a4"),
        ("a1 a2 a3 a4", "a1", ""),
        ("a1 b1 b2 c1", "a1 b2 c1", "b2 c1"),
        ("a1 b1 b2 c1", "a1 c1", "c1"),  # a whole server is gone
        ("a1 b1 b2 c1", "b1 b2 c1", "b2 c1"),
        ("b1 b2 b3 c1", "a1 a2 c1", "c1"),  # all that was given is gone: on after the servers before it
        ("b1 b2 b3 b4", "a1 a2 a3 b3 b4 c1", "c1"),  # at its place within its server
        ("b1 b2 b3 b4", "", ""),
    ],
)
def test_where_a_list_goes_on(before: str, after: str, rest: str) -> None:
    first = page("tools", keys(*before.split()), SERVERS, None, 2)
    items = keys(*after.split())
    found = page("tools", items, SERVERS, first.next_cursor, 100)

    assert items[found.start : found.stop] == keys(*rest.split())
    assert found.next_cursor is None


def test_the_last_page_has_no_cursor_even_when_it_is_full() -> None:
    items = keys("a1", "a2", "a3", "a4")
    first = page("tools", items, SERVERS, None, 2)

    assert page("tools", items, SERVERS, first.next_cursor, 2) == (2, 4, None)


def test_an_empty_list_is_one_empty_page() -> None:
    assert page("tools", [], SERVERS, None, 2) == (0, 0, None)


def test_a_cursor_outlives_the_removal_of_its_server_from_the_configuration_if_others_remain() -> None:
    first = page("tools", keys("a1", "b1", "c1"), SERVERS, None, 2)

    assert page("tools", keys("a1", "c1"), ["a", "c"], first.next_cursor, 2) == (1, 2, None)
    with pytest.raises(RpcError):
        page("tools", keys("c1"), ["c"], first.next_cursor, 2)


def test_a_cursor_stays_short_whatever_the_names_are() -> None:
    items = [("s" * 5000, f"data:{'x' * 100_000}{index}") for index in range(20)]
    cursor = page("resources", items, ["s" * 5000], None, 10).next_cursor

    assert cursor is not None
    assert len(cursor) < 400
    assert page("resources", items, ["s" * 5000], cursor, 10) == (10, 20, None)


def test_a_cursor_is_base64url_json() -> None:
    cursor = page("tools", keys("a1", "a2", "a3"), SERVERS, None, 2).next_cursor

    assert cursor is not None
    assert json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[:3] == ["tools", "a", 2]


MARK = "A" * 12
GOOD = Cursor("tools", "a", 1, (MARK,))


def test_a_cursor_reads_back() -> None:
    assert decode(encode(GOOD), "tools") == GOOD


def as_cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "A",
        "eyJwYWdlIjogM30=",
        "🙂",
        "\udc80",
        encode(GOOD) + "=",
        encode(GOOD) + "\n",
        " " + encode(GOOD),
        encode(GOOD)[:-1],
        encode(GOOD).swapcase(),
        as_cursor(["prompts", "a", 1, [MARK]]),
        as_cursor(["nonsense", "a", 1, [MARK]]),
        as_cursor(["tools", "a", 0, [MARK]]),
        as_cursor(["tools", "a", -1, [MARK]]),
        as_cursor(["tools", "a", 1.0, [MARK]]),
        as_cursor(["tools", "a", True, [MARK]]),
        as_cursor(["tools", "a", "1", [MARK]]),
        as_cursor(["tools", "a", 1, []]),
        as_cursor(["tools", "a", 1, ["short"]]),
        as_cursor(["tools", "a", 1, [MARK] * (REMEMBERED + 1)]),
        as_cursor(["tools", "a", 1, [MARK], "more"]),
        as_cursor(["tools", "a", 1]),
        as_cursor({"kind": "tools"}),
        as_cursor(None),
        base64.urlsafe_b64encode(b'["tools", "a", 1, ["AAAAAAAAAAAA"]]').rstrip(b"=").decode(),
        base64.urlsafe_b64encode(b"[" * 3000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        as_cursor(["tools", "a" * MAX_CURSOR, 1, [MARK]]),
    ],
)
def test_anything_else_is_no_cursor(text: str) -> None:
    with pytest.raises(RpcError) as caught:
        page("tools", keys("a1"), SERVERS, text, 10)
    assert caught.value.code == -32602
    assert caught.value.revision is None


@STEADY
@given(st.text(max_size=60))
def test_whatever_a_host_makes_up_is_refused_in_order(text: str) -> None:
    with pytest.raises(RpcError):
        decode(text, "tools")


def test_a_page_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one"):
        page("tools", keys("a1"), SERVERS, None, 0)
