"""How questions (sampling, elicitation) and their answers are said to a revision that lacks what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.spec.edits import CannotSay, Change, Edit, Marks, cannot, text_block
from mcpx.spec.revisions import V2025_06_18
from mcpx.spec.span import Span
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import elements_of, members_of, replaced, string_of, without

if TYPE_CHECKING:
    from msgspec import Raw

_BEFORE_TOOLS = Span(until=V2025_06_18)  # no tools in sampling, no arrays of content, no choice of several


def _no_tools(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """Sampling that offers the model tools is refused; where it may use none of them, the offer is left out."""
    choice = members_of(members.get("toolChoice")) or {}
    if elements_of(members.get("tools")) and string_of(choice.get("mode")) != "none":
        raise CannotSay(f"Sampling offers the model tools, which {target} has no way to do")
    return without(members, "tools", "toolChoice")


def _one_block_each(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """A message with several blocks becomes as many messages of the same role, which says the same."""
    messages = elements_of(members.get("messages"))
    if messages is None:
        return members
    said = [part for message in messages for part in _split(message)]
    if len(said) == len(messages) and all(a is b for a, b in zip(said, messages, strict=True)):
        return members
    return {**members, "messages": to_raw(said)}


def _split(message: Raw) -> list[Raw]:
    members = members_of(message)
    blocks = elements_of(members.get("content")) if members is not None else None
    if members is None or blocks is None:
        return [message]
    first = [to_raw({**members, "content": block}) for block in blocks[:1]]  # the metadata is said once
    rest = without(members, "_meta")
    return first + [to_raw({**rest, "content": block}) for block in blocks[1:]]


def _one_block(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """An answer with one block is that block; one that is all plain text is one text."""
    blocks = elements_of(members.get("content"))
    if blocks is None:
        return members
    if len(blocks) == 1:
        return {**members, "content": blocks[0]}
    texts = [_plain_text(block) for block in blocks]
    told = [text for text in texts if text is not None]
    if len(told) < len(texts):
        raise CannotSay(f"The answer holds several blocks of content, which {target} has no way to say")
    return {**members, "content": to_raw(text_block("\n".join(told)))}


def _plain_text(block: Raw) -> str | None:
    members = members_of(block) or {}
    if string_of(members.get("type")) != "text" or members.keys() != {"type", "text"}:
        return None
    return string_of(members.get("text"))


def _one_choice_each(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """The answer to a choice of several cannot be given where there is no such question."""
    for name, value in (members_of(members.get("content")) or {}).items():
        if elements_of(value) is not None:
            raise CannotSay(f"The answer to {name!r} is a list, which {target} has no way to say")
    return members


def _form_only(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """A host that shows URLs and no forms has no elicitation for a revision that knows forms alone."""
    modes = members_of(members.get("elicitation"))
    return without(members, "elicitation") if modes is not None and "url" in modes and "form" not in modes else members


EDITS: dict[str, tuple[Edit, ...]] = {
    "CreateMessageRequestParams": (
        Edit(_BEFORE_TOOLS, Marks(keys=frozenset({"tools", "toolChoice"})), _no_tools),
        Edit(_BEFORE_TOOLS, Marks(patterns=frozenset({r'content"\s*:\s*\['})), _one_block_each),
    ),
    "CreateMessageResult": (Edit(_BEFORE_TOOLS, Marks(patterns=frozenset({r'content"\s*:\s*\['})), _one_block),),
    "ElicitResult": (Edit(_BEFORE_TOOLS, Marks(patterns=frozenset({r"\s*:\s*\["})), _one_choice_each),),
    "ClientCapabilities": (Edit(_BEFORE_TOOLS, Marks(keys=frozenset({"url"})), _form_only),),
}


def _names_apart(members: dict[str, Raw], target: str) -> dict[str, Raw]:
    """``oneOf`` with a title for each value is ``enum`` with ``enumNames``."""
    options = [members_of(option) or {} for option in elements_of(members.get("oneOf")) or ()]
    values = [option["const"] for option in options if "const" in option]
    if len(values) < len(options):
        return members
    titles = [option.get("title", option["const"]) for option in options]
    return replaced(members, "oneOf", (("enum", to_raw(values)), ("enumNames", to_raw(titles))))


RESTATEMENTS: dict[str, Change] = {
    "TitledSingleSelectEnumSchema": _names_apart,
    "TitledMultiSelectEnumSchema": cannot("The form asks for a choice of several"),
    "ElicitRequestURLParams": cannot("The question asks for a visit to a URL"),
}
