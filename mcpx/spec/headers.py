"""The HTTP headers of MCP: what a modern request says in them again, and how a server holds that against the body.

All from 2026-07-28 basic/transports/streamable-http, Request Metadata; ``x-mcp-header`` from 2026-07-28 server/tools as
well. Header names are lower-case here, as HTTP/2 writes them and as case-insensitive comparison wants them.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from mcpx.errors import LocalProtocolError, McpxError, RpcError
from mcpx.spec.codes import HEADER_MISMATCH
from mcpx.wire.headers import decode_value, encode_value
from mcpx.wire.raws import members_of, string_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from msgspec import Raw

MCP_PROTOCOL_VERSION = "mcp-protocol-version"
MCP_SESSION_ID = "mcp-session-id"
MCP_METHOD = "mcp-method"
MCP_NAME = "mcp-name"
LAST_EVENT_ID = "last-event-id"
PARAM_PREFIX = "mcp-param-"

# Method -> the member of its params that Mcp-Name repeats (Standard Request Headers).
NAMED: dict[str, str] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

ANNOTATION = "x-mcp-header"
# The page bounds neither. A server that annotates more than people would is one that wants to keep its clients busy.
MAX_PARAMS = 100  # of one tool; common servers take about as many headers in a request, whatever they are
MAX_SCHEMA = 1 << 20  # bytes of a schema that is looked through

# As the page spells them, for messages.
_SPELLED = {MCP_PROTOCOL_VERSION: "MCP-Protocol-Version", MCP_METHOD: "Mcp-Method", MCP_NAME: "Mcp-Name"}
_PARAM_SPELLED = "Mcp-Param-"
_SHOWN = 80  # characters of a value in a message

_METHOD = re.compile(r"[\x21-\x7e]+")  # has no encoding: the page gives Mcp-Name and Mcp-Param-* one, and no other
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_TYPES = ("string", "integer", "boolean")
# A number of JSON, as long as one may be and still be compared as a number.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?")
_MAX_SAFE = 2**53 - 1

# Keywords of JSON Schema whose value is no schema and holds none: data, and lists by name.
_DATA = frozenset({"const", "default", "enum", "examples", "example", "required", "dependentRequired"})
# Keywords whose value is an object of schemas by name: a name in there is no keyword.
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})


class ParamHeader(NamedTuple):
    """A parameter of a tool that a header repeats."""

    name: str  # as annotated: what follows Mcp-Param-
    path: tuple[str, ...]  # of property names, from the arguments down

    @property
    def header(self) -> str:
        """The header's name, lower-case."""
        return PARAM_PREFIX + self.name.lower()


class BadAnnotation(McpxError):
    """An ``x-mcp-header`` breaks a rule, so that the tool is not to be offered; ``reason`` ends a line of the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def request_headers(method: str, params: Mapping[str, Raw], version: str) -> dict[str, str]:
    """The headers of a modern request but for those of a tool's parameters; names lower-case, values encoded.

    Where the params lack the name that ``Mcp-Name`` repeats, or it is no string, the header is left out: what is wrong
    is the server's to say. Raises ``LocalProtocolError`` for a method that no header can hold. (Protocol Version
    Header; Standard Request Headers.)
    """
    if not _METHOD.fullmatch(method):
        raise LocalProtocolError(f"the method {_shown(method)} cannot be said in a header")
    headers = {MCP_PROTOCOL_VERSION: version, MCP_METHOD: method}
    name = _name_of(method, params)
    if name is not None:
        headers[MCP_NAME] = encode_value(name)
    return headers


def declared_params(input_schema: Raw) -> tuple[ParamHeader, ...]:
    """The parameters that a tool's input schema annotates with ``x-mcp-header``, in the order of the schema.

    Raises ``BadAnnotation`` where one of them breaks a rule: not a token, not unique (whatever its case), on a
    parameter whose ``type`` is not the one string ``"string"``, ``"integer"`` or ``"boolean"``, or anywhere but on a
    property that is reached through ``properties`` alone. A property that is called ``x-mcp-header`` is none, nor is
    what stands in the data of ``default``, ``const``, ``enum`` or ``examples``. (Schema Extension; server/tools,
    x-mcp-header.) The same is raised for more than ``MAX_PARAMS`` of them, and in a schema of more than ``MAX_SCHEMA``.
    """
    text = bytes(input_schema)
    if ANNOTATION.encode() not in text:  # the case of nearly every tool
        return ()
    if len(text) > MAX_SCHEMA:
        raise BadAnnotation(f"its input schema has an {ANNOTATION} and more than {MAX_SCHEMA} bytes")
    try:
        schema = msgspec.json.decode(input_schema)
    except (msgspec.MsgspecError, RecursionError):
        raise BadAnnotation(f"its input schema has an {ANNOTATION} and cannot be read, or not to its depth") from None
    found: dict[str, ParamHeader] = {}
    for path, node in _annotated(schema):
        param = _declared(path, node)
        twin = found.setdefault(param.header, param)
        if twin is not param:
            where = f"{_at(param.path)} has the same as {_at(twin.path)}"
            raise BadAnnotation(f"the {ANNOTATION} {_shown(param.name)} is not unique: {where}")
        if len(found) > MAX_PARAMS:
            raise BadAnnotation(f"it has more than {MAX_PARAMS} {ANNOTATION} annotations")
    return tuple(found.values())


def param_headers(declared: Iterable[ParamHeader], arguments: Raw | None) -> dict[str, str]:
    """The headers that repeat a call's arguments; names lower-case, values encoded.

    What is missing or ``null`` is left out. A value is said as what it is, whatever type the schema wants of it, and
    the server judges it; an object or array, which no header can hold, is left out. (Value Encoding; Client Behavior.)
    """
    top = _Opened(arguments)
    said = ((param.header, _said(top.value_at(param.path))) for param in declared)
    return {header: encode_value(text) for header, text in said if text is not None}


def check_headers(
    headers: Mapping[str, str], method: str, params: Mapping[str, Raw], version: str | None, *, required: bool = True
) -> None:
    """Hold the headers of a modern message against its body.

    ``version`` is the one in the body's ``_meta``. For notifications, whose headers the revision does not define, pass
    ``required=False``: then only a header that is there is looked at (and ``version`` may be ``None``, for none).
    Raises ``RpcError`` (-32020) for one that is missing, does not match or holds what it may not. ``Mcp-Name`` with a
    body that has no such name does not match; without either there is nothing to compare, and the params are what is
    wrong. (Server Validation.)
    """
    compared = [(MCP_METHOD, method)] if version is None else [(MCP_PROTOCOL_VERSION, version), (MCP_METHOD, method)]
    for header, value in compared:
        given = headers.get(header)
        if given is None:
            if required:
                raise _missing(_SPELLED[header], value)
        elif given.strip(" \t") != value:
            raise _mismatch(_SPELLED[header], given, value)
    if method in NAMED:
        _compare(headers.get(MCP_NAME), _SPELLED[MCP_NAME], _name_of(method, params), required=required)


def check_params(headers: Mapping[str, str], declared: Iterable[ParamHeader], arguments: Raw | None) -> None:
    """Hold the ``Mcp-Param-*`` headers of a ``tools/call`` against its arguments.

    Numbers are compared as numbers. A header whose argument is missing or ``null`` is not expected, and where it is
    there all the same it says what the body does not: a mismatch. So is one for an object or array. A header that
    nobody declared is not looked at. Raises ``RpcError`` (-32020). (Server Behavior for Custom Headers.)
    """
    top = _Opened(arguments)
    for param in declared:
        value = top.value_at(param.path)
        _compare(headers.get(param.header), _PARAM_SPELLED + param.name, _said(value), number=_is_number(value))


# Comparing


def _compare(given: str | None, header: str, value: str | None, *, required: bool = True, number: bool = False) -> None:
    """Compare a header that may be encoded with what the body says; ``None`` is nothing."""
    if given is None:
        if value is not None and required:
            raise _missing(header, value)
        return
    try:
        text = decode_value(given)
    except ValueError as error:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {header} header value is not valid: {error}") from None
    if value is None or not (text == value or (number and _same_number(text, value))):
        raise _mismatch(header, text, value)


def _missing(header: str, value: str) -> RpcError:
    said = f"{header} header is missing, and the body has the value {_shown(value)}"
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {said}")


def _mismatch(header: str, given: str, value: str | None) -> RpcError:
    against = "has no counterpart in the body" if value is None else f"does not match body value {_shown(value)}"
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {header} header value {_shown(given)} {against}")


def _shown(text: str) -> str:
    """A value within quotes, shortened where it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


# Values


def _name_of(method: str, params: Mapping[str, Raw]) -> str | None:
    member = NAMED.get(method)
    return None if member is None else string_of(params.get(member))


class _Opened:
    """A value taken apart, and once only, however many parameters are in it."""

    def __init__(self, value: Raw | None) -> None:
        self.members = (None if value is None else members_of(value)) or {}
        self._inner: dict[str, _Opened] = {}

    def value_at(self, path: tuple[str, ...]) -> Raw | None:
        """The value at a path of property names; ``None`` where there is none."""
        *ways, last = path
        place = self
        for way in ways:
            place = place.open(way)
        return place.members.get(last)

    def open(self, name: str) -> _Opened:
        """The value of a member."""
        if name not in self._inner:
            self._inner[name] = _Opened(self.members.get(name))
        return self._inner[name]


def _said(value: Raw | None) -> str | None:
    """A value as a header says it, not yet encoded; ``None`` for ``null`` and for what none can say."""
    match _first_byte(value):
        case b'"':
            return string_of(value)
        case b"" | b"n" | b"{" | b"[":
            return None
        case b"t" | b"f":
            return text_of(cast("Raw", value))
        case _:
            return _decimal(text_of(cast("Raw", value)))


def _first_byte(value: Raw | None) -> bytes:
    """What tells a value's type; nothing where there is no value."""
    return b"" if value is None else bytes(memoryview(value)[:1])


def _is_number(value: Raw | None) -> bool:
    first = _first_byte(value)
    return first == b"-" or first.isdigit()


def _number(text: str) -> Decimal | None:
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def _decimal(text: str) -> str:
    """A number of JSON: an integer that is safe to exchange (however it is written) in digits, all else as written."""
    number = _number(text)
    if number is None or number.copy_abs() > _MAX_SAFE or number != int(number):
        return text
    return str(int(number))


def _same_number(one: str, other: str) -> bool:
    """Whether two texts say the same number, to its last digit (Server Validation)."""
    number = _number(one)
    return number is not None and number == _number(other)


# Annotations


class _Way(NamedTuple):
    """How a schema is reached from the top through ``properties`` alone: whole paths of all would be too much."""

    before: _Way | None
    name: str

    @property
    def path(self) -> tuple[str, ...]:
        names: list[str] = []
        way: _Way | None = self
        while way is not None:
            names.append(way.name)
            way = way.before
        return tuple(reversed(names))


def _annotated(schema: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every annotated schema within a schema, in order. The path is empty where ``properties`` alone do not lead."""
    # What is to be looked at: whether `properties` alone lead there, and how; a list, and no recursion, as schemas may
    # be deep.
    todo: list[tuple[bool, _Way | None, Any]] = [(True, None, schema)]
    while todo:
        led, way, node = todo.pop()
        if isinstance(node, list):
            todo.extend((False, None, one) for one in reversed(cast("list[Any]", node)))
        if not isinstance(node, dict):
            continue
        keywords = cast("dict[str, Any]", node)
        if ANNOTATION in keywords:
            yield () if way is None else way.path, keywords
        for keyword, value in reversed(keywords.items()):
            if keyword in _BY_NAME and isinstance(value, dict):
                leads = led and keyword == "properties"
                named = cast("dict[str, Any]", value)
                todo.extend((leads, _Way(way, name) if leads else None, one) for name, one in reversed(named.items()))
            elif keyword not in _DATA and keyword != ANNOTATION:
                todo.append((False, None, value))


def _declared(path: tuple[str, ...], schema: dict[str, Any]) -> ParamHeader:
    name = schema[ANNOTATION]
    shown = _shown(name) if isinstance(name, str) else "(no string)"
    if not path:
        raise BadAnnotation(f"the {ANNOTATION} {shown} is on no property that `properties` alone leads to")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise BadAnnotation(f"the {ANNOTATION} of {_at(path)} cannot be part of a header's name: {shown}")
    if schema.get("type") not in _TYPES:
        raise BadAnnotation(f"{_at(path)} has the {ANNOTATION} {shown} and no type of {', '.join(_TYPES)}")
    return ParamHeader(name, path)


def _at(path: tuple[str, ...]) -> str:
    return f"the property {_shown('.'.join(path))}"
