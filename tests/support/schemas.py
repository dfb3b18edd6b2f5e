"""Holds a frame against the schema of a revision, strictly.

Beyond the schema itself: a property that some revision defines for a type, but this one does not, is a fault, although
every schema is open (the rule "send conservatively"). The schemas and the facts taken from them are beside this file,
so that nothing else is needed.

Two defects of the schema files are mended, because their TypeScript source is what they are generated from:
``JSONValue`` lacks ``null`` and fractions, and ``ElicitResult.content`` lacks fractions.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jsonschema

from tests.support.facts.generate import ANY_JSON, RENAMED, inline_name, last, method_of

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Schema = dict[str, Any]

_HERE = Path(__file__).parent
_UNIONS = {  # what each side may send: the name of the union, by sender and kind of frame
    ("client", "request"): "ClientRequest",
    ("client", "notification"): "ClientNotification",
    ("server", "request"): "ServerRequest",
    ("server", "notification"): "ServerNotification",
}
# A `_meta` is always kept. The members of a tool's schemas are JSON Schema's, a user's data.
_KEPT = "_meta"
_OPEN = {"Tool.inputSchema", "Tool.outputSchema"}


class SchemaFault(AssertionError):
    """A frame is not what its revision says."""


@cache
def _facts() -> dict[str, Any]:
    return json.loads((_HERE / "facts" / "facts.json").read_text("utf-8"))


@cache
def _document(revision: str) -> Schema:
    document: Schema = json.loads((_HERE / "schemas" / f"{revision}.json").read_text("utf-8"))
    definitions = _definitions_of(document)
    anything = ["string", "number", "boolean", "null"]
    if "JSONValue" in definitions:
        definitions["JSONValue"]["anyOf"][-1]["type"] = anything
    if "ElicitResult" in definitions:
        value = definitions["ElicitResult"]["properties"]["content"]["additionalProperties"]
        value.get("anyOf", [value])[-1]["type"] = ["string", "number", "boolean"]
    return document


def _definitions_of(document: Schema) -> dict[str, Schema]:
    return document.get("$defs") or document["definitions"]


def _definitions(revision: str) -> dict[str, Schema]:
    return _definitions_of(_document(revision))


@cache
def _validator(revision: str, schema: str) -> Validator:
    """For a schema (as JSON) that may refer to the definitions of a revision."""
    document = _document(revision)
    return jsonschema.validators.validator_for(document)({**document, **json.loads(schema)})


def _named(revision: str, name: str) -> Validator:
    where = "$defs" if "$defs" in _document(revision) else "definitions"
    return _validator(revision, json.dumps({"$ref": f"#/{where}/{name}"}))


def validate(
    frame: dict[str, Any], revision: str, *, sender: Literal["server", "client"], method: str | None = None
) -> None:
    """Hold one frame against ``revision``.

    ``method`` is that of the request which a result answers; without it a result is held against the common form only.
    Raises ``SchemaFault``, an ``AssertionError``, that says where and what.
    """
    if "method" in frame:
        _sent(frame, revision, sender)
    elif "result" in frame:
        _check(frame, revision, _first(revision, "JSONRPCResultResponse", "JSONRPCResponse"), "frame")
        validate_result(frame["result"], revision, method)
    elif "error" in frame:
        _error(frame, revision)
    else:
        raise SchemaFault(f"No request, notification or response: {frame}")


def validate_result(result: Any, revision: str, method: str | None) -> None:
    """Hold a result, the answer to ``method``, against ``revision``."""
    definitions = _definitions(revision)
    name = _facts()["methods"].get(method, {}).get("result", "EmptyResult")
    asks = isinstance(result, dict) and result.get("resultType") == "input_required"
    if asks and "InputRequiredResult" in definitions:
        if "interrupts" not in _facts()["methods"].get(method, {}):
            raise SchemaFault(f"{method} may not ask for input")
        name = "InputRequiredResult"
    validate_type(result, revision, name if name in definitions else "EmptyResult")


def validate_type(value: Any, revision: str, name: str) -> None:
    """Hold a value against a definition of ``revision``."""
    _check(value, revision, name, name)
    _Walk(revision).named(value, name, name)


def validate_params(method: str, params: Any, revision: str) -> None:
    """Hold the params of a request or notification, or of a question inside a result, against ``revision``."""
    name = _of_method(method, revision)
    value = {"method": method, "params": params}
    value |= {"jsonrpc": "2.0"} | ({} if name.endswith("Notification") else {"id": 1})
    _check(value, revision, name, name)
    _Walk(revision).named(value, name, name)


def _sent(frame: dict[str, Any], revision: str, sender: str) -> None:
    kind = "request" if "id" in frame else "notification"
    envelope = "JSONRPCRequest" if kind == "request" else "JSONRPCNotification"
    _check(frame, revision, envelope, "frame")
    name = _of_method(frame["method"], revision)
    if name not in _members(revision, _UNIONS[sender, kind]):
        raise SchemaFault(f"{frame['method']} is no {kind} of a {sender} in {revision}")
    _check(frame, revision, name, name)
    _Walk(revision).named(frame, name, name)


def _error(frame: dict[str, Any], revision: str) -> None:
    known = frame
    form = _first(revision, "JSONRPCErrorResponse", "JSONRPCError")
    if frame.get("id", ...) is None and "id" in _definitions(revision)[form]["required"]:
        known = {**frame, "id": 0}  # the one exemption: these revisions have no form for an id that cannot be known
    _check(known, revision, form, "frame")
    code = frame["error"]["code"]
    name = _named_errors(revision).get(code)
    if name is not None:
        _check(known, revision, name, name)
        _Walk(revision).named(known, name, name)
    elif "DiscoverRequest" in _definitions(revision) and (-32099 <= code <= -32020 or code == -32002):
        raise SchemaFault(f"{revision} does not let anyone send the error code {code}")


@cache
def _named_errors(revision: str) -> dict[int, str]:
    """The errors with a definition of their own, by code."""
    found: dict[int, str] = {}
    for name, schema in _definitions(revision).items():
        for part in schema.get("properties", {}).get("error", {}).get("allOf", ()):
            if "code" in part.get("properties", {}):
                found[part["properties"]["code"]["const"]] = name
    return found


def _of_method(method: str, revision: str) -> str:
    for name, schema in _definitions(revision).items():
        if method_of(schema) == method:
            return name
    raise SchemaFault(f"{revision} has no {method}")


def _members(revision: str, union: str) -> set[str]:
    """The definitions that a union is made of; one that is a single definition is written out in its place."""
    schema = _definitions(revision).get(union)
    if schema is None:
        return set()
    if "anyOf" in schema:
        return {last(member["$ref"]) for member in schema["anyOf"]}
    return {_of_method(method_of(schema) or "", revision)}


def _first(revision: str, *names: str) -> str:
    return next(name for name in names if name in _definitions(revision))


def _check(value: Any, revision: str, name: str, place: str) -> None:
    error = jsonschema.exceptions.best_match(_named(revision, name).iter_errors(value))
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path)
        raise SchemaFault(f"{revision}: {place}{'.' if where else ''}{where}: {error.message}")


class _Walk:
    """Walks a value beside its schema, and looks for properties of other revisions in everything that has a type."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.definitions = _definitions(revision)
        self.facts: dict[str, dict[str, list[str]]] = _facts()["types"]
        self.index = _facts()["revisions"].index(revision)

    def named(self, value: Any, name: str, place: str) -> None:
        if name in ANY_JSON:
            return
        schema = self.definitions[name]
        if "properties" in schema:
            self.typed(value, schema, RENAMED.get(name, name), place)
        else:
            self.anonymous(value, schema, name, place)

    def typed(self, value: Any, schema: Schema, name: str, place: str) -> None:
        if not isinstance(value, dict):
            return
        for key in value:
            known = self.facts.get(name, {}).get(key)
            if known is not None and known[0][self.index] != "x" and key != _KEPT and name not in _OPEN:
                raise SchemaFault(f"{self.revision} has no {key} in {name}: {place}.{key}")
        if name.endswith(("Result", "Params")):
            self.reserved(value.get(_KEPT), place)
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                self.anonymous(value[key], inner, _inner_name(schema, name, key), f"{place}.{key}")

    def reserved(self, meta: Any, place: str) -> None:
        """The keys that the specification reserves in the metadata of requests, results and notifications."""
        for name, keys in self.facts.items():
            for key, (revisions, _) in keys.items() if name.endswith("MetaObject") else ():
                if isinstance(meta, dict) and key in meta and revisions[self.index] != "x":
                    raise SchemaFault(f"{self.revision} has no {key}: {place}.{_KEPT}")

    def anonymous(self, value: Any, schema: Schema, name: str, place: str) -> None:
        """A value whose schema has no name of its own; ``name`` is what an object without one is called."""
        if "$ref" in schema:
            self.named(value, last(schema["$ref"]), place)
        elif name in self.facts or schema.get("properties"):
            self.typed(value, schema, name, place)
        for member in schema.get("allOf", ()):
            self.anonymous(value, member, name, place)
        for member in schema.get("anyOf", ()):
            if self.fits(value, member):
                self.anonymous(value, member, name, place)
                break
        if isinstance(value, list) and "items" in schema:
            for index, element in enumerate(value):
                self.anonymous(element, schema["items"], name, f"{place}[{index}]")
        inner = schema.get("additionalProperties")
        if isinstance(value, dict) and isinstance(inner, dict) and inner and not schema.get("properties"):
            for key, element in value.items():
                self.anonymous(element, inner, name, f"{place}.{key}")

    def fits(self, value: Any, schema: Schema) -> bool:
        return _validator(self.revision, json.dumps(schema)).is_valid(value)


def _inner_name(schema: Schema, name: str, key: str) -> str:
    method = method_of(schema)
    if key != "params" or method is None:
        return inline_name(name, key)
    params: str = _facts()["methods"][method]["params"]
    return RENAMED.get(params, params)
