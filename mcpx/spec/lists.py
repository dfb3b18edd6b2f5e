"""What servers list: tools, prompts, resources and resource templates, and how each kind is said on the wire.

One table for whoever asks for a list, answers with one, names its items, or hears that it has changed. It holds what
all revisions share; what they do not is in ``methods`` and ``tables``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

ListKind = Literal["tools", "prompts", "resources", "templates"]
ChangeKind = Literal["tools", "prompts", "resources"]  # resources and templates change together


class Listing(NamedTuple):
    """One kind of list."""

    kind: ListKind
    method: str  # that asks for it
    member: str  # of the result, which holds the items
    type: str  # of an item, as `mcpx.spec.tables` calls it
    key: str  # the member of an item by which its server calls it
    noun: str  # an item, for people
    capability: ChangeKind  # a server that has such items declares it; what changes with it is called alike


LISTINGS: dict[ListKind, Listing] = {
    row.kind: row
    for row in (
        Listing("tools", "tools/list", "tools", "Tool", "name", "tool", "tools"),
        Listing("prompts", "prompts/list", "prompts", "Prompt", "name", "prompt", "prompts"),
        Listing("resources", "resources/list", "resources", "Resource", "uri", "resource", "resources"),
        Listing(
            "templates",
            "resources/templates/list",
            "resourceTemplates",
            "ResourceTemplate",
            "uriTemplate",
            "resource template",
            "resources",
        ),
    )
}

# The notification that a list has changed.
LIST_CHANGED: dict[ChangeKind, str] = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}

# The notification that one resource was updated.
RESOURCE_UPDATED = "notifications/resources/updated"

# The members of a listen stream's filter (2026-07-28 basic/patterns/subscriptions, Notification Filter): those that ask
# for the changes of a list, and the one that names resources.
CHANGE_FILTERS: dict[str, ChangeKind] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
RESOURCE_FILTER = "resourceSubscriptions"
