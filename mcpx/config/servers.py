"""Checking one server's entry and decoding it into ``ServerSettings``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from mcpx.config import values
from mcpx.config.document import JsonValue, Object, kind_of
from mcpx.config.limits import SERVER_KEYS, read_limits
from mcpx.config.roots import read_roots
from mcpx.settings import Limits, ServerSettings, header_owner
from mcpx.spec.revisions import SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpx.config.report import Place

PROTOCOLS: tuple[str, ...] = ("auto", "legacy", "modern", *SUPPORTED)
SCOPES: tuple[str, ...] = ("host", "shared", "call")

# Each key of an entry: the field it fills, and what checks its value.
_KEYS: dict[str, tuple[str, Callable[[Place, JsonValue, Mapping[str, str] | None], Any]]] = {
    "command": ("command", values.command),
    "args": ("args", values.texts),
    "env": ("env", values.variables),
    "inheritEnv": ("inherit_env", lambda place, value, _: values.inherit_env(place, value)),
    "cwd": ("cwd", values.path),
    "url": ("url", values.url),
    "headers": ("headers", values.headers),
    "type": ("type", lambda place, value, _: values.choice(place, value, values.TRANSPORTS)),
    "transport": ("transport", lambda place, value, _: values.choice(place, value, values.TRANSPORTS)),
    "protocol": ("protocol", lambda place, value, _: values.choice(place, value, PROTOCOLS)),
    "scope": ("scope", lambda place, value, _: values.choice(place, value, SCOPES)),
    "roots": ("roots", read_roots),
    "disabled": ("disabled", lambda place, value, _: values.flag(place, value)),
}
KEYS: tuple[str, ...] = (*_KEYS, "limits")
_ELSEWHERE = tuple(f"limits.{key}" for key in SERVER_KEYS)

_PROCESS_KEYS = ("args", "env", "inheritEnv", "cwd")
_URL_KEYS = ("headers",)


def read_server(
    place: Place,
    name: str,
    entry: JsonValue,
    defaults: Limits,
    environ: Mapping[str, str],
    *,
    roots: tuple[str, ...] = (),
) -> ServerSettings | Literal["disabled"] | None:
    """One entry under ``mcpServers``.

    ``place`` is the entry's. ``defaults`` are the file's limits, and ``roots`` its roots, which the entry may override.
    A disabled entry is checked but not expanded, since people disable what they lack a variable for. Returns ``None``
    where there are problems.
    """
    if not isinstance(entry, Object):
        place.problem(f"must be an object, not {kind_of(entry)}")
        return None
    before = len(place.report.problems)
    if not name.strip():
        place.problem("a server's name must not be empty")
    variables = None if entry.get("disabled") is True else environ
    found = _read_keys(place, entry, variables)
    limits = read_limits(place.within("limits"), entry.get("limits"), defaults, within_server=True)
    transport = _transport(place, entry, found, expanded=variables is not None)
    if len(place.report.problems) > before:
        return None
    if variables is None:
        return "disabled"
    for key in ("type", "transport", "disabled"):
        found.pop(key, None)
    found.setdefault("roots", roots)
    return ServerSettings(name=name, limits=limits, transport=transport, **found)


def _read_keys(place: Place, entry: Object, environ: Mapping[str, str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in entry.items():
        if key in _KEYS:
            field, check = _KEYS[key]
            checked = check(place.within(key), value, environ)
            if checked is not None:
                found[field] = checked
        elif key != "limits":
            place.unknown(key, KEYS, elsewhere=_ELSEWHERE)
    if environ is not None and isinstance(found.get("inherit_env"), tuple):
        for name in cast("tuple[str, ...]", found["inherit_env"]):
            if name not in environ:
                place.within("inheritEnv").warning(
                    f"the environment variable {name} is not set, so there is none to inherit"
                )
    return found


def _transport(place: Place, entry: Object, found: dict[str, Any], *, expanded: bool) -> values.Transport | None:
    """How the server is reached, if the entry says so; and whether what it says fits together."""
    named: dict[str, values.Transport] = {
        key: values.TRANSPORTS[found[key]] for key in ("type", "transport") if key in found
    }
    if len(set(named.values())) > 1:
        place.problem(f'type "{found["type"]}" and transport "{found["transport"]}" contradict each other')
        return None
    transport = next(iter(named.values()), None)
    key = next(iter(named), "type")
    has = [name for name in ("command", "url") if name in entry]
    if len(has) == 2:
        place.problem('has both a "command" and a "url"; a server is either a process or an address')
    elif not has:
        missing = {"stdio": '"command"', None: '"command" or "url"'}.get(transport, '"url"')
        place.problem(f"has no {missing}")
    elif transport is not None and (transport == "stdio") != (has == ["command"]):
        place.within(key).problem(f'"{found[key]}" does not go with "{has[0]}"')
    elif "url" in found and expanded and transport is not None:
        scheme = found["url"].partition(":")[0].lower()
        if scheme not in values.SCHEMES[transport]:
            valid = " or ".join(f"{name}://" for name in values.SCHEMES[transport])
            place.within("url").problem(f'{scheme}:// does not go with {key} "{found[key]}"; valid is {valid}')
    if "headers" in entry and "url" in found and expanded:
        check_headers(place.within("headers"), found["url"].partition(":")[0].lower(), found.get("headers", {}))
    if len(has) == 1:
        for idle in _PROCESS_KEYS if has == ["url"] else _URL_KEYS:
            if idle in entry:
                place.within(idle).warning(f'has no effect beside "{has[0]}"')
    return transport


def check_headers(place: Place, scheme: str, headers: Mapping[str, str]) -> None:
    """Say of each header at the place that does not go with a URL of that scheme why not."""
    if scheme in values.STREAMS:
        place.warning(f"has no effect with a {scheme}:// URL")
    for name in headers:
        if (owner := header_owner(scheme, name)) is not None:
            place.within(name).problem(f"belongs to {owner} itself and cannot be set; take it out of the headers")
