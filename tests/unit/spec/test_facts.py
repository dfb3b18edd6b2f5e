"""The tables in ``mcpx/spec`` say what the schemas say: no more, no less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpx.spec.codes import CODES
from mcpx.spec.fields import revisions_of
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import REVISIONS
from mcpx.spec.tables import KINDS, RECORDS, UNIONS
from tests.support.facts import generate

HERE = Path(generate.__file__).parent
FACTS: dict[str, Any] = json.loads((HERE / "facts.json").read_text("utf-8"))

# Facts that the tables leave out, each with its reason.
BASES = "what several types have in common; never a value by itself"
ENVELOPE = "the JSON-RPC message around a value; mcpx.wire.frames"
VOCABULARY = "JSON Schema's own vocabulary, which the schemas only restrict; a user's data, never edited as a type"
NOT_IN_TABLES = {
    "BaseMetadata": BASES,
    "CacheableResult": BASES,
    "ClientResult": BASES,
    "Icons": BASES,
    "InputResponseRequestParams": BASES,
    "Notification": BASES,
    "Notification.params": BASES,
    "PaginatedRequest": BASES,
    "PaginatedRequest.params": BASES,
    "PaginatedResult": BASES,
    "Request": BASES,
    "Request.params": BASES,
    "ResourceContents": BASES,
    "ResourceRequestParams": BASES,
    "Result": BASES,
    "TaskAugmentedRequestParams": BASES,
    "JSONRPCErrorResponse": ENVELOPE,
    "JSONRPCNotification": ENVELOPE,
    "JSONRPCNotification.params": ENVELOPE,
    "JSONRPCRequest": ENVELOPE,
    "JSONRPCRequest.params": ENVELOPE,
    "JSONRPCResultResponse": ENVELOPE,
    "CallToolResultResponse": ENVELOPE,
    "CompleteResultResponse": ENVELOPE,
    "DiscoverResultResponse": ENVELOPE,
    "GetPromptResultResponse": ENVELOPE,
    "ListPromptsResultResponse": ENVELOPE,
    "ListResourceTemplatesResultResponse": ENVELOPE,
    "ListResourcesResultResponse": ENVELOPE,
    "ListToolsResultResponse": ENVELOPE,
    "ReadResourceResultResponse": ENVELOPE,
    "SubscriptionsListenResultResponse": ENVELOPE,
    "Tool.inputSchema": VOCABULARY,
    "Tool.outputSchema": VOCABULARY,
    "RelatedTaskMetadata": "the value of a key inside `_meta`, which is always kept as it is",
}
# Codes that older schemas do not name although they have them: JSON-RPC's own, and one that only the prose defines
# (2025-11-25 server/resources, Error Handling).
CODES_IN_PROSE = {-32700, -32600, -32601, -32602, -32603, -32002}

# Values that hold a type although the tables do not look into them.
NOT_DESCENDED = {
    "CallToolRequestParams.inputResponses": "modern only: no other revision has a place for it",
    "GetPromptRequestParams.inputResponses": "modern only: no other revision has a place for it",
    "ReadResourceRequestParams.inputResponses": "modern only: no other revision has a place for it",
    "Tool.inputSchema": VOCABULARY,
    "Tool.outputSchema": VOCABULARY,
}
# Types that a union's rows do not name, because one that they name has every property that these have.
UNTOLD = {"UntitledSingleSelectEnumSchema", "UntitledMultiSelectEnumSchema"}


def bits(revisions: tuple[str, ...] | frozenset[str]) -> str:
    return "".join("x" if revision in revisions else "." for revision in REVISIONS)


def test_the_facts_are_what_the_schemas_say() -> None:
    schemas = HERE.parent / "schemas"
    assert generate.Gatherer(generate.read(schemas)).gather() == FACTS


def test_the_revisions_are_the_same() -> None:
    assert tuple(FACTS["revisions"]) == REVISIONS


def test_every_type_is_in_the_tables_or_left_out_for_a_reason() -> None:
    assert set(FACTS["types"]) - set(NOT_IN_TABLES) == set(RECORDS)
    assert set(NOT_IN_TABLES) <= set(FACTS["types"])


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_fields_of_a_type(name: str) -> None:
    ours = {field.name: [bits(field.span.revisions), bits(field.needed)] for field in RECORDS[name].fields.values()}
    assert ours == FACTS["types"][name]


def spread(name: str) -> frozenset[str]:
    """The types that a row's ``of`` stands for."""
    return UNIONS[name].members if name in UNIONS else frozenset({name})


def test_every_value_that_is_typed_names_a_type() -> None:
    for row in RECORDS.values():
        for field in row.fields.values():
            if field.of is not None:
                assert spread(field.of) <= set(RECORDS), f"{row.name}.{field.name}"


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_types_of_values(name: str) -> None:
    for field in RECORDS[name].fields.values():
        place = f"{name}.{field.name}"
        says: dict[str, list[str]] = FACTS["values"].get(place, {})
        if place in NOT_DESCENDED or (field.name == "_meta" and not says):  # any `_meta` is read as the newest one
            continue
        types = spread(field.of) if field.of is not None else frozenset[str]()
        assert types == set(says) - UNTOLD, place
        if says:
            assert all(" or ".join(reversed(shapes)) == field.shape for shapes in says.values()), place


def test_methods() -> None:
    ours = {
        method.name: {"kind": method.kind, "params": method.params}
        | ({"result": method.result} if method.result is not None else {})
        | {
            key: bits(span.revisions)
            for key in ("host", "upstream", "question", "interrupts", "cached")
            if (span := getattr(method, key)) is not None
        }
        for method in METHODS.values()
    }
    assert ours == FACTS["methods"]


def test_the_types_that_methods_name_exist() -> None:
    named = {method.params for method in METHODS.values()} | {method.result for method in METHODS.values()}
    assert named - {None} <= set(RECORDS) | set(UNIONS)


def test_content_kinds_by_place() -> None:
    for place, kinds in FACTS["kinds"].items():
        name, key = place.split(".")
        union = UNIONS[RECORDS[name].fields[key].of or ""]
        there = revisions_of(RECORDS[name])
        ours = {kind: bits(frozenset(KINDS[kind].revisions) & frozenset(there)) for kind in union.by_tag}
        assert ours == kinds, place


def test_codes() -> None:
    named = {int(code): revisions for code, revisions in FACTS["codes"].items()}
    assert {code.code for code in CODES} == set(named) | CODES_IN_PROSE
    for code in CODES:
        if code.code not in CODES_IN_PROSE:
            assert bits(code.span.revisions) == named[code.code]
