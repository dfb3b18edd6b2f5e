"""How a host opens: the handshake of the legacy era, the discovery of the modern one, and the legacy ping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from mcpx.errors import LocalProtocolError
from mcpx.host.identity import declared, promised_changes, server_info
from mcpx.host.modern import complete
from mcpx.spec.revisions import SUPPORTED
from mcpx.wire.frames import to_raw

if TYPE_CHECKING:
    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service
    from mcpx.upstream.call import Identity

_EMPTY = Raw(b"{}")

# Versions and capabilities change with mcpx's configuration only; instructions become complete as servers first start.
DISCOVER_TTL_MS = 60_000


async def initialize(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``initialize``: the revision was agreed on when the request was read, the rest is said here."""
    handshake = request.handshake
    if handshake is None:
        raise LocalProtocolError("an initialize without its handshake")
    identity = await service.gateway.identity(request.asker)
    capabilities = declared(identity.capabilities, request.revision)
    handshake.declared = promised_changes(capabilities)
    turn.relay.promise(handshake)
    return to_raw(
        {
            "protocolVersion": request.revision,
            "capabilities": capabilities,
            "serverInfo": server_info(identity, request.revision),
            **_instructions(identity),
        }
    )


async def discover(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``server/discover``: to a legacy host, who may ask as well, without what only a modern result carries."""
    identity = await service.gateway.identity(request.asker)
    result: dict[str, Any] = {
        "supportedVersions": SUPPORTED,
        "capabilities": declared(identity.capabilities, request.revision),
        **_instructions(identity),
    }
    if not request.modern:
        return to_raw(result)
    return complete(result, server_info(identity, request.revision), DISCOVER_TTL_MS, "private")


async def ping(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``ping`` (the ping pages of the legacy revisions)."""
    return _EMPTY


def _instructions(identity: Identity) -> dict[str, str]:
    return {"instructions": identity.instructions} if identity.instructions else {}
