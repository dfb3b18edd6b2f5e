"""What servers ask of hosts: sampling, roots and elicitation, and the answers."""

from __future__ import annotations

from mcpx.spec.fields import Union, may, need, record
from mcpx.spec.revisions import LATEST_LEGACY, V2025_06_18, V2025_11_25
from mcpx.spec.tables.tasks import ASKED

_LEGACY_META = may("_meta", until=LATEST_LEGACY, of="RequestMetaObject")
_NAMED = (may("title", V2025_06_18), may("description", V2025_06_18))
_NAMED_LATE = (may("title", V2025_11_25), may("description", V2025_11_25))
_DEFAULT = may("default", V2025_11_25)
_MANY = (
    need("type", V2025_11_25),
    *_NAMED_LATE,
    may("minItems", V2025_11_25),
    may("maxItems", V2025_11_25),
    _DEFAULT,
)

RECORDS = (
    # sampling
    record(
        "CreateMessageRequestParams",
        _LEGACY_META,
        need("messages", of="SamplingMessage", shape="list"),
        may("modelPreferences", of="ModelPreferences"),
        may("systemPrompt"),
        may("includeContext"),
        may("temperature"),
        need("maxTokens"),
        may("stopSequences"),
        may("metadata"),
        may("tools", V2025_11_25, of="Tool", shape="list"),
        may("toolChoice", V2025_11_25, of="ToolChoice"),
        ASKED,
    ),
    record(
        "ModelPreferences",
        may("hints", of="ModelHint", shape="list"),
        may("costPriority"),
        may("speedPriority"),
        may("intelligencePriority"),
    ),
    record("ModelHint", may("name")),
    record("ToolChoice", may("mode", V2025_11_25)),
    record(
        "CreateMessageResult",
        may("_meta", of="ResultMetaObject"),
        need("role"),
        need("content", of="SamplingMessageContentBlock", shape="one or list"),
        need("model"),
        may("stopReason"),
    ),
    # roots
    record("ListRootsRequestParams", may("_meta", of="RequestMetaObject")),
    record(
        "ListRootsResult",
        may("_meta", until=LATEST_LEGACY, of="ResultMetaObject"),
        need("roots", of="Root", shape="list"),
    ),
    # elicitation
    record(
        "ElicitRequestFormParams",
        may("_meta", V2025_06_18, LATEST_LEGACY, of="RequestMetaObject"),
        may("mode", V2025_11_25),
        need("message", V2025_06_18),
        need("requestedSchema", V2025_06_18, of="ElicitRequestFormParams.requestedSchema"),
        ASKED,
    ),
    record(
        "ElicitRequestFormParams.requestedSchema",
        may("$schema", V2025_11_25),
        need("type", V2025_06_18),
        need("properties", V2025_06_18, of="PrimitiveSchemaDefinition", shape="map"),
        may("required", V2025_06_18),
    ),
    record(
        "ElicitRequestURLParams",
        may("_meta", V2025_11_25, LATEST_LEGACY, of="RequestMetaObject"),
        need("mode", V2025_11_25),
        need("message", V2025_11_25),
        need("url", V2025_11_25),
        need("elicitationId", V2025_11_25, V2025_11_25),
        ASKED,
    ),
    record(
        "ElicitResult",
        may("_meta", V2025_06_18, LATEST_LEGACY, of="ResultMetaObject"),
        need("action", V2025_06_18),
        may("content", V2025_06_18),
    ),
    # the fields of a form
    record(
        "StringSchema",
        need("type", V2025_06_18),
        *_NAMED,
        may("minLength", V2025_06_18),
        may("maxLength", V2025_06_18),
        may("format", V2025_06_18),
        _DEFAULT,
    ),
    record(
        "NumberSchema",
        need("type", V2025_06_18),
        *_NAMED,
        may("minimum", V2025_06_18),
        may("maximum", V2025_06_18),
        _DEFAULT,
    ),
    record("BooleanSchema", need("type", V2025_06_18), *_NAMED, may("default", V2025_06_18)),
    record(
        "LegacyTitledEnumSchema",
        need("type", V2025_06_18),
        *_NAMED,
        need("enum", V2025_06_18),
        may("enumNames", V2025_06_18),
        _DEFAULT,
    ),
    record(
        "UntitledSingleSelectEnumSchema",
        need("type", V2025_11_25),
        *_NAMED_LATE,
        need("enum", V2025_11_25),
        _DEFAULT,
    ),
    record(
        "TitledSingleSelectEnumSchema",
        need("type", V2025_11_25),
        *_NAMED_LATE,
        need("oneOf", V2025_11_25, of="TitledSingleSelectEnumSchema.oneOf", shape="list"),
        _DEFAULT,
    ),
    record("TitledSingleSelectEnumSchema.oneOf", need("const", V2025_11_25), need("title", V2025_11_25)),
    record(
        "UntitledMultiSelectEnumSchema",
        *_MANY,
        need("items", V2025_11_25, of="UntitledMultiSelectEnumSchema.items"),
    ),
    record("UntitledMultiSelectEnumSchema.items", need("type", V2025_11_25), need("enum", V2025_11_25)),
    record(
        "TitledMultiSelectEnumSchema",
        *_MANY,
        need("items", V2025_11_25, of="TitledMultiSelectEnumSchema.items"),
    ),
    record(
        "TitledMultiSelectEnumSchema.items",
        need("anyOf", V2025_11_25, of="TitledSingleSelectEnumSchema.oneOf", shape="list"),
    ),
)

UNIONS = (
    Union(
        "ElicitRequestParams",
        tag="mode",
        by_tag={"form": "ElicitRequestFormParams", "url": "ElicitRequestURLParams"},
        untagged="ElicitRequestFormParams",  # a request without a mode is a form (2025-11-25 client/elicitation)
    ),
    # The untitled enumerations have no property that the titled ones lack, so those stand for both.
    Union(
        "PrimitiveSchemaDefinition",
        by_key={
            "oneOf": "TitledSingleSelectEnumSchema",
            "enum": "LegacyTitledEnumSchema",
            "items": "TitledMultiSelectEnumSchema",
        },
        by_tag={
            "string": "StringSchema",
            "number": "NumberSchema",
            "integer": "NumberSchema",
            "boolean": "BooleanSchema",
        },
    ),
)
