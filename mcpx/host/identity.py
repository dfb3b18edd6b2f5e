"""What mcpx says of itself to a host: who it is, and what it can do for that host's revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.gateway.gateway import IDENTITY
from mcpx.spec.capabilities import narrow_implementation, narrow_server, promises_changes
from mcpx.spec.lists import LIST_CHANGED
from mcpx.spec.revisions import REVISIONS, is_modern
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import members_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import Identity

OWN_INFO: dict[str, Raw] = {revision: narrow_implementation(to_raw(IDENTITY), revision) for revision in REVISIONS}

_LIST_CHANGED = "listChanged"

# What an upstream may declare and mcpx does not deliver: the whole capability (None), or some of its members.
_UNDELIVERED: dict[str, frozenset[str] | None] = {
    "logging": None,
    "resources": frozenset({"subscribe"}),
}
# To a modern host changes would go on the stream of its subscriptions/listen, and nowhere else.
_UNDELIVERED_MODERN: dict[str, frozenset[str] | None] = _UNDELIVERED | {
    "tools": frozenset({_LIST_CHANGED}),
    "prompts": frozenset({_LIST_CHANGED}),
    "resources": frozenset({"subscribe", _LIST_CHANGED}),
}


def server_info(identity: Identity, revision: str) -> Raw:
    """The ``serverInfo`` for a host: the upstream's own where it shines through, otherwise mcpx's."""
    if identity.server_info is None:
        return OWN_INFO[revision]
    return narrow_implementation(identity.server_info, revision)


def declared(capabilities: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """Of these capabilities, what ``revision`` defines and mcpx delivers in it."""
    undelivered = _UNDELIVERED_MODERN if is_modern(revision) else _UNDELIVERED
    kept: dict[str, Raw] = {}
    for name, raw in narrow_server(capabilities, revision).items():
        without = undelivered.get(name, frozenset())
        if without is None:
            continue
        inner = members_of(raw)
        if inner is None:  # no object: an upstream's mistake, which is not passed on
            continue
        kept[name] = raw if without.isdisjoint(inner) else to_raw({k: v for k, v in inner.items() if k not in without})
    return kept


def promised_changes(capabilities: Mapping[str, Raw]) -> frozenset[ChangeKind]:
    """The lists for which these capabilities promise word of a change."""
    return frozenset(kind for kind in LIST_CHANGED if promises_changes(capabilities.get(kind)))
