"""What an app offers: tools, prompts, resources and templates, each with its entry in the list and the function
behind it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.app.function import Function
from mcpx.app.template import UriTemplate
from mcpx.wire.frames import to_raw

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # 2026-07-28 server/tools, Tool Names


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool does to the world, as hosts may show it or ask their user about it. What is not said stays open.

    On the wire ``readOnlyHint`` and so on (2026-07-28 schema, ToolAnnotations).
    """

    read_only: bool | UnsetType = msgspec.field(default=UNSET, name="readOnlyHint")
    destructive: bool | UnsetType = msgspec.field(default=UNSET, name="destructiveHint")
    idempotent: bool | UnsetType = msgspec.field(default=UNSET, name="idempotentHint")
    open_world: bool | UnsetType = msgspec.field(default=UNSET, name="openWorldHint")


class Tool:
    """A tool."""

    def __init__(
        self, name: str, function: Callable[..., Any], title: str | None, description: str | None, hints: Hints | None
    ) -> None:
        self.name = _checked(name)
        self.function = Function(f"tool {name}", function)
        self.returns = self.function.returns()
        self.entry = _entry(
            name=name,
            title=title,
            description=description or self.function.documentation,
            inputSchema=self.function.parameters.schema,
            outputSchema=self.returns.schema,
            annotations=hints,
        )


class Completions:
    """The functions that complete the arguments of one prompt or template; ``names`` are the arguments that it has."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.functions: dict[str, Function] = {}

    def add(self, argument: str, function: Function) -> None:
        if argument not in self.names:
            known = ", ".join(self.names) or "none"
            raise ValueError(f"{function.what}: there is no such argument, only {known}")
        if argument in self.functions:
            raise ValueError(f"{function.what} is there already")
        self.functions[argument] = function


class Prompt:
    """A prompt."""

    def __init__(self, name: str, function: Callable[..., Any], title: str | None, description: str | None) -> None:
        self.name = _checked(name)
        self.function = Function(f"prompt {name}", function)
        self.description = description or self.function.documentation
        parameters = self.function.parameters
        self.completions = Completions(parameters.names)
        arguments = [
            _entry(name=each, description=parameters.description(each), required=each in parameters.required)
            for each in parameters.names
        ]
        self.entry = _entry(name=name, title=title, description=self.description, arguments=arguments or None)


class Resource:
    """A resource with a URI of its own."""

    def __init__(
        self,
        uri: str,
        function: Callable[..., Any],
        name: str,
        title: str | None,
        description: str | None,
        mime_type: str | None,
    ) -> None:
        self.uri = uri
        self.mime_type = mime_type
        self.function = Function(f"resource {uri}", function)
        if self.function.parameters.names:
            raise TypeError(f"resource {uri}: nothing could give its parameters; a template has some")
        self.entry = _entry(
            uri=uri,
            name=name,
            title=title,
            description=description or self.function.documentation,
            mimeType=mime_type,
        )


class Template:
    """A family of resources, by a URI template."""

    def __init__(
        self,
        uri_template: str,
        function: Callable[..., Any],
        name: str,
        title: str | None,
        description: str | None,
        mime_type: str | None,
    ) -> None:
        self.template = UriTemplate(uri_template)
        self.mime_type = mime_type
        self.function = Function(f"resource template {uri_template}", function)
        parameters = self.function.parameters
        if set(self.template.names) != set(parameters.names):
            raise TypeError(
                f"resource template {uri_template}: its names are {', '.join(self.template.names)}, "
                f"but the function's parameters are {', '.join(parameters.names) or 'none'}"
            )
        self.completions = Completions(self.template.names)
        self.entry = _entry(
            uriTemplate=uri_template,
            name=name,
            title=title,
            description=description or self.function.documentation,
            mimeType=mime_type,
        )


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'")
    return name


def _entry(**members: Any) -> Raw:
    """An object of a list, without the members that are ``None``; encoded once and for all."""
    return to_raw({name: value for name, value in members.items() if value is not None})
