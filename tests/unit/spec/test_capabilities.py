"""What each side declares, cut to a revision and to what mcpx relays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.spec.capabilities import (
    RELAYS,
    can_ask,
    narrow_client,
    narrow_implementation,
    narrow_server,
    told,
)
from mcpx.spec.revisions import (
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
from mcpx.spec.tables import RECORDS
from mcpx.wire.frames import members, to_raw

TASKS = "io.modelcontextprotocol/tasks"
UI = "io.modelcontextprotocol/ui"

HOST: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}},
    "extensions": {UI: {"mimeTypes": ["text/html"]}, TASKS: {}},
    "experimental": {"x": {"n": 1.0}},
    "vendor": {"title": "mine"},
}


def plain(caps: dict[str, Raw]) -> Any:
    return {key: msgspec.json.decode(raw) for key, raw in caps.items()}


def host(revision: str, **changed: Any) -> Any:
    return plain(narrow_client(members(to_raw({**HOST, **changed})), revision))


def test_a_hosts_capabilities_by_revision() -> None:
    oldest = {"roots": {"listChanged": True}, "sampling": {}, "experimental": {"x": {"n": 1.0}}}
    oldest["vendor"] = HOST["vendor"]
    assert host(V2024_11_05) == host(V2025_03_26) == oldest
    assert host(V2025_06_18) == {**oldest, "elicitation": {}}
    newer = {"sampling": HOST["sampling"], "elicitation": HOST["elicitation"]}
    assert host(V2025_11_25) == {**oldest, **newer}
    assert host(V2026_07_28) == {**oldest, **newer, "roots": {}, "extensions": {UI: {"mimeTypes": ["text/html"]}}}


def test_a_host_that_shows_urls_alone_has_no_elicitation_where_there_are_only_forms() -> None:
    assert "elicitation" not in host(V2025_06_18, elicitation={"url": {}})
    assert host(V2025_06_18, elicitation={"form": {}})["elicitation"] == {}
    assert host(V2025_06_18, elicitation={})["elicitation"] == {}  # which means forms
    assert host(V2025_11_25, elicitation={"url": {}})["elicitation"] == {"url": {}}


def test_a_servers_capabilities_by_revision() -> None:
    declared: dict[str, Any] = {
        "logging": {},
        "completions": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True, "own": 1},
        "tools": {"listChanged": True},
        "tasks": {"requests": {"tools": {"call": {}}}},
        "extensions": {TASKS: {}},
        "experimental": {},
    }

    def server(revision: str) -> Any:
        return plain(narrow_server(members(to_raw(declared)), revision))

    everywhere = {name: declared[name] for name in ("logging", "prompts", "resources", "tools", "experimental")}
    assert server(V2024_11_05) == everywhere
    for revision in REVISIONS[1:]:
        assert server(revision) == {**everywhere, "completions": {}}


def test_narrowing_gives_a_new_mapping_and_keeps_order_and_spelling() -> None:
    caps = members(b'{"vendor":{"n":1.0},"roots":{ "listChanged":true }}')
    narrowed = narrow_client(caps, V2025_11_25)
    assert narrowed == caps
    assert narrowed is not caps
    assert msgspec.json.encode(narrowed) == b'{"vendor":{"n":1.0},"roots":{ "listChanged":true }}'


# -- what mcpx relays


ASKABLE = {name: HOST[name] for name in ("roots", "sampling", "elicitation")}


def test_upstreams_are_told_of_what_lets_them_ask_and_of_extensions() -> None:
    assert plain(told(members(to_raw(HOST)))) == {**ASKABLE, "extensions": {UI: {"mimeTypes": ["text/html"]}}}
    assert told(members(to_raw({"extensions": {TASKS: {}}}))) == {}
    assert told({}) == {}


def test_in_pass_through_what_no_revision_defines_is_relayed_too() -> None:
    assert plain(told(members(to_raw(HOST)), passthrough=True)) == {
        **ASKABLE,
        "extensions": {UI: {"mimeTypes": ["text/html"]}},
        "experimental": {"x": {"n": 1.0}},
        "vendor": {"title": "mine"},
    }


@pytest.mark.parametrize("value", [None, 5, "x", [1], True])
def test_a_capability_that_is_no_object_is_told_to_nobody(value: Any) -> None:
    caps = members(to_raw({"extensions": value, "experimental": value, "vendor": value}))
    assert told(caps, passthrough=True) == {}


def test_every_capability_of_a_host_is_in_the_table_of_what_is_relayed() -> None:
    assert {relay.name for relay in RELAYS} == set(RECORDS["ClientCapabilities"].fields)


def test_who_can_be_asked() -> None:
    asking = {relay.name for relay in RELAYS if relay.asks}
    assert asking == {"elicitation", "sampling", "roots"}
    for name in asking:
        assert can_ask({name: Raw(b"{}")})
    assert not can_ask({"extensions": Raw(b"{}"), "experimental": Raw(b"{}")})
    assert can_ask(told(members(to_raw(HOST))))


# -- identity


WHO: dict[str, Any] = {
    "name": "n",
    "title": "N",
    "version": "1",
    "description": "d",
    "websiteUrl": "https://example.com",
    "icons": [{"src": "https://example.com/i.png"}],
    "own": {"title": 1},
}


@pytest.mark.parametrize(
    ("revision", "fields"),
    [
        (V2024_11_05, {"name", "version", "own"}),
        (V2025_03_26, {"name", "version", "own"}),
        (V2025_06_18, {"name", "version", "own", "title"}),
        (V2025_11_25, set(WHO)),
        (V2026_07_28, set(WHO)),
    ],
)
def test_lv_15_to_18_an_identity_by_revision(revision: str, fields: set[str]) -> None:
    narrowed = msgspec.json.decode(narrow_implementation(to_raw(WHO), revision))
    assert narrowed == {key: value for key, value in WHO.items() if key in fields}


def test_an_identity_in_which_nothing_is_unknown_is_the_very_same() -> None:
    plainly = Raw(b'{ "name":"n", "version":"1", "icons":[{"src":"HTTPS://example.com/i.png"},{"src":"data:,"}] }')
    assert narrow_implementation(plainly, V2025_11_25) is plainly


@pytest.mark.parametrize("source", ["javascript:alert(1)", "file:///etc/passwd", "http://a/i.png", "ftp://a/b", ""])
def test_icons_from_elsewhere_are_left_out(source: str) -> None:
    kept = {"src": "data:image/png;base64,AA=="}
    icons = [{"src": source}, kept, {"sizes": ["any"]}, 5]
    narrowed = msgspec.json.decode(narrow_implementation(to_raw({**WHO, "icons": icons}), V2025_11_25))
    assert narrowed == {**WHO, "icons": [kept]}
    bare = narrow_implementation(to_raw({**WHO, "icons": [{"src": source}]}), V2026_07_28)
    assert "icons" not in msgspec.json.decode(bare)
