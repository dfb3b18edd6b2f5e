"""Say a payload in another revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.errors import McpxError

if TYPE_CHECKING:
    from msgspec import Raw


class CannotSay(McpxError):
    """A payload means something that the target revision has no way to say."""


def carry(type_name: str, payload: Raw, source: str, target: str) -> Raw:
    """``payload``, a value of the type ``type_name`` written in ``source``, as ``target`` says it."""
    return payload


def carry_result(method: str, payload: Raw, source: str, target: str) -> Raw:
    """The result of ``method``, written in ``source``, as ``target`` says it."""
    return payload


def carry_params(method: str, params: dict[str, Raw], source: str, target: str) -> dict[str, Raw]:
    """The params of ``method``, written in ``source``, as ``target`` says them."""
    return params


def stamp_modern(method: str, payload: Raw, server_info: Raw | None, ttl_ms: int, cache_scope: str) -> Raw:
    """What a modern result needs and a legacy one lacks."""
    return payload
