"""How tool results, content and tools are said to a revision that lacks what they hold.

(The lines of "What cannot be said in an older revision", but for those about questions.)
"""

from __future__ import annotations

from msgspec import Raw

from mcpx.spec.edits import CannotSay, Change, Edit, Marks, cannot, text_block
from mcpx.spec.meta import NOT_IN_RESULTS
from mcpx.spec.revisions import LATEST_LEGACY, V2025_06_18, V2025_11_25
from mcpx.spec.span import Span
from mcpx.spec.tables import RECORDS
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import FALSE, TRUE, elements_of, is_object, members_of, string_of, text_of, without

_LEGACY = Span(until=LATEST_LEGACY)
_STRUCTURED = RECORDS["CallToolResult"].fields["structuredContent"].span
_SAFE_ICONS = ("https:", "data:")


def _structured_as_text(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """``structuredContent`` is left out where the target has none, or where it is no object (any JSON is modern)."""
    structured = members.get("structuredContent")
    if structured is None or (_STRUCTURED.covers(target) and is_object(structured)):
        return members
    rest = without(members, "structuredContent")
    if "content" not in rest or elements_of(rest["content"]) == []:
        rest["content"] = to_raw([text_block(text_of(structured))])
    return rest


def _object_output(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """An ``outputSchema`` for anything but an object is left out (any schema is modern)."""
    schema = members_of(members.get("outputSchema"))
    if schema is not None and string_of(schema.get("type")) == "object":
        return members
    return without(members, "outputSchema")


_SCHEMAS = {bytes(TRUE): Raw(b"{}"), bytes(FALSE): Raw(b'{"not":{}}')}


def _boolean_properties(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """The boolean schemas of a tool's parameters, written as the objects that mean the same (booleans are modern)."""
    out = members
    for name in ("inputSchema", "outputSchema"):
        schema = members_of(members.get(name))
        properties = members_of(schema.get("properties")) if schema is not None else None
        if schema is None or properties is None:
            continue
        said = {key: _SCHEMAS.get(bytes(value), value) for key, value in properties.items()}
        if any(said[key] is not value for key, value in properties.items()):
            out = {**out, name: to_raw({**schema, "properties": to_raw(said)})}
    return out


def _complete(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """A result that asks for input is no result to a peer that knows none of that."""
    if string_of(members.get("resultType")) == "input_required":
        raise CannotSay(f"The result asks for input, which {target} has no way to do")
    return members


def _safe_icons(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """Icons that a host should not fetch are left out (2025-11-25 basic/index, Icons)."""
    icons = elements_of(members.get("icons"))
    if icons is None:
        return members
    safe = [icon for icon in icons if _is_safe(icon)]
    if len(safe) == len(icons):
        return members
    return {**members, "icons": to_raw(safe)} if safe else without(members, "icons")


def _is_safe(icon: Raw) -> bool:
    source = string_of((members_of(icon) or {}).get("src"))
    return source is not None and source.lstrip().lower().startswith(_SAFE_ICONS)


def _in_its_place(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """Metadata without reserved keys that are of other messages, or of another hop. For a modern host, whose results
    get new metadata, ``stamp_modern`` does it.
    """
    return without(members, *NOT_IN_RESULTS)


_LEGACY_STRUCTURED = Marks(patterns=frozenset({r'structuredContent"\s*:\s*[^{\s]'}))
_TYPED = Edit(_LEGACY, Marks(keys=frozenset({"resultType"})), _complete)


EDITS: dict[str, tuple[Edit, ...]] = {
    "ResultMetaObject": (Edit(_LEGACY, Marks(keys=NOT_IN_RESULTS), _in_its_place),),
    "CallToolResult": (_TYPED, Edit(_LEGACY, _LEGACY_STRUCTURED, _structured_as_text)),
    "ToolResultContent": (Edit(Span(V2025_11_25, V2025_11_25), _LEGACY_STRUCTURED, _structured_as_text),),
    "GetPromptResult": (_TYPED,),
    "ReadResourceResult": (_TYPED,),
    "Tool": (
        Edit(Span(V2025_06_18, LATEST_LEGACY), Marks(keys=frozenset({"outputSchema"})), _object_output),
        Edit(_LEGACY, Marks(patterns=frozenset({r"\s*:\s*(?:true|false)"})), _boolean_properties),
    ),
    "Implementation": (Edit(Span(V2025_11_25), Marks(keys=frozenset({"icons"})), _safe_icons),),
}


def _link_as_text(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    name = string_of(members.get("title")) or string_of(members.get("name"))
    size = members.get("size")
    told = [
        string_of(members.get("uri")),
        string_of(members.get("mimeType")),
        None if size is None else f"{text_of(size)} bytes",
    ]
    return text_block(_sentence(f"Resource: {name}" if name else "Resource", told), like=members)


def _audio_as_text(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    data = string_of(members.get("data"))
    size = None if data is None else f"{_decoded_size(data)} bytes"
    return text_block(_sentence("Audio", [string_of(members.get("mimeType")), size]), like=members)


def _sentence(what: str, told: list[str | None]) -> str:
    known = ", ".join(part for part in told if part is not None)
    return f"{what} ({known})" if known else what


def _decoded_size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


RESTATEMENTS: dict[str, Change] = {
    "ResourceLink": _link_as_text,
    "AudioContent": _audio_as_text,
    "ToolUseContent": cannot("The conversation holds the use of a tool"),
    "ToolResultContent": cannot("The conversation holds the result of a tool"),
}
