"""Checking single values: each function returns the value, or says what is wrong with it and returns ``None``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import urlsplit

from mcpx.config.document import JsonValue, Object, kind_of, show
from mcpx.config.expand import ExpansionError, expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from urllib.parse import SplitResult

    from mcpx.config.report import Place

Transport = Literal["stdio", "http", "sse", "websocket"]

# What each spelling of "type" or "transport" stands for, and the schemes that a "url" may have with it.
TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "ws": "websocket",
    "websocket": "websocket",
}
SCHEMES: dict[Transport | None, tuple[str, ...]] = {
    "http": ("http", "https"),
    "sse": ("http", "https"),
    "websocket": ("ws", "wss"),
    None: ("http", "https", "ws", "wss", "unix", "tcp"),
}

STREAMS: dict[str, str] = {"unix": "unix:///PATH", "tcp": "tcp://HOST:PORT"}  # newline-delimited: what is valid

_COMMAND_LINE = re.compile(r"([^\s/\\]+)\s+\S")  # a name and more; a path may well hold a space
_VARIABLE = re.compile(r"[^=\0]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token, RFC 9110 section 5.6.2
_LINE_BREAK = re.compile(r"[\r\n]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # in no header's value, RFC 9110 section 5.5


def text(place: Place, value: JsonValue, environ: Mapping[str, str] | None, *, secret: bool = False) -> str | None:
    """A string, expanded where ``environ`` is given."""
    if not isinstance(value, str):
        quotes = "; put it in quotes" if isinstance(value, (bool, int, float)) else ""
        place.problem(f"must be a string, not {kind_of(value) if secret else show(value)}{quotes}")
        return None
    if environ is None:
        return value
    try:
        expanded = expand(value, environ)
    except ExpansionError as error:
        place.problem(str(error))
        return None
    except RecursionError:
        place.problem("expressions are nested too deeply")
        return None
    if "\0" in expanded:
        place.problem("must not hold a NUL character")
        return None
    return expanded


def command(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> str | None:
    """A program: a string that is not empty."""
    if isinstance(value, list):
        place.problem('must be a string, not a list; what follows the program goes into "args"')
        return None
    found = path(place, value, environ)
    if found is not None and not found.strip():
        place.problem("must name a program, and is empty")
        return None
    if found is not None and (line := _COMMAND_LINE.match(found)):
        place.warning(f'is the name of one program; what follows "{line[1]}" probably belongs into "args"')
    return found


def path(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> str | None:
    """A path, in which ``~`` is a name like any other."""
    found = text(place, value, environ)
    if found is not None and found.partition("/")[0] == "~":
        place.warning('there is no shell to make a folder of "~"; write "${HOME}"')
    return found


def texts(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """A list of strings, each expanded."""
    if not isinstance(value, list):
        place.problem(f"must be a list of strings, not {kind_of(value)}")
        return None
    items = cast("list[JsonValue]", value)
    found = [text(place.item(index), item, environ) for index, item in enumerate(items)]
    return tuple(item for item in found if item is not None)


def variables(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> dict[str, str] | None:
    """Environment variables by name; their values are secrets."""
    return _strings(place, value, environ, _VARIABLE, 'a variable\'s name must not be empty or hold "="')


def headers(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> dict[str, str] | None:
    """HTTP header fields by name; their values are secrets."""
    found = _strings(place, value, environ, _HEADER_NAME, "not a valid name of an HTTP header")
    for name, content in (found or {}).items():
        if _CONTROL.search(content):
            what = "line break" if _LINE_BREAK.search(content) else "control character"
            place.within(name).problem(f"must not hold a {what}")
    return found


def inherit_env(place: Place, value: JsonValue) -> bool | tuple[str, ...] | None:
    """``true``, ``false``, or a list of variables' names."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return texts(place, cast("JsonValue", value), None)
    place.problem(f"must be true, false or a list of variables' names, not {kind_of(value)}")
    return None


def flag(place: Place, value: JsonValue) -> bool | None:
    if isinstance(value, bool):
        return value
    place.problem(f"must be true or false, not {show(value)}")
    return None


def choice(place: Place, value: JsonValue, valid: Iterable[str]) -> str | None:
    """One of a few words."""
    options = tuple(valid)
    if isinstance(value, str) and value in options:
        return value
    place.problem(f"{show(value)} is not valid; valid are {', '.join(options)}")
    return None


def number(place: Place, value: JsonValue, *, least: float, most: float, whole: bool, unit: str) -> float | None:
    """A number within a range."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most:
        if not whole:
            return float(value)
        if float(value).is_integer():
            return int(value)
    noun = "whole number" if whole else "number"
    of_unit = "" if unit == "count" else f" of {unit}"
    place.problem(f"{show(value)} is not valid; valid is a {noun}{of_unit} from {least:.15g} to {most:.15g}")
    return None


def url(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> str | None:
    """The address of a server: a scheme that mcpx knows and what it needs behind it."""
    found = text(place, value, environ)
    if found is None or environ is None:
        return found
    try:
        parts = urlsplit(found)
    except ValueError:
        place.problem("is not a URL")  # not shown: what cannot be split cannot be freed of its secrets
        return None
    try:
        _ = parts.port
    except ValueError:
        place.problem("the port must be a number from 0 to 65535")  # not shown: it may be half of a password
        return None
    if parts.scheme not in SCHEMES[None]:
        scheme = f'"{parts.scheme}" is not a valid scheme' if parts.scheme else "has no scheme"
        place.problem(f"{scheme}; valid are {', '.join(name + '://' for name in SCHEMES[None])}")
        return None
    if parts.scheme in STREAMS:
        return found if _check_stream(place, parts) else None
    if not parts.hostname:
        place.problem(f"a {parts.scheme}:// URL needs a host")
        return None
    if parts.fragment and parts.scheme in SCHEMES["websocket"]:  # RFC 6455 section 3
        place.problem(f'a {parts.scheme}:// URL holds no fragment ("#" in it is written %23)')
        return None
    return found


def _check_stream(place: Place, parts: SplitResult) -> bool:
    """Whether the address of a plain stream holds what it needs and nothing that would go nowhere."""
    shape = STREAMS[parts.scheme]
    wrong = None
    if "@" in parts.netloc:
        wrong = "cannot hold a user name or password, as there is nothing to send them in"
    elif parts.query or parts.fragment:
        wrong = 'holds no query or fragment ("?" in a path is written %3F, "#" is %23)'
    elif parts.scheme == "tcp":
        if not parts.hostname:
            wrong = "needs a host"
        elif not parts.port:
            wrong = "needs a port"
        elif parts.path not in ("", "/"):
            wrong = "has no path"
    elif parts.netloc:
        wrong = "has no host, so three slashes"
    elif parts.path in ("", "/"):
        wrong = "needs a path"
    elif "%00" in parts.path:
        wrong = "must not hold a NUL character"
    if wrong is not None:
        place.problem(f"a {parts.scheme}:// URL {wrong}; valid is {shape}")
    return wrong is None


def _strings(
    place: Place, value: JsonValue, environ: Mapping[str, str] | None, names: re.Pattern[str], rule: str
) -> dict[str, str] | None:
    if not isinstance(value, Object):
        place.problem(f"must be an object of strings, not {kind_of(value)}")
        return None
    found: dict[str, str] = {}
    for name, member in value.items():
        at = place.within(name)
        if not names.fullmatch(name):
            place.problem(f"{show(name)}: {rule}")
        elif (content := text(at, member, environ, secret=True)) is not None:
            found[name] = content
    return found
