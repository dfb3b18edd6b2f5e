"""Carrying: the identity where nothing differs, and no more than the rows name where something does."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.spec.carry import carry, carry_params, carry_question, carry_result, stamp_modern
from mcpx.spec.edits import CannotSay
from mcpx.spec.methods import METHODS
from mcpx.spec.plans import plan_of
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LEGACY,
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
from mcpx.spec.tables import RECORDS, UNIONS
from mcpx.wire.frames import members

PAIRS = list(itertools.product(REVISIONS, REVISIONS))


def text(raw: Raw) -> str:
    return bytes(raw).decode()


def said(raw: Raw) -> Any:
    return msgspec.json.decode(raw)


# A result in which nothing is unknown to anyone, spelled as no encoder would.
AWKWARD = Raw(
    b'{ "vendor" :{"n": 1.0, "title":"mine"},\n "isError":false, "content" : [ {"type":"text", "text" : "a\\u00e9 '
    b'\\"title\\": \\u003c", "_meta" :{"big":12345678901234567890} } ] , "_meta":{} }'
)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_very_same_object_where_nothing_differs(source: str, target: str) -> None:
    assert carry_result("tools/call", AWKWARD, source, target) is AWKWARD
    params = members(b'{"name":"x","arguments":{"title":1.0,"requestState":2},"vendor":{}}')
    assert carry_params("tools/call", params, source, target) is params


@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_is_decoded_where_no_mark_is_in_the_bytes(revision: str) -> None:
    broken = Raw(b'{"content":[{"type":"text","text":"x"}')  # decoding would find out
    assert carry_result("tools/call", broken, revision, revision) is broken
    marked = Raw(b'{"content":[{"type":"audio","structuredContent":1,"resultType":"complete"}')
    assert carry_result("tools/call", marked, revision, revision) is marked  # and what is malformed stays as it is


def test_what_a_peer_wrote_ahead_of_its_own_revision_is_left_out() -> None:
    tool = Raw(b'{"name":"x","title":"X","inputSchema":{"type":"object"}}')
    assert said(carry("Tool", tool, V2025_03_26, V2025_03_26)) == {"name": "x", "inputSchema": {"type": "object"}}


def test_key_order_number_spelling_and_foreign_fields_survive_an_edit() -> None:
    tool = Raw(
        b'{"z":1.0, "title":"T","name":"x" ,"inputSchema":{ "type":"object", "maximum": 1.50 },'
        b'"annotations":{"title":"A","own":[1E5]},"a":12345678901234567890}'
    )
    assert text(carry("Tool", tool, LATEST_LEGACY, V2025_03_26)) == (
        '{"z":1.0,"name":"x","inputSchema":{ "type":"object", "maximum": 1.50 },'
        '"annotations":{"title":"A","own":[1E5]},"a":12345678901234567890}'
    )


@pytest.mark.parametrize(
    "key",
    [rb"\u0074itle", rb"titl\u0065", rb"\u0054itle", rb"t\u0069tle", rb"\u0074\u0069\u0074\u006C\u0065"],
)
def test_a_key_that_is_spelled_with_escapes_is_the_same_key(key: bytes) -> None:
    tool = Raw(b'{"name":"x","inputSchema":{"type":"object"},"' + key + b'":"T"}')
    carried = said(carry("Tool", tool, V2025_06_18, V2024_11_05))
    assert ("title" in carried) is False
    assert ("Title" in carried) is (b"0054" in key)  # another key, which no revision has


def test_reserved_keys_are_found_however_their_slash_and_dots_are_spelled() -> None:
    for spelled in (
        b"io.modelcontextprotocol/serverInfo",
        rb"io.modelcontextprotocol\/serverInfo",
        rb"io\u002emodelcontextprotocol\u002FserverInfo",
        rb"io\u002Emodelcontextprotocol/serverInfo",
    ):
        result = Raw(b'{"content":[],"_meta":{"own":1,"' + spelled + b'":{"name":"x","version":"1"}}}')
        assert said(carry_result("tools/call", result, V2026_07_28, LATEST_LEGACY)) == {
            "content": [],
            "_meta": {"own": 1},
        }


USER_DATA = {"title": "t", "icons": [], "execution": {}, "structuredContent": 1, "resultType": "x", "lastModified": "m"}


@pytest.mark.parametrize("target", REVISIONS)
def test_what_merely_looks_like_the_protocol_stays(target: str) -> None:
    schema = {"type": "object", "properties": {"title": {"title": "t", "icons": []}}, **USER_DATA}
    tool = {"name": "x", "inputSchema": schema, "_meta": USER_DATA, "vendor": USER_DATA}
    assert said(carry("Tool", Raw(msgspec.json.encode(tool)), V2026_07_28, target)) == tool
    block = {"type": "text", "text": msgspec.json.encode(USER_DATA).decode(), "_meta": USER_DATA}
    result = {"content": [block], "_meta": USER_DATA, "vendor": USER_DATA}
    assert said(carry_result("tools/call", Raw(msgspec.json.encode(result)), V2026_07_28, target)) == result
    params = {"name": "x", "arguments": USER_DATA, "vendor": USER_DATA}
    carried = carry_params("tools/call", members(msgspec.json.encode(params)), V2026_07_28, target)
    assert {key: said(value) for key, value in carried.items()} == params


def test_structured_content_stays_as_it_is_where_it_may_be() -> None:
    result = Raw(b'{"content":[],"structuredContent": {"title":1.0,"type":"audio"},"resultType":"complete"}')
    carried = carry_result("tools/call", result, V2026_07_28, V2025_06_18)
    assert text(carried) == '{"content":[],"structuredContent":{"title":1.0,"type":"audio"}}'


MALFORMED = ["null", "5", '"x"', "[]", "{}", "[5]", "[null]", "[[]]", '{"type":5}', '[{"type":null,"title":1}]']


@pytest.mark.parametrize("name", sorted({*RECORDS, *UNIONS}))
def test_nothing_malformed_makes_it_fail(name: str) -> None:
    """Each property of each type, and the type itself, with values of the wrong kinds."""
    marks = ',"title":1,"resultType":"x","structuredContent":[],"icons":5,"outputSchema":[],"tools":3,"url":1'
    for target, value in itertools.product(REVISIONS, MALFORMED):
        plan = plan_of(name, target)
        plan.raw(Raw(value.encode()))
        for field in RECORDS[name].fields if name in RECORDS else ("type", "text", "mode", "oneOf", "items"):
            raw = Raw(f'{{"{field}":{value}{marks}}}'.encode())
            try:
                carried = plan.raw(raw)
            except CannotSay:  # a refusal is an answer
                continue
            assert isinstance(said(carried), dict)


def test_a_value_nested_too_deeply_stays_as_it_is() -> None:
    deep = Raw(b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b',"resultType":"complete"}')
    assert carry_result("tools/call", deep, V2026_07_28, LATEST_LEGACY) is deep


def test_methods_of_no_revision_are_left_alone() -> None:
    payload = Raw(b'{"title":1,"resultType":"complete"}')
    assert carry_result("vendor/thing", payload, V2026_07_28, V2024_11_05) is payload
    assert carry_result("notifications/message", payload, V2026_07_28, V2024_11_05) is payload
    params = {"task": payload}
    assert carry_params("vendor/thing", params, V2026_07_28, V2024_11_05) is params


@pytest.mark.parametrize(
    ("method", "params", "target", "left"),
    [
        ("tools/call", '{"name":"x","requestState":"s","inputResponses":{}}', LATEST_LEGACY, '{"name":"x"}'),
        ("tools/call", '{"name":"x","task":{"ttl":1}}', V2025_11_25, '{"name":"x"}'),
        ("tools/call", '{"name":"x","task":{"ttl":1}}', V2026_07_28, '{"name":"x"}'),
        (
            "completion/complete",
            '{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":"v"},"context":{}}',
            V2025_03_26,
            '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}',
        ),
        (
            "notifications/progress",
            '{"progressToken":1,"progress":1.0,"message":"m"}',
            V2024_11_05,
            '{"progressToken":1,"progress":1.0}',
        ),
        (
            "elicitation/create",
            '{"mode":null,"message":"m","requestedSchema":null,"other":null}',
            V2026_07_28,
            '{"message":"m","other":null}',
        ),
        (
            "elicitation/create",
            '{"mode":"url","message":"m","url":"u:","requestedSchema":null}',
            V2026_07_28,
            '{"mode":"url","message":"m","url":"u:"}',
        ),
        (
            "sampling/createMessage",
            '{"messages":[],"maxTokens":5,"tools":null}',
            V2025_06_18,
            '{"messages":[],"maxTokens":5}',
        ),
        ("roots/list", '{"_meta":null}', V2025_06_18, "{}"),
    ],
)
def test_params(method: str, params: str, target: str, left: str) -> None:
    carried = carry_params(method, members(params.encode()), V2025_11_25, target)
    assert msgspec.json.encode(carried).decode() == left


def test_results_lose_upwards_what_newer_revisions_removed() -> None:
    tools = Raw(b'{"tools":[{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}')
    assert text(carry_result("tools/list", tools, V2025_11_25, V2026_07_28)) == (
        '{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}'
    )


def test_a_legacy_server_cannot_make_a_modern_host_believe_in_a_result_type() -> None:
    forged = Raw(b'{"content":[],"resultType":"input_required"}')
    for source in LEGACY:
        assert text(carry_result("tools/call", forged, source, V2026_07_28)) == '{"content":[]}'
    assert carry_result("tools/call", forged, V2026_07_28, V2026_07_28) is forged


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
@pytest.mark.parametrize("target", LEGACY)
def test_a_result_that_asks_is_not_carried_to_a_legacy_host(method: str, target: str) -> None:
    with pytest.raises(CannotSay, match="asks for input"):
        carry_result(method, Raw(b'{"resultType":"input_required","requestState":"s"}'), V2026_07_28, target)


# -- what a modern result has besides


WHO = Raw(b'{"name":"mcpx","version":"1"}')


def stamped(method: str, payload: bytes, who: Raw | None = WHO) -> str:
    return text(stamp_modern(method, Raw(payload), who, 60_000, "private"))


def test_stamps_come_last_and_keep_what_is_there() -> None:
    assert stamped("tools/call", b'{"z":1.0, "content":[ ]}') == (
        '{"z":1.0,"content":[ ],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcpx","version":"1"}},'
        '"resultType":"complete"}'
    )


def test_only_results_that_may_be_cached_say_for_how_long() -> None:
    cached = {name for name in METHODS if '"ttlMs":60000,"cacheScope":"private"' in stamped(name, b"{}", None)}
    assert cached == {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
    assert stamped("resources/read", b'{"resultType":"input_required"}', None) == '{"resultType":"input_required"}'
    assert stamped("vendor/thing", b"{}", None) == '{"resultType":"complete"}'


def test_what_the_upstream_said_of_caching_and_type_stands() -> None:
    given = b'{"contents":[],"cacheScope":"public","ttlMs":5,"resultType":"complete"}'
    raw = Raw(given)
    assert stamp_modern("resources/read", raw, None, 60_000, "private") is raw


def test_the_identity_replaces_the_upstreams_in_its_place() -> None:
    given = b'{"_meta":{"a":1.0,"io.modelcontextprotocol/serverInfo":{"name":"up"},"b":2},"resultType":"complete"}'
    assert stamped("ping", given) == (
        '{"_meta":{"a":1.0,"io.modelcontextprotocol/serverInfo":{"name":"mcpx","version":"1"},"b":2},'
        '"resultType":"complete"}'
    )
    assert stamped("ping", given, None) == given.decode()
    assert '"_meta":{"io.modelcontextprotocol/serverInfo"' in stamped("ping", b'{"_meta":null}')


def test_what_is_no_object_is_not_stamped() -> None:
    assert stamped("tools/call", b"[1]") == "[1]"


def test_a_question_of_an_unknown_method_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        carry_question("vendor/ask", {}, V2025_11_25, V2025_11_25)
