"""What a server says of itself, in either era, read liberally: what makes no sense is as if it had not been said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.spec.capabilities import is_implementation, read_server
from mcpx.spec.mend import mend
from mcpx.upstream.call import Identity
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from msgspec import Raw, UnsetType


def read_identity(
    server_info: Raw | UnsetType | None, capabilities: Raw | UnsetType, instructions: Raw | UnsetType
) -> Identity:
    """The identity in these members of an answer, as far as they are there."""
    return Identity(
        mend("Implementation", server_info) if is_implementation(server_info) else None,
        read_server(capabilities),
        string_of(instructions),
    )
