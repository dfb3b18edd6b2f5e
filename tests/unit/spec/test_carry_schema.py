"""Whatever a careless peer writes, what mcpx sends is what the receiver's revision says, strictly."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpx.spec.capabilities import narrow_client, narrow_implementation, narrow_server
from mcpx.spec.carry import CannotSay, carry, carry_params, carry_question, carry_result, stamp_modern
from mcpx.spec.fields import revisions_of
from mcpx.spec.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcpx.spec.methods import METHODS
from mcpx.spec.plans import _RESTATEMENTS
from mcpx.spec.revisions import REVISIONS, is_modern
from mcpx.spec.tables import RECORDS, UNIONS
from mcpx.wire.frames import members, to_raw
from tests.support.schemas import validate_params, validate_result, validate_type
from tests.unit.spec.values import OWN, values

FEW = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SOURCES = st.sampled_from(REVISIONS)

# (method, a revision that has it)
CELLS = [
    (method.name, revision)
    for method in METHODS.values()
    for revision in REVISIONS
    if any(span is not None and span.covers(revision) for span in (method.host, method.upstream, method.question))
]
# The answer to subscriptions/listen carries the subscription's id, and is mcpx's own.
ANSWERS = [
    (name, target) for name, target in CELLS if METHODS[name].result is not None and name != "subscriptions/listen"
]
QUESTIONS = [(name, target) for name, target in CELLS if METHODS[name].question is not None]
SENT = [(name, target) for name, target in CELLS if METHODS[name].question is None]


@pytest.mark.parametrize(("method", "target"), ANSWERS)
def test_results(method: str, target: str) -> None:
    asked = METHODS[method].question is not None  # an answer to a question has no `resultType`

    @FEW
    @given(value=values(METHODS[method].result or ""), source=SOURCES)
    def holds(value: dict[str, Any], source: str) -> None:
        with suppress(CannotSay):
            carried = carry_result(method, to_raw(value), source, target)
            assert carry_result(method, carried, target, target) is carried  # nothing is left to do
            if is_modern(target) and not asked:
                carried = stamp_modern(method, carried, to_raw({"name": "mcpx", "version": "1"}), 0, "private")
            result = msgspec.json.decode(carried)
            assert result.get(OWN) == value.get(OWN)
            validate_result(result, target, method)

    holds()


@pytest.mark.parametrize(("method", "target"), SENT)
def test_params(method: str, target: str) -> None:
    @FEW
    @given(value=values(METHODS[method].params), source=SOURCES)
    def holds(value: dict[str, Any], source: str) -> None:
        given_params = members(to_raw({key: inner for key, inner in value.items() if key != "_meta"}))
        carried = carry_params(method, given_params, source, target)
        assert carry_params(method, carried, target, target) is carried
        params = {key: msgspec.json.decode(raw) for key, raw in carried.items()}
        assert params.get(OWN) == value.get(OWN)
        if is_modern(target) and METHODS[method].kind == "request":
            params["_meta"] = {PROTOCOL_VERSION: target, CLIENT_CAPABILITIES: {}}
        validate_params(method, params, target)

    holds()


@pytest.mark.parametrize(("method", "target"), QUESTIONS)
def test_questions(method: str, target: str) -> None:
    @FEW
    @given(value=values(METHODS[method].params), source=SOURCES)
    def holds(value: dict[str, Any], source: str) -> None:
        with suppress(CannotSay):
            carried = carry_question(method, members(to_raw(value)), source, target, elicitation_id="e1")
            validate_params(method, {key: msgspec.json.decode(raw) for key, raw in carried.items()}, target)

    holds()


@pytest.mark.parametrize("target", REVISIONS)
@pytest.mark.parametrize("name", ["Tool", "Prompt", "Resource", "ResourceTemplate", "PromptMessage"])
def test_types_by_themselves(name: str, target: str) -> None:
    @FEW
    @given(value=values(name), source=SOURCES)
    def holds(value: dict[str, Any], source: str) -> None:
        validate_type(msgspec.json.decode(carry(name, to_raw(value), source, target)), target, name)

    holds()


@pytest.mark.parametrize("target", REVISIONS)
def test_capabilities_and_identity(target: str) -> None:
    @FEW
    @given(host=values("ClientCapabilities"), server=values("ServerCapabilities"), who=values("Implementation"))
    def holds(host: dict[str, Any], server: dict[str, Any], who: dict[str, Any]) -> None:
        for name, narrow, value in (
            ("ClientCapabilities", narrow_client, host),
            ("ServerCapabilities", narrow_server, server),
        ):
            narrowed = narrow(members(to_raw(value)), target)
            validate_type({key: msgspec.json.decode(raw) for key, raw in narrowed.items()}, target, name)
        validate_type(msgspec.json.decode(narrow_implementation(to_raw(who), target)), target, "Implementation")

    holds()


def test_every_type_that_a_target_lacks_is_said_otherwise_or_unreachable() -> None:
    """In a union that a revision can hold, each member that it lacks has a restatement."""
    for union in UNIONS.values():
        for target in REVISIONS:
            had = {name for name in union.members if target in revisions_of(RECORDS[name])}
            if had:
                assert union.members - had <= set(_RESTATEMENTS), (union.name, target)
