"""The modern era as a client speaks it: every request carries version, capabilities and identity (2026-07-28
basic/index).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import RpcError, UpstreamError
from mcpx.spec import capabilities, meta
from mcpx.spec.asking import permit_question
from mcpx.spec.methods import METHODS
from mcpx.upstream.call import InputRequired, Question
from mcpx.upstream.identity import read_identity
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


_TOKEN = meta.PROGRESS_TOKEN.encode()
_NO_PARAMS = Raw(b"{}")
_head = msgspec.json.Decoder(ResultHead)


class ModernForm:
    """See ``mcpx.upstream.session.Form``."""

    announces_changes = False
    assumes_completions = False

    def __init__(
        self, revision: str, client_info: Raw, *, tell: Callable[[Asker], Mapping[str, Raw]], passthrough: bool
    ) -> None:
        self.revision = revision
        self._client_info = client_info
        self._tell = tell  # what of an asker's capabilities this server is told
        self._passthrough = passthrough
        self._opening = lru_cache(KEPT_ENVELOPES)(self._make_opening)

    def meta(self, asker: Asker, foreign: Mapping[str, Raw], token: int | None) -> Any:
        if token is not None and not foreign:
            return Raw(b'%b,"%b":%d}' % (self._opening(asker), _TOKEN, token))
        values = {**foreign, **self._envelope(asker)}
        if token is not None:
            values[meta.PROGRESS_TOKEN] = token
        return values

    def _make_opening(self, asker: Asker) -> bytes:
        """What is the same in nearly all requests of one asker, as JSON that goes on."""
        return frames.encode(self._envelope(asker)).removesuffix(b"}")

    def _envelope(self, asker: Asker) -> dict[str, Any]:
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

    def conclude(self, server: str, method: str, payload: Raw, asker: Asker) -> Raw | InputRequired:
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
        questions = self._questions(server, head.input_requests, asker)
        state = None if head.request_state in (UNSET, frames.NULL) else head.request_state
        if state is not None and string_of(state) is None:
            raise UpstreamError(server, f"The server asked for input on {method}, with a state that is no string.")
        if state is None and not questions:
            raise UpstreamError(server, f"The server asked for input on {method}, but put no question.")
        return InputRequired(questions, state, self.revision, server)

    def _questions(self, server: str, written: Raw | UnsetType, asker: Asker) -> tuple[Question, ...]:
        """The questions in a result (2026-07-28 basic/patterns/mrtr). One that the server may not put makes all of the
        result invalid, as there is no way to refuse it alone.
        """
        if isinstance(written, UnsetType) or written == frames.NULL:
            return ()
        if (asked := members_of(written)) is None:
            raise UpstreamError(server, "The server's inputRequests are no object.")
        told = capabilities.narrow_client(self._tell(asker), self.revision)
        questions: list[Question] = []
        for key, raw in asked.items():
            members = members_of(raw) or {}
            method, params = string_of(members.get("method")), members_of(members.get("params", _NO_PARAMS))
            if method is None or params is None:
                raise UpstreamError(server, f"The server's question {key!r} makes no sense.")
            try:
                params = permit_question(method, params, told, self.revision)
            except RpcError as error:
                reason = f"The server asked {method}, which it may not. {error.message}."
                raise UpstreamError(server, reason) from None
            questions.append(Question(key, method, params, self.revision))
        return tuple(questions)


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
