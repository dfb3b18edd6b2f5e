"""Lists: their parts each carried from its own revision, their cursors, and what is kept of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

import mcpx.host.lists as lists
from mcpx.errors import RpcError
from mcpx.gateway.gateway import Page, Part
from mcpx.host.lists import EACH, Renderer
from mcpx.spec.carry import CannotSay
from mcpx.spec.meta import SERVER_INFO
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2024_11_05, V2025_06_18, V2025_11_25
from tests.unit.host.talk import FakeGateway, open_talk, raw

TOOL = {"name": "one__t", "title": "T", "inputSchema": {"type": "object", "title": "kept"}, "own": 1.0}
METHODS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
}


def page(*parts: Part) -> Page:
    return Page(list(parts), None, 0, "private")


@pytest.mark.parametrize("method", METHODS)
async def test_each_list_is_one_of_the_gateways(method: str) -> None:
    kind, member = METHODS[method]
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await talk.ask(1, method)
        assert (await talk.hear())["result"] == {member: []}
        await talk.ask(2, method, {"cursor": ""}, revision=LATEST_MODERN)
        result = (await talk.hear())["result"]
        assert result[member] == []
        assert [(kind, cursor) for kind, _, cursor in gateway.listed] == [(kind, None), (kind, "")]


@pytest.mark.parametrize("revision", [*LEGACY, LATEST_MODERN])
async def test_items_of_several_revisions_become_the_hosts_own(revision: str) -> None:
    gateway = FakeGateway()
    gateway.parts = [
        Part("one", LATEST_MODERN, [raw(TOOL), raw({"name": "u", "inputSchema": {"type": "object"}})]),
        Part("none", V2025_06_18, []),
        Part("two", V2024_11_05, [raw({"name": "old", "inputSchema": {"type": "object"}})]),
    ]
    gateway.next_cursor = "next"
    async with open_talk(gateway) as talk:
        modern = revision == LATEST_MODERN
        if not modern:
            await talk.shake(revision)
        await talk.ask(1, "tools/list", revision=revision)
        result = (await talk.hear())["result"]
        assert [tool["name"] for tool in result["tools"]] == ["one__t", "u", "old"]
        first = result["tools"][0]
        assert ("title" in first) == (revision in (V2025_06_18, V2025_11_25, LATEST_MODERN))
        assert (first["own"], first["inputSchema"]["title"]) == (1.0, "kept")
        assert result["nextCursor"] == "next"
        if modern:
            assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 1500, "public")
            assert result["_meta"][SERVER_INFO]["name"] == "mcpx"
        else:
            assert result.keys() == {"tools", "nextCursor"}


@pytest.mark.parametrize("cursor", [1, 1.5, True, {}, ["a"]])
async def test_a_cursor_that_is_no_string_is_refused(cursor: Any) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.ask(1, "tools/list", {"cursor": cursor})
        assert (await talk.hear())["error"]["code"] == -32602
        assert gateway.listed == []


async def test_a_null_cursor_is_how_some_hosts_begin() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.ask(1, "tools/list", {"cursor": None})
        assert "result" in await talk.hear()
        assert gateway.listed[0][2] is None


async def test_a_cursor_that_mcpx_never_gave_out_is_the_gateways_error() -> None:
    gateway = FakeGateway()

    async def refuse(kind: str, asker: Any, cursor: str | None) -> Page:
        raise RpcError(-32602, f"Invalid cursor: {cursor}")

    gateway.list = refuse  # type: ignore[method-assign]
    async with open_talk(gateway) as talk:
        await talk.ask(1, "tools/list", {"cursor": "x"})
        assert (await talk.hear())["error"] == {"code": -32602, "message": "Invalid cursor: x"}


def test_the_same_items_are_carried_once_for_each_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[str] = []

    def carry(type_name: str, payload: Raw, source: str, target: str) -> Raw:
        carried.append(target)
        return Raw(bytes(payload).replace(b"x", target.encode()))

    monkeypatch.setattr(lists, "carry", carry)
    renderer = Renderer()
    items = [Raw(b'"x1"'), Raw(b'"x2"')]
    for _ in range(3):
        assert renderer.render(page(Part("one", V2025_06_18, list(items))), "Tool", "new") == Raw(b'["new1","new2"]')
    assert carried == ["new", "new"]
    assert renderer.render(page(Part("one", V2025_06_18, items)), "Tool", "old") == Raw(b'["old1","old2"]')
    assert renderer.render(page(Part("one", V2025_06_18, items[:1])), "Tool", "new") == Raw(b'["new1"]')
    fetched_anew = [Raw(b'"x1"'), Raw(b'"x3"')]
    assert renderer.render(page(Part("one", V2025_06_18, fetched_anew)), "Tool", "new") == Raw(b'["new1","new3"]')
    assert len(carried) == 7


def test_what_is_kept_is_bounded_and_the_least_recently_used_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[Raw] = []

    def carry(type_name: str, payload: Raw, source: str, target: str) -> Raw:
        carried.append(payload)
        return payload

    monkeypatch.setattr(lists, "carry", carry)
    one, two, three, huge = ([Raw(b"1" * size)] for size in (10, 10, 10, 500))
    renderer = Renderer(kept=2 * (EACH + 2 * 10))  # each as it was listed, and as it is said

    def render(items: list[Raw]) -> int:
        before = len(carried)
        renderer.render(page(Part("s", V2025_06_18, items)), "Tool", LATEST_LEGACY)
        return len(carried) - before

    assert [render(items) for items in (one, two, one, three, one, two)] == [1, 1, 0, 1, 0, 1]
    assert [render(items) for items in (huge, huge)] == [1, 1]


def test_an_item_that_cannot_be_said_costs_the_list_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def carry(type_name: str, payload: Raw, source: str, target: str) -> Raw:
        if payload == Raw(b"2"):
            raise CannotSay("no way")
        return payload

    monkeypatch.setattr(lists, "carry", carry)
    items = [Raw(b"1"), Raw(b"2"), Raw(b"3")]
    assert Renderer().render(page(Part("s", V2025_06_18, items)), "Tool", V2024_11_05) == Raw(b"[1,3]")
    assert Renderer().render(page(Part("s", V2025_06_18, items[1:2])), "Tool", V2024_11_05) == Raw(b"[]")
