"""What mcpx says of itself to a host: who it is, and what it can do for that host's revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.gateway.gateway import IDENTITY
from mcpx.spec.capabilities import narrow_implementation, narrow_server, promises_changes
from mcpx.spec.lists import LIST_CHANGED
from mcpx.spec.revisions import REVISIONS
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import members_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from mcpx.spec.lists import ChangeKind
    from mcpx.upstream.call import Identity

OWN_INFO: dict[str, Raw] = {revision: narrow_implementation(to_raw(IDENTITY), revision) for revision in REVISIONS}


def server_info(identity: Identity, revision: str) -> Raw:
    """The ``serverInfo`` for a host: the upstream's own where it shines through, otherwise mcpx's."""
    if identity.server_info is None:
        return OWN_INFO[revision]
    return narrow_implementation(identity.server_info, revision)


def declared(capabilities: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """Of these capabilities, what ``revision`` defines and mcpx delivers in it."""
    return {
        name: raw
        for name, raw in narrow_server(capabilities, revision).items()
        if members_of(raw) is not None  # what is no object is an upstream's mistake
    }


def promised_changes(capabilities: Mapping[str, Raw]) -> frozenset[ChangeKind]:
    """The lists for which these capabilities promise word of a change."""
    return frozenset(kind for kind in LIST_CHANGED if promises_changes(capabilities.get(kind)))
