"""Values of the types of the protocol, made from the rows: with properties of any revision, as careless peers write."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from mcpx.spec.meta import LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcpx.spec.revisions import V2026_07_28
from mcpx.spec.tables import RECORDS, UNIONS

OWN = "vendorOwn"  # a property that no revision defines

# Keys that a type elsewhere has, in places where they are a user's.
LOOKALIKE = {"title": "mine", "icons": [1], "structuredContent": 2, "type": "audio", "_meta": {"title": 3}}

_ANY_JSON = st.sampled_from([{"a": 1, **LOOKALIKE}, {}, [1, 2], "text", 5, 1.5, None, True])
_SCHEMAS = st.sampled_from(
    [
        {"type": "object"},
        {
            "type": "object",
            "properties": {"title": {"type": "string"}, "any": True, "none": False},
            "required": ["any"],
        },
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mine", "icons": []},
    ]
)
_OUTPUTS = st.one_of(_SCHEMAS, st.sampled_from([{"type": "array", "items": {}}, {"anyOf": [{"type": "object"}]}, {}]))

# The values of properties that hold no type, by place or by name.
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Tool.inputSchema": _SCHEMAS,
    "Tool.outputSchema": _OUTPUTS,
    "structuredContent": _ANY_JSON,
    "resultType": st.just("complete"),
    "ttlMs": st.just(5),
    "cacheScope": st.sampled_from(["public", "private"]),
    "audience": st.just(["user"]),
    "priority": st.just(0.5),
    "size": st.just(12),
    "sizes": st.just(["48x48"]),
    "theme": st.just("dark"),
    "src": st.sampled_from(["https://example.com/i.png", "data:image/png;base64,AA==", "javascript:alert(1)"]),
    "role": st.sampled_from(["user", "assistant"]),
    "level": st.just("info"),
    LOG_LEVEL: st.just("info"),
    "action": st.sampled_from(["accept", "decline", "cancel"]),
    "ElicitResult.content": st.sampled_from([{"a": "x", "b": 1.5, "c": True}, {"title": ["x", "y"]}, {}]),
    "mode": st.just("auto"),
    "taskSupport": st.just("optional"),
    "ttl": st.just(1000),
    "pollInterval": st.just(10),
    "status": st.just("working"),
    "values": st.just(["a"]),
    "total": st.just(1),
    "hasMore": st.just(False),
    "supportedVersions": st.just([V2026_07_28]),
    "supported": st.just([V2026_07_28]),
    "PromptArgument.required": st.booleans(),
    "required": st.just(["a"]),
    "ProgressNotificationParams.progress": st.just(1),
    "data": st.just("aGVsbG8="),
    "arguments": st.just({"title": "mine"}),
    "input": st.just(LOOKALIKE),
    "experimental": st.just({"x": {}}),
    "extensions": st.just({"vendor/ui": {}, "io.modelcontextprotocol/tasks": {}}),
    "metadata": st.just(LOOKALIKE),
    "includeContext": st.just("none"),
    "maxTokens": st.just(10),
    "temperature": st.just(0.5),
    "stopSequences": st.just(["x"]),
    "format": st.just("email"),
    "enum": st.just(["a", "b"]),
    "enumNames": st.just(["A", "B"]),
    "resourceSubscriptions": st.just(["file:///a"]),
    "inputResponses": st.just({}),
    "inputRequests": st.just({}),
    "uri": st.just("file:///a"),
    PROGRESS_TOKEN: st.just(1),
    PROTOCOL_VERSION: st.just(V2026_07_28),
    SUBSCRIPTION_ID: st.just("s"),
    "requestId": st.just(1),
    "code": st.just(-32603),
    "NumberSchema.default": st.just(1.5),
    "BooleanSchema.default": st.just(True),
    "TitledMultiSelectEnumSchema.default": st.just(["a"]),
    "TitledSingleSelectEnumSchema.oneOf.title": st.just("A"),
    "UntitledMultiSelectEnumSchema.default": st.just(["a"]),
}
_FLAGS = ("listChanged", "subscribe", "isError", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_FLAGS += ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
_NUMBERS = ("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")
_NUMBERS += ("costPriority", "speedPriority", "intelligencePriority")
_OBJECTS = (
    "form",
    "url",
    "context",
    "tools",
    "list",
    "cancel",
    "create",
    "createMessage",
    "call",
    "logging",
    "completions",
)
_VALUES |= {name: st.booleans() for name in _FLAGS} | {name: st.just(1) for name in _NUMBERS}
_OBJECT_PLACES = {f"{owner}.{name}" for owner in RECORDS if "Capabilities" in owner for name in _OBJECTS}

_TAGS = {(name, union.tag): tag for union in UNIONS.values() for tag, name in union.by_tag.items()}
_TAGS |= {(name, "type"): "string" for name in RECORDS if "EnumSchema" in name}
_TAGS |= {(name, "type"): "array" for name in RECORDS if "MultiSelectEnumSchema" in name}
_TAGS |= {("NumberSchema", "type"): "integer", ("UntitledMultiSelectEnumSchema.items", "type"): "string"}
_TAGS |= {("ElicitRequestFormParams.requestedSchema", "type"): "object"}

# Required, and made by mcpx where they are absent.
_STAMPED = {"resultType", "ttlMs", "cacheScope", "_meta"}
_MADE = {"ElicitRequestURLParams.elicitationId"}


@cache
def values(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Values of a type or union: what is required in any revision always, everything else perhaps."""
    if name in UNIONS:
        return st.one_of([values(member) for member in sorted(UNIONS[name].members)])
    needed: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {OWN: st.just(LOOKALIKE)}
    for field in RECORDS[name].fields.values():
        always = field.needed and f"{name}.{field.name}" not in _MADE and field.name not in _STAMPED
        (needed if always else optional)[field.name] = _value(name, field.name)
    return st.fixed_dictionaries(needed, optional=optional)


def _value(owner: str, key: str) -> st.SearchStrategy[Any]:
    if (owner, key) in _TAGS:
        return st.just(_TAGS[owner, key])
    field = RECORDS[owner].fields[key]
    if field.of is not None:
        one = st.deferred(lambda: values(field.of or ""))
        shapes = {
            "one": one,
            "list": st.lists(one, max_size=2),
            "map": st.dictionaries(st.sampled_from(["title", "b"]), one, max_size=2),
            "one or list": st.one_of(one, st.lists(one, max_size=2)),
        }
        return shapes[field.shape]
    if key == "_meta":
        return st.just({"vendor/x": LOOKALIKE})
    place = f"{owner}.{key}"
    if place in _OBJECT_PLACES:
        return st.just({})
    return _VALUES[place] if place in _VALUES else _VALUES.get(key, st.just(f"some {key}"))
