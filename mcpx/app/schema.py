"""JSON schemas of Python types and signatures, and the values that fit them."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any

import msgspec

from mcpx.app.content import is_content, is_content_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Raw

_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def schema_of(annotation: Any) -> dict[str, Any]:
    """The JSON schema (2020-12) of a type, as one object; types that it refers to are in its ``$defs``.

    Raises ``TypeError`` for a type that JSON has no form for.
    """
    [schema], components = msgspec.json.schema_components([annotation], ref_template="#/$defs/{name}")
    root = dict(schema)
    own = root.get("$ref", "").removeprefix("#/$defs/")
    # The definition itself in the place of a reference to it, unless it holds itself.
    if own in components and f'"#/$defs/{own}"'.encode() not in msgspec.json.encode(components):
        root = components.pop(own)
        root.pop("title", None)  # the name of a Python class says nothing to a model
    return {**root, "$defs": components} if components else root


class Parameters:
    """The parameters of a function: their JSON schema, and how values become arguments.

    A parameter annotated with ``context`` is the function's way to speak to the host, and no part of the schema.
    Every other one needs an annotation. Raises ``TypeError`` for a signature that cannot be called with JSON.
    """

    def __init__(self, function: Callable[..., Any], context: type) -> None:
        self.context: str | None = None  # the name of the parameter that takes the context
        hints = typing.get_type_hints(function, include_extras=True)
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in _KINDS:
                raise TypeError(f"parameter {name!r} cannot be given by name")
            if name not in hints:
                raise TypeError(f"parameter {name!r} needs a type annotation")
            if hints[name] is context:
                self.context = name
            elif parameter.default is inspect.Parameter.empty:
                fields.append((name, hints[name]))
            else:
                fields.append((name, hints[name], parameter.default))
        self.struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        self.schema = schema_of(self.struct)
        if not self.schema["required"]:
            del self.schema["required"]
        self.names = self.struct.__struct_fields__
        self.required = tuple(self.schema.get("required", ()))
        self._decoder = msgspec.json.Decoder(self.struct)

    def decode(self, arguments: Raw | bytes) -> dict[str, Any]:
        """Arguments out of a JSON object, types strict. Raises ``msgspec.ValidationError`` where they do not fit."""
        return self._by_name(self._decoder.decode(arguments))

    def convert(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Arguments out of strings, which is all that prompts and URIs carry.

        Numbers and booleans are read out of them. Raises ``msgspec.ValidationError`` where they do not fit.
        """
        return self._by_name(msgspec.convert(dict(arguments), self.struct, strict=False))

    def description(self, name: str) -> str | None:
        """What ``Annotated[..., msgspec.Meta(description=...)]`` says of a parameter."""
        return self.schema["properties"][name].get("description")

    def _by_name(self, struct: msgspec.Struct) -> dict[str, Any]:
        return {name: getattr(struct, name) for name in self.names}


class Returns:
    """What a tool returns, by its annotation.

    Text, content and sequences of these are content blocks and nothing more. Anything else is structured content,
    which has an output schema and is checked against its type (2026-07-28 server/tools, Output Schema). Without an
    annotation, or with ``Any``, each value decides, and there is no schema.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(function, include_extras=True)
        self.schema: dict[str, Any] | None = None
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._free = hints.get("return", Any) is Any
        if not self._free and not is_content_type(hints["return"]):
            self.schema = schema_of(hints["return"])
            self._decoder = msgspec.json.Decoder(hints["return"])

    def structured(self, value: Any) -> bytes | None:
        """A value as the JSON of structured content; ``None`` where it is content blocks and nothing more.

        Raises ``TypeError`` or ``msgspec.ValidationError`` for a value that is not what the annotation says.
        """
        if self._decoder is None:
            if is_content(value):
                return None
            if not self._free:
                raise TypeError(f"returned {type(value).__name__}, which is not what it is annotated with")
        encoded = msgspec.json.encode(value)
        if self._decoder is not None:
            self._decoder.decode(encoded)
        return encoded
