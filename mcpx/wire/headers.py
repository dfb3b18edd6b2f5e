"""HTTP header values: text that no header can hold, wrapped so that it can, and the two headers that name media types.

What MCP calls its headers, and which of them must be there, is not known here: see ``mcpx.spec.headers``.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64

ANYTHING = "*/*"

_PREFIX = "=?base64?"
_SUFFIX = "?="
# What a value may hold (RFC 9110 section 5.5), and what of it is sent as it is. A tab is left out of that: a header may
# hold it and it is a control character, and wrapped it is understood by whoever counts it as either.
_ALLOWED = re.compile(r"[\t\x20-\x7e]*")
_PLAIN = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
_OPTIONAL_WHITESPACE = " \t"  # around a value, and no part of it (RFC 9110 section 5.6.3)

_ELEMENT = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')  # of a list; a comma in quotes parts nothing
_PARAMETER = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\])*"?)+')
_WEIGHT = re.compile(r"q\s*=\s*([0-9]+(?:\.[0-9]*)?)", re.IGNORECASE)


def encode_value(text: str) -> str:
    """A text as the value of a header: as it is where that is safe, else in base64 between the sentinel's markers.

    Visible ASCII with spaces inside is safe, and so is nothing at all; what looks like the sentinel is not. Raises
    ``ValueError`` for a lone surrogate, which UTF-8 has no form for. (2026-07-28 basic/transports/streamable-http,
    Value Encoding.)
    """
    if _PLAIN.fullmatch(text) and not (text.startswith(_PREFIX) and text.endswith(_SUFFIX)):
        return text
    return f"{_PREFIX}{b2a_base64(text.encode(), newline=False).decode()}{_SUFFIX}"


def decode_value(value: str) -> str:
    """The text that a header's value stands for. The inverse of ``encode_value``.

    A value that lacks one of the markers, or has it in another case, stands for itself. Raises ``ValueError``, with
    what is wrong, for characters that no header may hold, and between the markers for what is no base64 of UTF-8.
    (2026-07-28 basic/transports/streamable-http, Value Encoding.)
    """
    value = value.strip(_OPTIONAL_WHITESPACE)
    if not _ALLOWED.fullmatch(value):
        raise ValueError("it holds characters that no header may hold")
    wrapped = value.removeprefix(_PREFIX)
    if wrapped == value or not wrapped.endswith(_SUFFIX):
        return value
    try:
        data = a2b_base64(wrapped.removesuffix(_SUFFIX), strict_mode=True)
    except ValueError:
        raise ValueError("it is marked as base64 and is none") from None
    try:
        return data.decode()
    except ValueError:
        raise ValueError("its base64 is not that of UTF-8") from None


def media_type(content_type: str | None) -> str:
    """The media type that a ``Content-Type`` names: lower-case, without parameters; ``""`` where there is none."""
    return (content_type or "").partition(";")[0].strip().lower()


def accepts(accept: str | None, media_type: str) -> bool:
    """Whether an ``Accept`` header lets a media type (lower-case, without parameters) be sent.

    The most specific range that fits decides, and one of weight 0 refuses; parameters other than the weight are not
    looked at. No header, or one that lists nothing, accepts everything. (RFC 9110 section 12.5.1.)
    """
    weights: dict[str, float] = {}
    for element in _ELEMENT.findall(accept or ""):
        name, *parameters = (part.strip() for part in _PARAMETER.findall(element))
        if name:
            weights[name.lower()] = max(weights.get(name.lower(), 0.0), _weight(parameters))
    if not weights:
        return True
    for fitting in (media_type, f"{media_type.partition('/')[0]}/*", ANYTHING):
        if fitting in weights:
            return weights[fitting] > 0
    return False


def _weight(parameters: list[str]) -> float:
    """What the weight among a range's parameters says; 1 where there is none that can be read."""
    for parameter in parameters:
        if (match := _WEIGHT.fullmatch(parameter)) is not None:
            return float(match[1])
    return 1.0
