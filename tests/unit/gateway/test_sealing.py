"""The state that hosts give back: what it carries, and everything that it is refused for."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.errors import RpcError
from mcpx.gateway.sealing import Sealer, State

NOW = 1_000_000.0
PARAMS: dict[str, Any] = {"name": Raw(b'"one__ask"'), "arguments": Raw(b'{"a":1,"b":[1.5,null]}')}
# A string as some server may well write it: escapes that need not be, and a slash that is escaped.
INNER = Raw(b'"\\u0041\\/\\ud83d\\ude00 \xc3\xa9"')


def sealer() -> Sealer:
    return Sealer(b"the key")


def sealed(inner: Raw = INNER) -> tuple[str, bytes]:
    bound = sealer().bind("tools/call", PARAMS, "me")
    return sealer().seal(State("wrapped", "one", NOW + 600, inner), bound), bound


def refused(text: str, bound: bytes, now: float = NOW, key: Sealer | None = None) -> str:
    with pytest.raises(RpcError) as caught:
        (key or sealer()).open(text, bound, now)
    assert (caught.value.code, caught.value.revision) == (-32602, None)
    return caught.value.message


def test_whoever_has_the_key_opens_what_was_sealed_byte_for_byte() -> None:
    text, bound = sealed()
    state = Sealer(b"the key").open(text, bound, NOW)
    assert (state.kind, state.server, bytes(state.inner)) == ("wrapped", "one", bytes(INNER))


def test_it_is_one_word_that_needs_no_escaping_anywhere() -> None:
    text, _ = sealed()
    assert text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    assert text.isascii()
    assert text.count(".") == 1


def test_another_key_does_not_open_it() -> None:
    text, bound = sealed()
    assert "not the one" in refused(text, bound, key=Sealer(b"another"))


@pytest.mark.parametrize("spelling", [b'{"b":[1.5,null],"a":1}', b'{ "a" : 1, "b" : [1.5, null] }'])
def test_the_spelling_of_the_arguments_makes_no_difference(spelling: bytes) -> None:
    text, _ = sealed()
    bound = sealer().bind("tools/call", {"arguments": Raw(spelling), "name": Raw(b'"one__\\u0061sk"')}, "me")
    assert sealer().open(text, bound, NOW).server == "one"


@pytest.mark.parametrize(
    ("method", "params", "caller"),
    [
        ("prompts/get", PARAMS, "me"),
        ("tools/call", {**PARAMS, "name": Raw(b'"one__other"')}, "me"),
        ("tools/call", {**PARAMS, "arguments": Raw(b'{"a":2,"b":[1.5,null]}')}, "me"),
        ("tools/call", {**PARAMS, "arguments": Raw(b'{"a":"1","b":[1.5,null]}')}, "me"),
        ("tools/call", {"name": PARAMS["name"]}, "me"),
        ("tools/call", {**PARAMS, "more": Raw(b"1")}, "me"),
        ("tools/call", PARAMS, "somebody else"),
        ("tools/call", PARAMS, ""),
    ],
)
def test_it_is_good_for_the_same_request_of_the_same_caller_alone(
    method: str, params: dict[str, Raw], caller: str
) -> None:
    text, _ = sealed()
    assert "not the one" in refused(text, sealer().bind(method, params, caller))


def test_what_has_no_canonical_form_is_bound_by_its_spelling() -> None:
    deep = Raw(b"[" * 3000 + b"]" * 3000)
    bound = sealer().bind("tools/call", {"arguments": deep}, "me")
    assert bound == sealer().bind("tools/call", {"arguments": Raw(bytes(deep))}, "me")
    assert bound != sealer().bind("tools/call", {"arguments": Raw(b" " + bytes(deep))}, "me")


def test_it_expires() -> None:
    text, bound = sealed()
    assert sealer().open(text, bound, NOW + 599.9).kind == "wrapped"
    assert "expired" in refused(text, bound, NOW + 600)


def test_no_changed_character_is_let_through() -> None:
    text, bound = sealed()
    for at, letter in enumerate(text):
        other = "A" if letter != "A" else "B"
        assert "not the one" in refused(text[:at] + other + text[at + 1 :], bound)


@pytest.mark.parametrize("text", ["", ".", "a", "a.b", "é.é", "\ud800", "." * 10, "eyJ9.", "=" * 8])
def test_what_was_never_sealed_is_refused(text: str) -> None:
    _, bound = sealed()
    assert "not the one" in refused(text, bound)


def test_a_payload_that_was_exchanged_is_refused() -> None:
    text, bound = sealed()
    payload, _, proof = text.partition(".")
    members = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    members["expires"] += 1
    forged = urlsafe_b64encode(msgspec.json.encode(members)).rstrip(b"=").decode()
    assert "not the one" in refused(f"{forged}.{proof}", bound)


def test_nothing_of_what_it_is_bound_to_can_be_read_in_it() -> None:
    text, _ = sealed()
    payload = text.partition(".")[0]
    shown = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    assert set(msgspec.json.decode(shown)) == {"kind", "server", "expires", "inner"}
