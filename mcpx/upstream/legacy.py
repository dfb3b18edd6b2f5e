"""The legacy era as a client speaks it: a handshake, then requests without metadata of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import UpstreamError, UpstreamStartError
from mcpx.spec import capabilities, meta
from mcpx.spec.revisions import LEGACY
from mcpx.upstream.identity import read_identity
from mcpx.wire.raws import is_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpx.upstream.call import Asker, Identity, InputRequired


class LegacyForm:
    """See ``mcpx.upstream.session.Form``."""

    announces_changes = True

    def __init__(self, revision: str, told: Mapping[str, Raw]) -> None:
        self.revision = revision
        self.told = capabilities.narrow_client(told, revision)
        # The oldest revision has the method and no capability that declares it.
        self.assumes_completions = not capabilities.narrow_server({"completions": Raw(b"{}")}, revision)

    def meta(self, asker: Asker, foreign: Mapping[str, Raw], token: int | None) -> dict[str, Any]:
        return {**foreign, meta.PROGRESS_TOKEN: token} if token is not None else dict(foreign)

    def conclude(self, server: str, method: str, payload: Raw, asker: Asker) -> Raw | InputRequired:
        if not is_object(payload):
            raise UpstreamError(server, f"The server's result of {method} is no object.")
        return payload


class InitializeResult(msgspec.Struct, rename="camel"):
    """As much of the answer to ``initialize`` as mcpx reads."""

    protocol_version: Any = None
    capabilities: Raw | UnsetType = UNSET  # msgspec takes Raw beside None for null only
    server_info: Raw | UnsetType = UNSET
    instructions: Raw | UnsetType = UNSET


def initialize_params(offered: str, told: Mapping[str, Raw], client_info: Raw) -> dict[str, Any]:
    """The three params of ``initialize`` in the form of the revision they offer (LV-02, LV-09)."""
    return {
        "protocolVersion": offered,
        "capabilities": capabilities.narrow_client(told, offered),
        "clientInfo": capabilities.narrow_implementation(client_info, offered),
    }


def read_initialize_result(
    server: str, payload: Raw, *, told: Mapping[str, Raw], pinned: str | None
) -> tuple[LegacyForm, Identity]:
    """Take the server's answer to ``initialize``, in which it was ``told`` what the host can do.

    Raises ``UpstreamStartError`` for a revision that mcpx does not speak (2025-11-25 schema, InitializeResult: the
    client must disconnect then) or, where one revision is ``pinned``, for any other.
    """
    try:
        answer = msgspec.json.decode(payload, type=InitializeResult)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UpstreamStartError(server, f"The server's answer to initialize makes no sense: {error}.") from None
    version = answer.protocol_version
    if version not in LEGACY:
        raise UpstreamStartError(
            server,
            f"The server answered initialize with the revision {version!r}; mcpx speaks {', '.join(LEGACY)} there.",
        )
    if pinned is not None and version != pinned:
        raise UpstreamStartError(
            server,
            f'The server offers the revision {version}, but the configuration pins "protocol": "{pinned}". '
            "Pin one that the server speaks, or use auto.",
        )
    form = LegacyForm(version, told)
    identity = read_identity(answer.server_info, answer.capabilities, answer.instructions)
    offered = identity.capabilities
    if form.assumes_completions and ("prompts" in offered or "resources" in offered):
        offered = {**offered, "completions": Raw(b"{}")}
    return form, msgspec.structs.replace(identity, capabilities=offered)
