"""The table "What cannot be said in an older revision", line by line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.errors import LocalProtocolError
from mcpx.spec.carry import CannotSay, carry, carry_question, carry_result, stamp_modern
from mcpx.spec.meta import SERVER_INFO
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LEGACY,
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
from mcpx.wire.frames import members

NO_STRUCTURE = (V2024_11_05, V2025_03_26)
OBJECTS_ONLY = (V2025_06_18, V2025_11_25)


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def result(value: Any, target: str, method: str = "tools/call") -> Any:
    return msgspec.json.decode(carry_result(method, raw(value), V2026_07_28, target))


def item(name: str, value: Any, target: str) -> Any:
    return msgspec.json.decode(carry(name, raw(value), V2026_07_28, target))


def question(method: str, params: Any, target: str, **more: Any) -> Any:
    carried = carry_question(method, members(msgspec.json.encode(params)), V2026_07_28, target, **more)
    return {key: msgspec.json.decode(value) for key, value in carried.items()}


# -- structuredContent before 2025-06-18


@pytest.mark.parametrize("target", NO_STRUCTURE)
def test_structured_content_is_left_out_before_it_exists(target: str) -> None:
    text = {"type": "text", "text": "5"}
    assert result({"content": [text], "structuredContent": {"n": 5}}, target) == {"content": [text]}


@pytest.mark.parametrize("target", NO_STRUCTURE)
@pytest.mark.parametrize("content", [b'"content":[],', b'"content":[ ] ,', b""])
def test_structured_content_becomes_text_where_there_is_no_other(target: str, content: bytes) -> None:
    payload = Raw(b"{" + content + b'"structuredContent":{"n":1.0,"t":"\xc3\xa9"}}')
    carried = msgspec.json.decode(carry_result("tools/call", payload, V2025_06_18, target))
    assert carried == {"content": [{"type": "text", "text": '{"n":1.0,"t":"é"}'}]}


# -- outputSchema or structuredContent that is no object, up to 2025-11-25


@pytest.mark.parametrize("value", [[1, 2], "x", 5, 1.5, True, None])
def test_structured_content_that_is_no_object_is_left_out_for_legacy(value: Any) -> None:
    text = {"type": "text", "text": "5"}
    for target in LEGACY:
        assert result({"content": [text], "structuredContent": value}, target) == {"content": [text]}
        told = result({"content": [], "structuredContent": value}, target)["content"]
        assert [msgspec.json.decode(block["text"]) for block in told] == [value]
    modern = {"content": [text], "structuredContent": value, "resultType": "complete"}
    assert result(modern, V2026_07_28) == modern


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": "5"}]])
@pytest.mark.parametrize("spelt", ["structuredContent", "structured\\u0043ontent"])
def test_structured_content_that_a_legacy_server_writes_as_null_is_unsaid(content: list[Any], spelt: str) -> None:
    """Only from 2026-07-28 on it may be any JSON, null among it; before, it is how some leave it out."""
    payload = Raw(b'{"content":%b,"%b" : null}' % (msgspec.json.encode(content), spelt.encode()))
    for source in LEGACY:
        for target in REVISIONS:
            assert msgspec.json.decode(carry_result("tools/call", payload, source, target)) == {"content": content}


@pytest.mark.parametrize("schema", [{"type": "array"}, {}, {"anyOf": []}, {"type": ["object", "null"]}, True])
def test_an_output_schema_that_is_not_for_an_object_is_left_out_for_legacy(schema: Any) -> None:
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    for target in LEGACY:
        assert item("Tool", tool, target) == {"name": "x", "inputSchema": {"type": "object"}}
    assert item("Tool", tool, V2026_07_28) == tool


def test_an_output_schema_for_an_object_is_kept_where_it_exists() -> None:
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "title": "mine"}}
    for target in OBJECTS_ONLY:
        assert item("Tool", tool, target) == tool


def test_the_structure_in_a_tool_result_of_a_conversation_is_an_object_too() -> None:
    block = {"type": "tool_result", "toolUseId": "1", "content": [], "structuredContent": [1]}
    said = item("SamplingMessage", {"role": "user", "content": block}, V2025_11_25)
    assert said["content"] == {
        "type": "tool_result",
        "toolUseId": "1",
        "content": [{"type": "text", "text": "[1]"}],
    }


def test_boolean_schemas_of_parameters_are_objects_for_legacy() -> None:
    """2026-07-28 lets any JSON Schema stand there; before, the properties of a tool's schema are objects."""
    schema = {"type": "object", "properties": {"a": True, "b": False, "c": {"d": True}}, "additionalProperties": False}
    tool = {"name": "x", "inputSchema": schema, "outputSchema": schema}
    said = {**schema, "properties": {"a": {}, "b": {"not": {}}, "c": {"d": True}}}
    assert item("Tool", tool, LATEST_LEGACY) == {"name": "x", "inputSchema": said, "outputSchema": said}
    assert item("Tool", tool, V2024_11_05) == {"name": "x", "inputSchema": said}
    never = {"name": "x", "inputSchema": {"type": "object", "properties": {"b": False}}}
    assert item("Tool", never, V2024_11_05)["inputSchema"]["properties"] == {"b": {"not": {}}}
    assert item("Tool", tool, V2026_07_28) == tool


# -- resource_link before 2025-06-18, audio before 2025-03-26


LINK = {
    "type": "resource_link",
    "uri": "file:///a.txt",
    "name": "a",
    "mimeType": "text/plain",
    "size": 12,
    "icons": [{"src": "https://example.com/i.png"}],
    "annotations": {"priority": 1, "lastModified": "2025-01-01"},
    "_meta": {"x": 1},
}


@pytest.mark.parametrize("target", NO_STRUCTURE)
def test_a_resource_link_is_told_as_text(target: str) -> None:
    said = result({"content": [LINK]}, target)["content"]
    assert said == [
        {
            "type": "text",
            "text": "Resource: a (file:///a.txt, text/plain, 12 bytes)",
            "annotations": {"priority": 1},
            "_meta": {"x": 1},
        }
    ]
    prompt = {"messages": [{"role": "user", "content": {"type": "resource_link", "uri": "file:///a", "title": "A"}}]}
    assert result(prompt, target, "prompts/get")["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Resource: A (file:///a)"}}
    ]


def test_a_resource_link_stays_where_it_exists() -> None:
    assert result({"content": [LINK]}, V2025_06_18)["content"] == [
        {key: value for key, value in LINK.items() if key != "icons"}
    ]
    assert result({"content": [LINK]}, V2025_11_25)["content"] == [LINK]


@pytest.mark.parametrize(("data", "size"), [("", 0), ("aA==", 1), ("aGU=", 2), ("aGVs", 3), ("aGVsbG8=", 5)])
def test_audio_is_told_as_text(data: str, size: int) -> None:
    audio = {"type": "audio", "data": data, "mimeType": "audio/wav"}
    said = {"type": "text", "text": f"Audio (audio/wav, {size} bytes)"}
    assert result({"content": [audio]}, V2024_11_05)["content"] == [said]
    assert result({"content": [audio]}, V2025_03_26)["content"] == [audio]
    message = {"role": "user", "content": audio}
    asked = question("sampling/createMessage", {"messages": [message], "maxTokens": 1}, V2024_11_05)
    assert asked["messages"] == [{"role": "user", "content": said}]


def test_a_block_without_its_particulars_is_still_told() -> None:
    said = result({"content": [{"type": "audio"}, {"type": "resource_link"}]}, V2024_11_05)["content"]
    assert said == [{"type": "text", "text": "Audio"}, {"type": "text", "text": "Resource"}]


def test_a_kind_of_block_that_no_revision_has_is_its_senders_own() -> None:
    block = {"type": "hologram", "title": "mine"}
    for target in REVISIONS:
        assert result({"content": [block]}, target) == {"content": [block]}


# -- fields of types that lack them


FULL_TOOL = {
    "name": "x",
    "title": "X",
    "icons": [{"src": "https://example.com/i.png", "theme": "dark"}],
    "inputSchema": {"type": "object"},
    "annotations": {"title": "A", "readOnlyHint": True},
    "execution": {"taskSupport": "optional"},
    "_meta": {"x": 1},
}


@pytest.mark.parametrize(
    ("target", "lost"),
    [
        (V2024_11_05, {"title", "icons", "annotations", "execution"}),
        (V2025_03_26, {"title", "icons", "execution"}),
        (V2025_06_18, {"icons", "execution"}),
        (V2025_11_25, set[str]()),
        (V2026_07_28, {"execution"}),
    ],
)
def test_fields_of_a_tool(target: str, lost: set[str]) -> None:
    assert item("Tool", FULL_TOOL, target) == {key: value for key, value in FULL_TOOL.items() if key not in lost}


@pytest.mark.parametrize("target", NO_STRUCTURE)
def test_a_meta_is_kept_even_where_the_type_has_none(target: str) -> None:
    kept = {"_meta": {"x": 1}}
    assert item("Resource", {"uri": "file:///a", "name": "a", **kept}, target)["_meta"] == {"x": 1}
    assert item("Prompt", {"name": "a", **kept}, target)["_meta"] == {"x": 1}
    assert result({"content": [{"type": "text", "text": "x", **kept}]}, target)["content"][0]["_meta"] == {"x": 1}


def test_arguments_of_a_prompt_lose_their_titles() -> None:
    prompt = {"name": "p", "title": "P", "arguments": [{"name": "a", "title": "A"}, {"name": "b"}]}
    assert item("Prompt", prompt, V2025_03_26) == {"name": "p", "arguments": [{"name": "a"}, {"name": "b"}]}


# -- sampling content as an array, tool_use, tool_result before 2025-11-25


BEFORE_TOOLS = (V2024_11_05, V2025_03_26, V2025_06_18)
A, B = {"type": "text", "text": "a"}, {"type": "image", "data": "aA==", "mimeType": "image/png"}


def sampled(messages: list[Any], **more: Any) -> dict[str, Any]:
    return {"messages": messages, "maxTokens": 5, **more}


@pytest.mark.parametrize("target", BEFORE_TOOLS)
def test_an_array_of_sampling_content_is_split_into_messages(target: str) -> None:
    messages = [
        {"role": "user", "content": [A, B], "_meta": {"x": 1}},
        {"role": "assistant", "content": A},
        {"role": "user", "content": []},
    ]
    assert question("sampling/createMessage", sampled(messages), target) == sampled(
        [
            {"role": "user", "content": A, "_meta": {"x": 1}},
            {"role": "user", "content": B},
            {"role": "assistant", "content": A},
        ]
    )


def test_an_array_of_sampling_content_stays_where_it_exists() -> None:
    asked = sampled([{"role": "user", "content": [A, B]}])
    assert question("sampling/createMessage", asked, V2025_11_25) == asked


@pytest.mark.parametrize("target", BEFORE_TOOLS)
@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "1", "name": "x", "input": {}},
        {"type": "tool_result", "toolUseId": "1", "content": []},
    ],
)
def test_tools_in_the_conversation_refuse_the_question(target: str, block: Any, as_list: bool) -> None:
    with pytest.raises(CannotSay, match=f"of a tool, which {target} has no way to say"):
        question(
            "sampling/createMessage", sampled([{"role": "user", "content": [A, block] if as_list else block}]), target
        )


TOOL = {"name": "x", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize("target", BEFORE_TOOLS)
@pytest.mark.parametrize("more", [{"tools": [TOOL]}, {"tools": [TOOL], "toolChoice": {"mode": "auto"}}])
def test_offering_the_model_tools_refuses_the_question(target: str, more: Any) -> None:
    with pytest.raises(CannotSay, match="offers the model tools"):
        question("sampling/createMessage", sampled([], **more), target)


@pytest.mark.parametrize(
    "more", [{"tools": []}, {"toolChoice": {"mode": "auto"}}, {"tools": [TOOL], "toolChoice": {"mode": "none"}}]
)
def test_an_offer_of_no_tools_is_left_out(more: Any) -> None:
    assert question("sampling/createMessage", sampled([], **more), V2025_06_18) == sampled([])


def test_answers_of_several_blocks() -> None:
    def answer(content: Any, target: str = V2025_06_18) -> Any:
        value = {"role": "assistant", "model": "m", "content": content}
        return result(value, target, "sampling/createMessage")["content"]

    assert answer([B]) == B
    assert answer([A, {"type": "text", "text": "b"}]) == {"type": "text", "text": "a\nb"}
    assert answer([]) == {"type": "text", "text": ""}
    assert answer([A, B], V2025_11_25) == [A, B]
    for content in ([A, B], [A, {**A, "_meta": {}}], {"type": "tool_use", "id": "1", "name": "x", "input": {}}):
        with pytest.raises(CannotSay):
            answer(content)


# -- enumerations: titled or multiple choice before 2025-11-25


def form(**properties: Any) -> dict[str, Any]:
    return {"message": "m", "requestedSchema": {"type": "object", "properties": properties, "required": ["a"]}}


def test_a_titled_choice_is_an_enum_with_names() -> None:
    titled = {
        "type": "string",
        "title": "Colour",
        "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
        "default": "r",
    }
    assert question("elicitation/create", form(a=titled), V2025_06_18) == form(
        a={"type": "string", "title": "Colour", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    )
    assert question("elicitation/create", form(a=titled), V2025_11_25) == form(a=titled)


def test_defaults_and_the_mode_are_left_out_of_an_older_form() -> None:
    asked = form(
        a={"type": "string", "default": "x", "minLength": 1},
        b={"type": "integer", "default": 1},
        c={"type": "boolean", "default": True},
        default={"type": "string", "enum": ["default"], "enumNames": ["title"], "default": "default"},
    )
    asked["mode"] = "form"
    asked["requestedSchema"]["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    assert question("elicitation/create", asked, V2025_06_18) == form(
        a={"type": "string", "minLength": 1},
        b={"type": "integer"},
        c={"type": "boolean", "default": True},
        default={"type": "string", "enum": ["default"], "enumNames": ["title"]},
    )


@pytest.mark.parametrize("items", [{"type": "string", "enum": ["a"]}, {"anyOf": [{"const": "a", "title": "A"}]}])
def test_a_choice_of_several_refuses_the_question(items: Any) -> None:
    asked = form(a={"type": "array", "items": items})
    assert question("elicitation/create", asked, V2025_11_25) == asked
    with pytest.raises(CannotSay, match="choice of several"):
        question("elicitation/create", asked, V2025_06_18)


def test_the_answer_to_a_choice_of_several_is_refused_too() -> None:
    answer = {"action": "accept", "content": {"a": ["x"], "b": "y"}}
    assert result(answer, V2025_11_25, "elicitation/create") == answer
    with pytest.raises(CannotSay, match="'a' is a list"):
        result(answer, V2025_06_18, "elicitation/create")


@pytest.mark.parametrize("target", NO_STRUCTURE)
def test_elicitation_is_refused_before_it_exists(target: str) -> None:
    with pytest.raises(CannotSay, match="has no elicitation/create"):
        question("elicitation/create", form(a={"type": "string"}), target)


# -- url elicitation


VISIT = {"mode": "url", "message": "m", "url": "https://example.com"}


def test_a_visit_to_a_url_gets_an_id_where_one_is_required() -> None:
    assert question("elicitation/create", VISIT, V2025_11_25, elicitation_id="e1") == {**VISIT, "elicitationId": "e1"}
    assert question("elicitation/create", VISIT, V2026_07_28, elicitation_id="e1") == VISIT
    own = {**VISIT, "elicitationId": "theirs"}
    assert question("elicitation/create", own, V2025_11_25, elicitation_id="e1") == own
    assert question("elicitation/create", own, V2026_07_28) == VISIT
    with pytest.raises(LocalProtocolError):
        question("elicitation/create", VISIT, V2025_11_25)


def test_a_form_gets_no_id() -> None:
    asked = form(a={"type": "string"})
    assert question("elicitation/create", asked, V2025_11_25, elicitation_id="e1") == asked


def test_a_visit_to_a_url_is_refused_before_it_exists() -> None:
    with pytest.raises(CannotSay, match="visit to a URL"):
        question("elicitation/create", VISIT, V2025_06_18, elicitation_id="e1")


# -- resultType, ttlMs, cacheScope, serverInfo in _meta


MODERN = {
    "contents": [],
    "resultType": "complete",
    "ttlMs": 5,
    "cacheScope": "private",
    "_meta": {SERVER_INFO: {"name": "up", "version": "1"}},
}


@pytest.mark.parametrize("target", LEGACY)
def test_what_only_a_modern_result_has_is_left_out_for_legacy(target: str) -> None:
    assert result(MODERN, target, "resources/read") == {"contents": []}
    with_own = {**MODERN, "_meta": {**MODERN["_meta"], "x": 1}}
    assert result(with_own, target, "resources/read") == {"contents": [], "_meta": {"x": 1}}


def test_what_a_modern_result_has_is_made() -> None:
    info = raw({"name": "up", "version": "1"})
    made = stamp_modern("resources/read", raw({"contents": []}), info, 5, "private")
    assert msgspec.json.decode(made) == MODERN
