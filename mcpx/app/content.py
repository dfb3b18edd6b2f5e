"""What tools and prompts are made of: content blocks and messages (2026-07-28 server/tools, Tool Result)."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text. A plain ``str`` says the same."""

    text: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image", rename="camel"):
    """An image, as the bytes of its file."""

    data: bytes
    mime_type: str = "image/png"


class Audio(msgspec.Struct, frozen=True, tag_field="type", tag="audio", rename="camel"):
    """Sound, as the bytes of its file."""

    data: bytes
    mime_type: str = "audio/wav"


class ResourceLink(
    msgspec.Struct, frozen=True, tag_field="type", tag="resource_link", rename="camel", omit_defaults=True
):
    """A link to a resource, which need not be in the app's list of resources."""

    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET  # bytes


class TextContents(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The contents of a resource that is text."""

    uri: str
    text: str
    mime_type: str | UnsetType = UNSET


class BlobContents(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The contents of a resource that is bytes."""

    uri: str
    blob: bytes
    mime_type: str | UnsetType = UNSET


class EmbeddedResource(msgspec.Struct, frozen=True, tag_field="type", tag="resource"):
    """A resource with its contents."""

    resource: TextContents | BlobContents


Content = Text | Image | Audio | ResourceLink | EmbeddedResource
_CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource)


class Message(msgspec.Struct, frozen=True):
    """One message of a prompt. A plain ``str`` or content is a message of the user's."""

    content: str | Content
    role: Literal["user", "assistant"] = "user"


def is_content(value: object) -> bool:
    """Whether a value is said in content blocks alone: text, content, a sequence of these, or nothing at all."""
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, (str, *_CONTENT)) for item in typing.cast("Sequence[object]", value))
    return value is None or isinstance(value, (str, *_CONTENT))


def is_content_type(annotation: Any) -> bool:
    """The same of the values of a type."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return all(is_content_type(member) for member in typing.get_args(annotation))
    if origin in (list, tuple, Sequence):
        return all(member is ... or is_content_type(member) for member in typing.get_args(annotation))
    return annotation in (str, None, type(None), *_CONTENT)


def blocks(value: Any) -> list[Content]:
    """A value that ``is_content`` as content blocks."""
    if value is None:
        return []
    if isinstance(value, str):
        return [Text(value)]
    if isinstance(value, (list, tuple)):
        return [block for item in typing.cast("Sequence[Any]", value) for block in blocks(item)]
    return [value]


def messages(value: Any) -> list[dict[str, Any]]:
    """What a prompt's function returned, as the messages of the result.

    Raises ``TypeError`` where it is nothing of the kind.
    """
    parts: Sequence[Any] = typing.cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else [value]
    made: list[dict[str, Any]] = []
    for part in parts:
        content: Any = part.content if isinstance(part, Message) else part
        if not isinstance(content, (str, *_CONTENT)):
            raise TypeError(f"a prompt returns text, content or messages, not {type(content).__name__}")
        [block] = blocks(content)
        made.append({"role": part.role if isinstance(part, Message) else "user", "content": block})
    return made
