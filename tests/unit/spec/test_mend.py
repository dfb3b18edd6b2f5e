"""Putting right what servers say, where every revision would refuse it."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from mcpx.spec.capabilities import is_implementation, read_server
from mcpx.spec.mend import mend


@pytest.mark.parametrize(
    ("name", "item", "mended"),
    [
        ("Tool", '{"name":"a"}', '{"name":"a","inputSchema":{"type":"object"}}'),
        ("Tool", '{"inputSchema":null,"name":"a"}', '{"name":"a","inputSchema":{"type":"object"}}'),
        ("Tool", '{"name":"a","inputSchema":true,"x":null}', '{"name":"a","inputSchema":{"type":"object"},"x":null}'),
        (
            "Tool",
            '{"inputSchema":{"$ref":"#/x","n":1.0},"name":"a"}',
            '{"inputSchema":{"type":"object","$ref":"#/x","n":1.0},"name":"a"}',
        ),
        ("Prompt", '{"name":"a","title":null,"_meta":null}', '{"name":"a"}'),
        (
            "Tool",
            '{"name":"a","inputSchema":{"type":"object"},"annotations":{"title":null,"x":null},"icons":[{"src":null}]}',
            '{"name":"a","inputSchema":{"type":"object"},"annotations":{"x":null},"icons":[{}]}',
        ),
        (
            "Prompt",
            '{"name":"a","arguments":[{"name":"b","description":null,"required": null},5,null]}',
            '{"name":"a","arguments":[{"name":"b"},5,null]}',
        ),
        ("Implementation", '{"name":"a","version":"1","title":null}', '{"name":"a","version":"1"}'),
        ("Resource", '{"uri":"a:\\/b","description": null}', '{"uri":"a:\\/b","name":"a:\\/b"}'),
        ("ResourceTemplate", '{"uriTemplate":"a:{b}","name":null}', '{"uriTemplate":"a:{b}","name":"a:{b}"}'),
    ],
)
def test_what_is_plain_is_mended(name: str, item: str, mended: str) -> None:
    assert mend(name, Raw(item.encode())) == Raw(mended.encode())


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("Tool", '{"name":"a", "inputSchema":{"type":"object","default":null}}'),
        ("Tool", '{"name":"a","inputSchema":{"type":"string"},"y":null}'),
        ("Tool", "5"),
        ("Prompt", '{"name":"a","description":"a: null","x":{"title":null}}'),
        ("Resource", '{"name":"a","uri":"b:c"}'),
        ("Resource", "[]"),
    ],
)
def test_what_is_right_or_beyond_mending_is_the_very_same(name: str, item: str) -> None:
    raw = Raw(item.encode())
    assert mend(name, raw) is raw


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("null", {}),
        ("[]", {}),
        ('{"tools":true,"prompts":[],"logging":0}', {"tools": {}, "prompts": {}, "logging": {}}),
        ('{"tools":null,"prompts":false}', {}),
        (
            '{"tools":{"listChanged":1,"x":2},"resources":{"subscribe":true}}',
            {"tools": {"x": 2}, "resources": {"subscribe": True}},
        ),
        ('{"extensions":{"a/b":true,"c/d":null},"experimental":5}', {"extensions": {"a/b": {}}, "experimental": {}}),
    ],
)
def test_what_a_server_declares_is_read_liberally(said: str, read: dict[str, object]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(read_server(Raw(said.encode())))) == read


def test_an_implementation_has_a_name_and_a_version() -> None:
    assert is_implementation(Raw(b'{"name":"","version":"1","title":5}'))
    for said in ('{"name":"n"}', '{"name":"n","version":1}', "null", "[]", '"n"'):
        assert not is_implementation(Raw(said.encode()))
    assert not is_implementation(None)
