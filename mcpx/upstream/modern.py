"""The modern era as a client speaks it: every request carries version, capabilities and identity (2026-07-28
basic/index).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import UpstreamError
from mcpx.spec import capabilities, meta
from mcpx.spec.methods import METHODS
from mcpx.upstream.identity import read_identity
from mcpx.upstream.session import TryAgain
from mcpx.wire import frames
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpx.upstream.call import Asker, Identity

KEPT_ENVELOPES = 16  # of the last askers: a host is the same one for all its requests, and there are few at a time


class ResultHead(msgspec.Struct, rename="camel", gc=False):
    """What tells one kind of modern result from another."""

    result_type: Any = UNSET
    input_requests: Raw | UnsetType = UNSET
    request_state: Raw | UnsetType = UNSET


_head = msgspec.json.Decoder(ResultHead)


class ModernForm:
    """See ``mcpx.upstream.session.Form``."""

    answers_requests = False
    announces_changes = False
    assumes_completions = False

    def __init__(
        self, revision: str, client_info: Raw, *, tell: Callable[[Asker], Mapping[str, Raw]], passthrough: bool
    ) -> None:
        self.revision = revision
        self._client_info = client_info
        self._tell = tell  # what of an asker's capabilities this server is told
        self._passthrough = passthrough
        self._envelope = lru_cache(KEPT_ENVELOPES)(self._make_envelope)

    def meta(self, asker: Asker, foreign: Mapping[str, Raw], token: int | None) -> dict[str, Any]:
        values = {**foreign, **self._envelope(asker)}
        if token is not None:
            values[meta.PROGRESS_TOKEN] = token
        return values

    def _make_envelope(self, asker: Asker) -> dict[str, Any]:
        """What is the same in all requests of one asker."""
        info = self._client_info
        if self._passthrough and capabilities.is_implementation(asker.client_info):
            info = asker.client_info
        envelope: dict[str, Any] = {
            meta.PROTOCOL_VERSION: self.revision,
            meta.CLIENT_CAPABILITIES: frames.to_raw(capabilities.narrow_client(self._tell(asker), self.revision)),
            meta.CLIENT_INFO: capabilities.narrow_implementation(info, self.revision),
        }
        if asker.log_level is not None:
            envelope[meta.LOG_LEVEL] = asker.log_level
        return envelope

    def conclude(self, server: str, method: str, payload: Raw) -> Raw | TryAgain:
        """LV-36: an absent type means complete, an unknown one makes the result invalid."""
        try:
            head = _head.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            raise UpstreamError(server, f"The server's result of {method} is no object.") from None
        if head.result_type is UNSET or head.result_type == "complete":
            return payload
        if head.result_type != "input_required":
            raise UpstreamError(server, f"The server's result of {method} has the unknown type {head.result_type!r}.")
        row = METHODS.get(method)
        if row is None or row.interrupts is None or not row.interrupts.covers(self.revision):
            raise UpstreamError(server, f"The server asked for input on {method}, where the protocol has no questions.")
        if isinstance(head.input_requests, Raw) and members_of(head.input_requests) != {}:
            raise UpstreamError(server, "The server asked a question of a kind that mcpx did not declare.")
        if isinstance(head.request_state, UnsetType) or string_of(head.request_state) is None:
            raise UpstreamError(server, f"The server asked for input on {method}, but put no question.")
        return TryAgain(head.request_state)


class DiscoverResult(msgspec.Struct, rename="camel"):
    """As much of the answer to ``server/discover`` as mcpx reads."""

    supported_versions: list[str]
    capabilities: Raw | UnsetType = UNSET  # msgspec takes Raw beside None for null only
    instructions: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")

    @property
    def identity(self) -> Identity:
        server_info = (members_of(self.meta) or {}).get(meta.SERVER_INFO)
        return read_identity(server_info, self.capabilities, self.instructions)


def discover_params(version: str, told: Mapping[str, Raw], client_info: Raw) -> dict[str, Any]:
    """The params of ``server/discover``: nothing but the metadata (2026-07-28 server/discover)."""
    return {
        "_meta": {
            meta.PROTOCOL_VERSION: version,
            meta.CLIENT_CAPABILITIES: capabilities.narrow_client(told, version),
            meta.CLIENT_INFO: capabilities.narrow_implementation(client_info, version),
        }
    }
