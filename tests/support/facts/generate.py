"""Writes ``facts.json``: what the schemas of the five revisions say, as plain facts.

Run it with the folder that holds one schema file per revision::

    python -m tests.support.facts.generate tests/support/schemas

The tables in ``mcpx/spec`` are held against the file, in both directions. Presence and requiredness are strings of one
character per revision, oldest first: ``"..xxx"`` is in the three newest.

``values`` says which types the value of a property may be, and in which shapes (itself, in a list, as the values of an
object).

Schemas of one revision inline what those of the next name, or give it another name; facts have one name for each thing,
the newest: ``RENAMED`` and ``PARAMS`` say which. An object without a name anywhere is called after its place,
``Tool.inputSchema``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

REVISION = re.compile(r"\d{4}-\d\d-\d\d")

# One thing, two names. Inline annotations are named by their property in `_inline_name`.
RENAMED = {
    "ResourceReference": "ResourceTemplateReference",
    "JSONRPCError": "JSONRPCErrorResponse",
    "JSONRPCErrorResponse.error": "Error",
    "JSONRPCResponse": "JSONRPCResultResponse",  # from 2025-11-25 the union of both responses has this name
    "EnumSchema": "LegacyTitledEnumSchema",  # likewise: the union of all enumerations
    "TitledMultiSelectEnumSchema.items.anyOf": "TitledSingleSelectEnumSchema.oneOf",
    "ElicitRequestParams": "ElicitRequestFormParams",  # likewise: the union of both modes
}
# Params without a name of their own in the newest schema that has the method.
PARAMS = {"roots/list": "ListRootsRequestParams", "ping": "RequestParams"}
# Names for any JSON at all; they contain one another.
ANY_JSON = {"JSONValue", "JSONObject", "JSONArray"}

Facts = dict[str, Any]


def read(folder: Path) -> dict[str, dict[str, Schema]]:
    """The definitions of each revision, oldest first."""
    definitions: dict[str, dict[str, Schema]] = {}
    for path in sorted(folder.glob("*.json")):
        if REVISION.fullmatch(path.stem):
            schema = json.loads(path.read_text("utf-8"))
            definitions[path.stem] = schema.get("$defs") or schema["definitions"]
    return definitions


class Gatherer:
    """Gathers the facts of all revisions, one revision after the other."""

    def __init__(self, definitions: dict[str, dict[str, Schema]]) -> None:
        self.definitions = definitions
        self.revisions = list(definitions)
        self.present: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.required: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.kinds: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.methods: dict[str, dict[str, Any]] = {}
        self.senders: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.codes: dict[str, set[str]] = defaultdict(set)
        self.params_names = self._params_names()

    def gather(self) -> Facts:
        for revision in self.revisions:
            for name in self.definitions[revision]:
                self._definition(revision, name)
            self._directions(revision)
        return {
            "revisions": self.revisions,
            "types": {
                name: {
                    key: [self._bits(revisions), self._bits(self.required[name][key])]
                    for key, revisions in sorted(properties.items())
                }
                for name, properties in sorted(self.present.items())
            },
            "values": {
                place: {name: sorted(shapes) for name, shapes in sorted(values.items())}
                for place, values in sorted(self.values.items())
            },
            "kinds": {
                place: {kind: self._bits(revisions) for kind, revisions in sorted(kinds.items())}
                for place, kinds in sorted(self.kinds.items())
            },
            "methods": {
                name: method | {who: self._bits(revisions) for who, revisions in sorted(self.senders[name].items())}
                for name, method in sorted(self.methods.items())
            },
            "codes": {code: self._bits(revisions) for code, revisions in sorted(self.codes.items())},
        }

    def _bits(self, revisions: set[str]) -> str:
        return "".join("x" if revision in revisions else "." for revision in self.revisions)

    # -- types

    def _definition(self, revision: str, name: str) -> None:
        schema = self.definitions[revision][name]
        method = method_of(schema)
        if method is not None:
            self._method(revision, name, schema, method)
        elif name.endswith("Error") and "allOf" in schema.get("properties", {}).get("error", {}):
            self._error(revision, name, schema)
        elif "code" in schema.get("properties", {}) and "const" in schema["properties"]["code"]:
            self.codes[str(schema["properties"]["code"]["const"])].add(revision)
        elif name == "Annotated":  # 2024-11-05: the base of all that has annotations, which are inline there
            self._object(revision, "Annotations", schema["properties"]["annotations"])
        else:
            merged = _merged(self.definitions[revision], schema)
            if "properties" in merged:
                self._object(revision, RENAMED.get(name, name), merged)

    def _object(self, revision: str, name: str, schema: Schema) -> None:
        for key, value in schema.get("properties", {}).items():
            self.present[name][key].add(revision)
            if key in schema.get("required", ()):
                self.required[name][key].add(revision)
            self._kinds(revision, f"{name}.{key}", value)
            unnamed = inline_name(name, key)
            for inline in _inline(value):
                self._object(revision, unnamed, inline)
            for type_name, shape in self._types(revision, value, unnamed, "one"):
                self.values[f"{name}.{key}"][type_name].add(shape)

    def _types(self, revision: str, schema: Schema, unnamed: str, shape: str) -> Iterator[tuple[str, str]]:
        """The objects with named properties that a value may be, each with its shape."""
        definitions = self.definitions[revision]
        if "$ref" in schema:
            name = last(schema["$ref"])
            inner = _merged(definitions, definitions[name])
            if name in ANY_JSON:
                return
            if "properties" not in inner:
                yield from self._types(revision, inner, unnamed, shape)
            elif method_of(inner) is None:
                yield RENAMED.get(name, name), shape
        elif schema.get("properties"):
            yield unnamed, shape
        for member in schema.get("anyOf", ()):
            yield from self._types(revision, member, unnamed, shape)
        for key, inner_shape in (("items", "list"), ("additionalProperties", "map")):
            if schema.get(key) not in (None, True, {}) and not schema.get("properties"):
                yield from self._types(revision, schema[key], unnamed, inner_shape)

    def _kinds(self, revision: str, place: str, schema: Schema) -> None:
        """The kinds of content that may stand in a place: the ``type`` of each type it allows."""
        for name in _references(self.definitions[revision], schema):
            kind = self.definitions[revision][name].get("properties", {}).get("type", {}).get("const")
            if kind is not None and name.endswith(("Content", "Resource", "ResourceLink")):
                self.kinds[place][kind].add(revision)

    # -- methods

    def _params_names(self) -> dict[str, str]:
        """What the params of each method are called: as the newest schema does that names them."""
        names: dict[str, str] = dict(PARAMS)
        for revision in reversed(self.revisions):
            for schema in self.definitions[revision].values():
                method = method_of(schema)
                reference = schema.get("properties", {}).get("params", {}).get("$ref")
                if method is not None and reference is not None:
                    names.setdefault(method, last(reference))
        return names

    def _method(self, revision: str, name: str, schema: Schema, method: str) -> None:
        kind = "notification" if name.endswith("Notification") else "request"
        params_name = self.params_names.get(method, name + "Params")
        self.methods.setdefault(method, {"kind": kind, "params": params_name})
        result = name.removesuffix("Request") + "Result"
        if kind == "request":
            known = any(result in definitions for definitions in self.definitions.values())
            self.methods[method]["result"] = result if known else "EmptyResult"
        params = schema["properties"].get("params", {})
        if "$ref" in params:
            if params_name != last(params["$ref"]):  # the params of roots/list have a name in one revision only
                self._object(revision, params_name, self.definitions[revision][last(params["$ref"])])
            return
        base = self.definitions[revision][kind.capitalize()]["properties"].get("params", {})  # it names `_meta`
        properties = base.get("properties", {}) | params.get("properties", {})
        self._object(revision, RENAMED.get(params_name, params_name), {**params, "properties": properties})

    def _directions(self, revision: str) -> None:
        definitions = self.definitions[revision]
        for union, sender in (
            ("ClientRequest", "host"),
            ("ClientNotification", "host"),
            ("ServerRequest", "upstream"),
            ("ServerNotification", "upstream"),
            ("InputRequest", "question"),
        ):
            if union not in definitions:
                continue
            members = [definitions[name] for name in _references(definitions, definitions[union])]
            for member in members or [definitions[union]]:
                self.senders[method_of(member) or ""][sender].add(revision)
        for name, schema in definitions.items():
            if name.endswith("ResultResponse") and name != "JSONRPCResultResponse":
                method = method_of(definitions[name.removesuffix("ResultResponse") + "Request"]) or ""
                results = _references(definitions, schema["properties"]["result"])
                if "InputRequiredResult" in results:
                    self.senders[method]["interrupts"].add(revision)
                if any("ttlMs" in definitions[result]["properties"] for result in results):
                    self.senders[method]["cached"].add(revision)

    # -- errors

    def _error(self, revision: str, name: str, schema: Schema) -> None:
        """An error with a code of its own; what its ``data`` holds is a type."""
        for part in schema["properties"]["error"]["allOf"]:
            properties = part.get("properties", {})
            if "code" in properties:
                self.codes[str(properties["code"]["const"])].add(revision)
            if "properties" in properties.get("data", {}):
                self._object(revision, f"{name}.data", properties["data"])


def method_of(schema: Schema) -> str | None:
    return schema.get("properties", {}).get("method", {}).get("const")


def last(reference: str) -> str:
    return reference.rsplit("/", 1)[1]


def _merged(definitions: dict[str, Schema], schema: Schema) -> Schema:
    """An object's schema with the members of ``allOf`` and references folded into it."""
    if "$ref" in schema:
        return _merged(definitions, definitions[last(schema["$ref"])])
    if "allOf" not in schema:
        return schema
    merged: Schema = {"properties": {}, "required": []}
    for part in schema["allOf"]:
        member = _merged(definitions, part)
        merged["properties"] |= member.get("properties", {})
        merged["required"] += member.get("required", [])
    return merged


def _inline(schema: Schema) -> list[Schema]:
    """The objects with properties of their own that a property's schema holds without a name."""
    if schema.get("properties"):
        return [schema]
    return _inline(schema["items"]) if "items" in schema else []


def inline_name(name: str, key: str) -> str:
    if key == "annotations":
        return "Annotations"
    if key == "_meta":  # only the progress token is named inline
        return "RequestMetaObject"
    place = f"{name}.{key}"
    return RENAMED.get(place, place)


def _references(definitions: dict[str, Schema], schema: Schema) -> list[str]:
    """The named objects that a schema allows: through unions, arrays and names of unions."""
    if "$ref" in schema:
        name = last(schema["$ref"])
        inner = definitions[name]
        return _references(definitions, inner) if "anyOf" in inner or "$ref" in inner else [name]
    found = [name for member in schema.get("anyOf", ()) for name in _references(definitions, member)]
    return found + (_references(definitions, schema["items"]) if "items" in schema else [])


def main(folder: str) -> None:
    facts = Gatherer(read(Path(folder))).gather()
    lines = [f"{json.dumps(section)}:{_compact(content)}" for section, content in facts.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name("facts.json").write_text(text, "utf-8")


def _compact(content: Any) -> str:
    """One line per entry of a section, so that a change shows as a line."""
    if not isinstance(content, dict):
        return json.dumps(content)
    rows = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in content.items()]
    return "{\n" + ",\n".join(rows) + "\n}"


if __name__ == "__main__":
    main(*sys.argv[1:])
