"""What a server may ask, and how answers are said to it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.errors import RpcError
from mcpx.spec.asking import ASKS, carry_answer, permit_question, refusal, without_hop_keys
from mcpx.spec.capabilities import narrow_client
from mcpx.spec.revisions import (
    LEGACY,
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, to_raw
from mcpx.wire.raws import members_of

FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
VISIT: dict[str, Any] = {"mode": "url", "message": "Sign in", "url": "https://example.com/", "elicitationId": "e1"}
SAMPLE: dict[str, Any] = {"messages": [], "maxTokens": 5}
EVERYTHING: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}


def members(value: Any) -> dict[str, Raw]:
    found = members_of(to_raw(value))
    assert found is not None
    return found


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def ask(method: str, params: Any, told: Any, revision: str) -> Any:
    """The params that the host is asked with, or the code of the refusal."""
    try:
        return plain(permit_question(method, members(params), narrow_client(members(told), revision), revision))
    except RpcError as error:
        return error.code


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", FORM),
        ("sampling/createMessage", SAMPLE),
        ("roots/list", {}),
        ("roots/list", {"_meta": {}}),
    ],
)
def test_what_was_declared_may_be_asked_where_the_revision_has_it(method: str, params: Any, revision: str) -> None:
    missing = method == "elicitation/create" and revision in (V2024_11_05, V2025_03_26)
    assert ask(method, params, EVERYTHING, revision) == (METHOD_NOT_FOUND if missing else params)
    others = {name: value for name, value in EVERYTHING.items() if name != ASKS[method]}
    assert ask(method, params, others, revision) == METHOD_NOT_FOUND


@pytest.mark.parametrize("method", ["tools/call", "ping", "x/y", "tasks/get", "notifications/message"])
@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
def test_nothing_else_may(method: str, revision: str) -> None:
    assert ask(method, {}, EVERYTHING, revision) == METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("declared", "form", "visit"),
    [
        ({}, True, False),
        ({"form": {}}, True, False),
        ({"url": {}}, False, True),
        ({"form": {}, "url": {}}, True, True),
        ({"form": {}, "url": None}, True, False),
    ],
)
@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
def test_elicitation_by_mode(declared: Any, form: bool, visit: bool, revision: str) -> None:
    told = {"elicitation": declared}
    for params in (FORM, {**FORM, "mode": "form"}):
        assert ask("elicitation/create", params, told, revision) == (params if form else INVALID_PARAMS)
    assert ask("elicitation/create", VISIT, told, revision) == (VISIT if visit else INVALID_PARAMS)
    for mode in ("voice", None, 5):
        assert ask("elicitation/create", {**FORM, "mode": mode}, told, revision) == INVALID_PARAMS


def test_a_revision_without_modes_has_forms_alone() -> None:
    both: Any = {"elicitation": {"form": {}, "url": {}}}
    visits: Any = {"elicitation": {"url": {}}}
    assert ask("elicitation/create", FORM, both, V2025_06_18) == FORM
    assert ask("elicitation/create", VISIT, both, V2025_06_18) == INVALID_PARAMS
    assert ask("elicitation/create", FORM, visits, V2025_06_18) == METHOD_NOT_FOUND


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("more", [{"tools": [{"name": "t"}]}, {"tools": []}, {"toolChoice": {"mode": "none"}}])
def test_sampling_with_tools_only_where_that_was_declared(more: Any, revision: str) -> None:
    params: Any = {**SAMPLE, **more}
    assert ask("sampling/createMessage", params, {"sampling": {}}, revision) == INVALID_PARAMS
    has_tools = revision in (V2025_11_25, V2026_07_28)
    expected = params if has_tools else INVALID_PARAMS
    assert ask("sampling/createMessage", params, {"sampling": {"tools": {}}}, revision) == expected


@pytest.mark.parametrize("revision", REVISIONS)
def test_context_that_a_host_did_not_declare_is_not_asked_for(revision: str) -> None:
    params: Any = {**SAMPLE, "includeContext": "allServers"}
    declares = revision in (V2025_11_25, V2026_07_28)  # before, there is nothing to declare
    assert ask("sampling/createMessage", params, {"sampling": {}}, revision) == (SAMPLE if declares else params)
    assert ask("sampling/createMessage", params, {"sampling": {"context": {}}}, revision) == params


def test_what_of_the_metadata_is_between_mcpx_and_the_server_alone() -> None:
    kept = members({**FORM, "_meta": {"traceparent": "00-1"}})
    assert without_hop_keys(kept) is kept
    mixed = members({**FORM, "_meta": {"progressToken": 7, "x/y": 1}})
    assert plain(without_hop_keys(mixed)) == {**FORM, "_meta": {"x/y": 1}}
    assert plain(without_hop_keys(members({**FORM, "_meta": {"progressToken": 7}}))) == FORM


# -- answers


ACCEPT: dict[str, Any] = {"action": "accept", "content": {"name": "a"}}


@pytest.mark.parametrize("source", REVISIONS)
@pytest.mark.parametrize("target", REVISIONS)
def test_an_answer_passes_as_it_is_where_it_says_the_same(source: str, target: str) -> None:
    for method, outcome in (
        ("elicitation/create", ACCEPT),
        ("elicitation/create", {"action": "decline"}),
        ("roots/list", {"roots": [{"uri": "file:///a"}]}),
    ):
        if target in (V2024_11_05, V2025_03_26) and method == "elicitation/create":
            continue  # which they have not
        raw = to_raw(outcome)
        assert carry_answer(method, raw, source, target) == raw


def test_a_modern_answer_loses_its_type_on_the_way_to_a_legacy_server() -> None:
    raw = to_raw({"resultType": "complete", **ACCEPT})
    answer = carry_answer("elicitation/create", raw, V2026_07_28, V2025_11_25)
    assert isinstance(answer, Raw)
    assert plain(answer) == ACCEPT


@pytest.mark.parametrize("target", LEGACY)
def test_an_error_reaches_a_legacy_server_as_it_is(target: str) -> None:
    error = RpcError(-1, "User rejected sampling request", {"n": 1})
    assert carry_answer("sampling/createMessage", error, V2025_11_25, target) is error
    assert carry_answer("elicitation/create", error, V2025_11_25, target) is error


def test_a_modern_server_cannot_be_told_of_an_error() -> None:
    error = RpcError(-1, "no")
    cancelled = carry_answer("elicitation/create", error, V2025_11_25, V2026_07_28)
    assert isinstance(cancelled, Raw)
    assert plain(cancelled) == {"action": "cancel"}
    for method in ("sampling/createMessage", "roots/list"):
        assert isinstance(carry_answer(method, error, V2025_11_25, V2026_07_28), RpcError)


@pytest.mark.parametrize("outcome", [[], "yes", None, 5])
def test_an_answer_that_is_no_object_is_a_refusal(outcome: Any) -> None:
    assert carry_answer("elicitation/create", to_raw(outcome), V2025_11_25, V2025_11_25) == refusal(
        "elicitation/create", ""
    )
    failed = carry_answer("roots/list", to_raw(outcome), V2025_11_25, V2025_11_25)
    assert isinstance(failed, RpcError)
    assert failed.code == INTERNAL_ERROR


def test_an_answer_that_the_server_has_no_way_to_hear_is_a_refusal() -> None:
    several = to_raw({"action": "accept", "content": {"colours": ["red", "blue"]}})
    assert carry_answer("elicitation/create", several, V2025_11_25, V2025_06_18) == refusal("elicitation/create", "")
    content: Any = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "1", "name": "t", "input": {}}]
    sampled = to_raw({"role": "assistant", "model": "m", "content": content})
    assert isinstance(carry_answer("sampling/createMessage", sampled, V2025_11_25, V2025_06_18), RpcError)
