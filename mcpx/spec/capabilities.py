"""What hosts and servers declare and how they present themselves, by revision, and what of it mcpx relays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from mcpx.spec.meta import PREFIX
from mcpx.spec.plans import plan_of
from mcpx.spec.raws import is_object, members_of, without
from mcpx.wire.frames import to_raw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

TASKS_EXTENSION = PREFIX + "tasks"


class Relay(msgspec.Struct, frozen=True):
    """One capability of a host: whether upstreams are told of it, and whether it lets them ask the host something."""

    name: str
    when: Literal["always", "passthrough", "never"]
    asks: bool = False


# The table "What mcpx relays". A capability that no revision defines is relayed in pass-through, as `experimental` is.
RELAYS: tuple[Relay, ...] = (
    Relay("elicitation", "never", asks=True),  # questions are not relayed yet, so nothing that can ask is
    Relay("sampling", "never", asks=True),
    Relay("roots", "never", asks=True),
    Relay("extensions", "always"),  # but for tasks
    Relay("tasks", "never"),  # mcpx serves no tasks
    Relay("experimental", "passthrough"),
)
_BY_NAME = {relay.name: relay for relay in RELAYS}
_OTHERS = Relay("", "passthrough")


def told(caps: Mapping[str, Raw], *, passthrough: bool = False) -> dict[str, Raw]:
    """What mcpx tells upstreams of what a host declared, in the host's order.

    ``narrow_client`` cuts it to an upstream's revision.
    """
    relayed = {
        name: value
        for name, value in caps.items()
        if is_object(value) and (_BY_NAME.get(name, _OTHERS).when in ("always", "passthrough" if passthrough else ""))
    }
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
