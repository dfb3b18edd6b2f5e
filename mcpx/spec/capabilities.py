"""What hosts and servers declare, by revision, and what mcpx relays of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw


def narrow_client(caps: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """A host's capabilities without what ``revision`` does not define, at any depth."""
    return dict(caps)


def narrow_server(caps: Mapping[str, Raw], revision: str) -> dict[str, Raw]:
    """A server's capabilities without what ``revision`` does not define, at any depth."""
    return dict(caps)


def told(caps: Mapping[str, Raw]) -> dict[str, Raw]:
    """What mcpx relays towards upstreams of what a host declared."""
    return {}


def can_ask(told: Mapping[str, Raw]) -> bool:
    """Whether what an upstream was told lets it ask the host anything."""
    return False


def narrow_implementation(info: Raw, revision: str) -> Raw:
    """A ``clientInfo`` or ``serverInfo`` as ``revision`` has it."""
    return info
