"""What hosts and servers declare and how they present themselves, by revision, and what of it mcpx relays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeGuard

import msgspec
from msgspec import Raw, UnsetType

from mcpx.spec.meta import PREFIX
from mcpx.spec.plans import plan_of
from mcpx.wire.frames import NULL, to_raw
from mcpx.wire.raws import FALSE, TRUE, is_object, members_of, string_of, without

if TYPE_CHECKING:
    from collections.abc import Mapping

TASKS_EXTENSION = PREFIX + "tasks"


class Relay(msgspec.Struct, frozen=True):
    """One capability of a host: whether upstreams are told of it, and whether it lets them ask the host something."""

    name: str
    when: Literal["always", "passthrough", "never"]
    asks: bool = False


# The table "What mcpx relays". A capability that no revision defines is relayed in pass-through, as `experimental` is.
RELAYS: tuple[Relay, ...] = (
    Relay("elicitation", "always", asks=True),
    Relay("sampling", "always", asks=True),
    Relay("roots", "always", asks=True),
    Relay("extensions", "always"),  # but for tasks
    Relay("tasks", "never"),  # mcpx serves no tasks
    Relay("experimental", "passthrough"),
)
_BY_NAME = {relay.name: relay for relay in RELAYS}
_OTHERS = Relay("", "passthrough")

_EMPTY = Raw(b"{}")
_SWITCHES = frozenset({"listChanged", "subscribe"})  # members of a server's capabilities that are true or false
_BY_KEY = frozenset({"extensions", "experimental"})  # capabilities that hold an object of settings for each of a kind


def read_server(raw: Raw | UnsetType | None) -> dict[str, Raw]:
    """What a server declares, put right where it is careless, so that nobody has to ask again what its values are.

    A capability is declared unless it is null or false, and is ``{}`` where it is no object (``true``; ``[]`` is how
    PHP writes an empty one). A switch in one that is neither true nor false is left out.
    """
    declared = _settings(members_of(raw) or {})
    for name, value in declared.items():
        inner = members_of(value) or {}
        if name in _BY_KEY:
            kept = _settings(inner)
        else:
            kept = {key: one for key, one in inner.items() if key not in _SWITCHES or one in (TRUE, FALSE)}
        if kept != inner:
            declared[name] = to_raw(kept)
    return declared


def promises_changes(capability: Raw | None) -> bool:
    """Whether what a server declares of a kind of list promises word of its changes."""
    return (members_of(capability) or {}).get("listChanged") == TRUE


def takes_subscriptions(resources: Raw | None) -> bool:
    """Whether what a server declares of its resources lets clients subscribe to single ones."""
    return (members_of(resources) or {}).get("subscribe") == TRUE


def is_implementation(raw: Raw | UnsetType | None) -> TypeGuard[Raw]:
    """Whether a value is the ``Implementation`` of a host or a server: it has a name and a version."""
    members = members_of(raw) or {}
    return all(string_of(members.get(name)) is not None for name in ("name", "version"))


def _settings(declared: Mapping[str, Raw]) -> dict[str, Raw]:
    """Of members that are to be objects, those that are said at all, as objects."""
    return {
        name: value if is_object(value) else _EMPTY for name, value in declared.items() if value not in (NULL, FALSE)
    }


def told(caps: Mapping[str, Raw], *, passthrough: bool = False) -> dict[str, Raw]:
    """What mcpx tells upstreams of what a host declared, in the host's order.

    ``narrow_client`` cuts it to an upstream's revision.
    """
    relayed = {
        name: value
        for name, value in caps.items()
        if is_object(value) and (_BY_NAME.get(name, _OTHERS).when in ("always", "passthrough" if passthrough else ""))
    }
    for name in _BY_KEY & relayed.keys():
        relayed[name] = to_raw(_settings(members_of(relayed[name]) or {}))
    return _without_tasks(relayed)


def can_ask(told: Mapping[str, Raw]) -> bool:
    """Whether what an upstream was told lets it ask the host anything."""
    return any(relay.asks and relay.name in told for relay in RELAYS)


def narrow_client(caps: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """A host's capabilities without what ``revision`` does not define, at any depth, and what mcpx does not serve.

    What no revision defines is kept.
    """
    return _without_tasks(plan_of("ClientCapabilities", revision).members(dict(caps)))


def narrow_server(caps: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """A server's capabilities, cut as ``narrow_client`` cuts a host's."""
    return _without_tasks(plan_of("ServerCapabilities", revision).members(dict(caps)))


def narrow_implementation(info: Raw, revision: str) -> Raw:
    """A ``clientInfo`` or ``serverInfo`` with the fields that ``revision`` has.

    Icons that are neither ``https:`` nor ``data:`` are left out (2025-11-25 basic/index, Icons).
    """
    return plan_of("Implementation", revision).raw(info)


def _without_tasks(caps: dict[str, Raw]) -> dict[str, Raw]:
    extensions = members_of(caps.get("extensions"))
    caps = without(caps, "tasks")
    if extensions is None or TASKS_EXTENSION not in extensions:
        return caps
    others = without(extensions, TASKS_EXTENSION)
    return {**caps, "extensions": to_raw(others)} if others else without(caps, "extensions")
