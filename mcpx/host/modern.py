"""What every result of the modern era carries beside its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mcpx.spec.meta import SERVER_INFO
from mcpx.wire.frames import to_raw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw


def complete(
    members: Mapping[str, Any], server_info: Raw, ttl_ms: int, cache_scope: Literal["public", "private"]
) -> Raw:
    """A cacheable result that mcpx makes itself (2026-07-28 basic/index, Responses; server/utilities/caching)."""
    return to_raw(
        {
            "resultType": "complete",
            **members,
            "ttlMs": ttl_ms,
            "cacheScope": cache_scope,
            "_meta": {SERVER_INFO: server_info},
        }
    )
