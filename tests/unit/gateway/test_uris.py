"""Public URIs and the way back, and the shallow edits of what upstreams send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcpx.gateway.uris import own_name, public_item, public_uri, rewrite_result_uris, split_uri
from mcpx.names import public_name, server_part

STEADY = settings(deadline=None)  # a shared machine may be slow at any moment


@pytest.mark.parametrize(
    ("server", "uri", "public"),
    [
        ("files", "file:///a b", "mcpx://files/file:///a b"),
        ("files", "file:///{+path}{?q}", "mcpx://files/file:///{+path}{?q}"),
        ("files", "mcpx://inner/x", "mcpx://files/mcpx://inner/x"),
        ("files", "relative", "mcpx://files/relative"),
        ("apps", "ui://clock/main", "ui://clock/main"),
        ("apps", "UI://clock/main", "UI://clock/main"),
        ("apps", "uix://clock", "mcpx://apps/uix://clock"),
    ],
)
def test_a_public_uri_is_the_prefix_and_the_uri_as_it_is(server: str, uri: str, public: str) -> None:
    assert public_uri(server, uri) == public


def test_the_prefix_holds_the_server_part() -> None:
    assert public_uri("my server", "x:y") == f"mcpx://{server_part('my server')}/x:y"


@STEADY
@given(st.lists(st.text(max_size=40), min_size=1, max_size=5, unique_by=server_part), st.text(max_size=40), st.data())
def test_the_way_back_is_stripping_the_prefix(servers: list[str], uri: str, data: st.DataObject) -> None:
    server = data.draw(st.sampled_from(servers))
    uri = "x:" + uri

    assert split_uri(public_uri(server, uri), servers) == (server, uri)


@pytest.mark.parametrize("uri", ["file:///a", "mcpx://files", "mcpx://other/x", "MCPX://files/x", "", "ui://files/x"])
def test_other_uris_have_no_server(uri: str) -> None:
    assert split_uri(uri, ["files", "file"]) is None


# Items of lists.


def test_a_tool_gets_its_public_name_and_keeps_all_else() -> None:
    item = Raw(b'{ "x-big": 12345678901234567890, "name": "a.b", "title":"T", "inputSchema": {"a": 1.0,  "b":2} }')

    assert public_item("tools", item, "s") == (
        public_name("s", "a.b"),
        "a.b",
        Raw(
            b'{"x-big":12345678901234567890,"name":"' + public_name("s", "a.b").encode() + b'","title":"T",'
            b'"inputSchema":{"a": 1.0,  "b":2}}'
        ),
    )


@pytest.mark.parametrize(
    ("kind", "item", "public", "own", "edited"),
    [
        ("prompts", '{"name":"p"}', "s__p", "p", '{"name":"s__p"}'),
        ("tools", '{"n\\u0061me":"\\u0070"}', "s__p", "p", '{"name":"s__p"}'),
        (
            "resources",
            '{"uri":"file:///a","name":"a"}',
            "mcpx://s/file:///a",
            "file:///a",
            '{"uri":"mcpx://s/file:///a","name":"a"}',
        ),
        (
            "templates",
            '{"uriTemplate":"file:///{x}","name":"a","_meta":{"uri":"file:///m"}}',
            "mcpx://s/file:///{x}",
            "file:///{x}",
            '{"uriTemplate":"mcpx://s/file:///{x}","name":"a","_meta":{"uri":"file:///m"}}',
        ),
    ],
)
def test_each_kind_of_item(kind, item: str, public: str, own: str, edited: str) -> None:
    assert public_item(kind, Raw(item.encode()), "s") == (public, own, Raw(edited.encode()))
    assert own_name(kind, Raw(item.encode())) == own


def test_an_app_page_is_the_very_same_item() -> None:
    item = Raw(b'{"uri":"ui://clock","name":"clock"}')
    found = public_item("resources", item, "s")

    assert found is not None
    assert found[2] is item


def test_a_limit_is_passed_on() -> None:
    found = public_item("tools", Raw(b'{"name":"' + b"x" * 60 + b'"}'), "s", limit=50)

    assert found is not None
    assert found[0] == public_name("s", "x" * 60, 50)


@pytest.mark.parametrize(
    "item",
    ["null", "1", '"name"', "[]", "{}", '{"name":null}', '{"name":1}', '{"name":""}', '{"name":["a"]}', '{"Name":"a"}'],
)
def test_an_item_without_a_usable_name_is_none(item: str) -> None:
    assert public_item("tools", Raw(item.encode()), "s") is None
    assert own_name("tools", Raw(item.encode())) is None


# Results.


def rewritten(method: str, payload: str) -> str:
    return bytes(rewrite_result_uris(method, Raw(payload.encode()), "s")).decode()


@pytest.mark.parametrize(
    ("method", "payload", "expected"),
    [
        (
            "tools/call",
            '{"x":1.0,"content":[{"type":"text","text":"uri"},{"type":"resource_link","uri":"file:///a","name":"a",'
            '"size":12345678901234567890,"z":[ 1 ]}],"isError":false}',
            '{"x":1.0,"content":[{"type":"text","text":"uri"},'
            '{"type":"resource_link","uri":"mcpx://s/file:///a","name":"a",'
            '"size":12345678901234567890,"z":[ 1 ]}],"isError":false}',
        ),
        (
            "tools/call",
            '{"content":[{"resource":{"text":"t","uri":"file:///a"},"type":"resource"}]}',
            '{"content":[{"resource":{"text":"t","uri":"mcpx://s/file:///a"},"type":"resource"}]}',
        ),
        (
            "prompts/get",
            '{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b","blob":"AA=="}}},'
            '{"role":"user","content":{"type":"resource_link","uri":"a:c","name":"c"}},'
            '{"role":"user","content":{"type":"text","text":"x"}}]}',
            '{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"mcpx://s/a:b","blob":"AA=="}}},'
            '{"role":"user","content":{"type":"resource_link","uri":"mcpx://s/a:c","name":"c"}},'
            '{"role":"user","content":{"type":"text","text":"x"}}]}',
        ),
        (
            "resources/read",
            '{"contents":[{"uri":"a:b","text":"x"},{"uri":"a:c","blob":""}],"ttlMs":0}',
            '{"contents":[{"uri":"mcpx://s/a:b","text":"x"},{"uri":"mcpx://s/a:c","blob":""}],"ttlMs":0}',
        ),
    ],
)
def test_uris_in_results_get_the_prefix(method: str, payload: str, expected: str) -> None:
    assert rewritten(method, payload) == expected


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ('"uri" :  "a:b"', '"uri":"mcpx://s/a:b"'),
        ('"\\u0075ri":"a:b"', '"uri":"mcpx://s/a:b"'),
        ('"u\\u0072\\u0069":"a:b"', '"uri":"mcpx://s/a:b"'),
        ('\n"uri"\n:\n"a:b"\n', '"uri":"mcpx://s/a:b"'),
        ('"uri":"\\u0061:\\/b"', '"uri":"mcpx://s/\\u0061:\\/b"'),  # the spelling of the rest stays
        ('"uri":"a:é🙂"', '"uri":"mcpx://s/a:é🙂"'),
    ],
)
def test_a_uri_is_found_however_it_is_spelled(spelled: str, expected: str) -> None:
    assert rewritten("resources/read", '{"contents":[{' + spelled + "}]}") == '{"contents":[{' + expected + "}]}"


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        ("tools/call", '{"content":[{"type":"text","text":"hello"}]}'),
        ("tools/call", '{"content":[{"type":"text","text":"{\\"uri\\":\\"file:///a\\"}"}]}'),
        ("tools/call", '{"content":[],"structuredContent":{"uri":"file:///a"}}'),
        ("tools/call", '{"content":[],"_meta":{"ui":{"uri":"file:///a"},"uri":"file:///a"}}'),
        ("tools/call", '{"content":[{"type":"text","text":"x","_meta":{"uri":"file:///a"}}]}'),
        ("tools/call", '{"content":[{"type":"text","text":"x","uri":"file:///a"}]}'),
        ("tools/call", '{"content":[{"type":"resource_link","uri":"ui://clock","name":"clock"}]}'),
        ("tools/call", '{"content":[{"type":"hologram","uri":"file:///a"}]}'),
        ("completion/complete", '{"completion":{"values":[]},"uri":"file:///a"}'),
        ("tools/list", '{"tools":[{"name":"x","uri":"file:///a"}]}'),
        ("resources/read", '{"content":[{"uri":"file:///a"}]}'),
        # What is malformed is the host's to judge.
        ("tools/call", '{"content":{"type":"resource_link","uri":"file:///a"}}'),
        ("tools/call", '{"content":[{"type":1,"uri":"file:///a"}]}'),
        ("tools/call", '{"content":[{"type":"resource","resource":[{"uri":"file:///a"}]}]}'),
        ("tools/call", '{"content":[{"type":"resource_link","uri":["file:///a"]}]}'),
        ("tools/call", '{"content":[null,"uri",["uri"],{"type":"resource_link","uri":null}]}'),
        ("tools/call", '{"content":[{"type":"resource_link","uri":""}]}'),
        ("tools/call", '["uri"]'),
        ("tools/call", '"uri"'),
        ("prompts/get", '{"messages":[{"content":[{"type":"resource_link","uri":"a:b"}]},"uri"]}'),
        ("resources/read", '{"contents":"uri"}'),
    ],
)
def test_what_needs_no_change_is_the_very_same_object(method: str, payload: str) -> None:
    raw = Raw(payload.encode())

    assert rewrite_result_uris(method, raw, "s") is raw


def test_deep_nesting_is_left_alone() -> None:
    raw = Raw(b'{"uri":1,"content":' + b"[" * 5000 + b"]" * 5000 + b"}")

    assert rewrite_result_uris("tools/call", raw, "s") is raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["uri", "type", "text", "x"]), inner),
    max_leaves=8,
)
URI = st.text(min_size=1, max_size=8).map("a:".__add__)
BLOCK = (
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": URI, "x": JSON})
    | st.fixed_dictionaries({"type": st.just("resource"), "resource": st.fixed_dictionaries({"uri": URI, "x": JSON})})
    | st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=5), "uri": JSON})
)


@STEADY
@given(st.lists(BLOCK, max_size=4), JSON, st.booleans())
def test_nothing_but_the_uris_changes(blocks: list[dict], extra: object, ascii_only: bool) -> None:
    payload = {"content": blocks, "structuredContent": extra, "_meta": {"uri": extra}}
    text = json.dumps(payload, ensure_ascii=ascii_only, indent=1)
    expected = json.loads(text)
    for block in expected["content"]:
        holder = block.get("resource", block)
        if block["type"] != "text":
            holder["uri"] = "mcpx://s/" + holder["uri"]

    assert json.loads(rewritten("tools/call", text)) == expected
