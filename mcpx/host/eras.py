"""Which era a request belongs to, and who asks: read anew from every request.

A request that carries reserved metadata is modern and speaks for itself; ``initialize`` opens the legacy era for all
that carry none (2026-07-28 basic/versioning, Backward Compatibility). Both may share one connection.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import RemoteProtocolError, RpcError
from mcpx.host.inbound import Handshake, Inbound
from mcpx.spec import meta as keys
from mcpx.spec.codes import UNSUPPORTED_VERSION
from mcpx.spec.levels import LEVELS
from mcpx.spec.revisions import LATEST_LEGACY, LEGACY, SUPPORTED, is_legacy, is_modern
from mcpx.upstream.call import Asker
from mcpx.wire.frames import INVALID_PARAMS, id_key, optional_members
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("mcpx.host")

MAX_SHOWN = 200  # characters of a host's own words in the log
MAX_INTRODUCED = 100  # identities of one connection that the log tells at level info; any further are noise
KEPT_ENVELOPES = 16  # of the last modern requests: several agents may share one pipe, and many one HTTP server
MAX_ENVELOPE = 64 * 1024  # bytes of one that is kept

# The reserved keys of a modern request, in the order in which ``_envelope`` takes them.
_ENVELOPE = (keys.PROTOCOL_VERSION, keys.CLIENT_CAPABILITIES, keys.CLIENT_INFO, keys.LOG_LEVEL)


class Envelopes:
    """What is kept of modern requests: their envelopes as they were read, and who has been introduced in the log.

    One for each connection; requests that share none, as over HTTP, share one of these.
    """

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str | bytes, ...], tuple[str, Asker]] = OrderedDict()
        self._introduced: set[int] = set()  # hashes of what may be long

    def read(self, host: str, written: tuple[Raw | None, ...], *, lasting: bool) -> tuple[str, Asker]:
        """The revision and the asker of an envelope, the very same asker for one that is still kept."""
        key = (host, *(b"" if raw is None else bytes(raw) for raw in written))
        known = self._read.get(key)
        if known is not None:
            self._read.move_to_end(key)
            return known
        revision, asker = _envelope(host, lasting, *written)
        self.introduce(revision, asker)
        if sum(map(len, key)) <= MAX_ENVELOPE:
            self._read[key] = (revision, asker)
            if len(self._read) > KEPT_ENVELOPES:
                self._read.popitem(last=False)
        return revision, asker

    def introduce(self, revision: str, asker: Asker) -> None:
        """Show in the log who a host says it is, which changes nothing else (2026-07-28 basic/index, _meta)."""
        who = hash((revision, bytes(asker.client_info or b"")))
        new = who not in self._introduced and len(self._introduced) < MAX_INTRODUCED
        if new:
            self._introduced.add(who)
        level = logging.INFO if new else logging.DEBUG
        if log.isEnabledFor(level):
            log.log(level, "Host %s connected on %s, revision %s", shown(asker.client_info), asker.host, revision)


class HostState:
    """One host, as far as it is known: its handshake, if it made one, and the last envelope that it wrote.

    ``name`` goes into each ``Asker``; ``assumed`` is the revision of a request that comes before any handshake and
    brings no metadata of its own. With ``named`` it is known, and not merely assumed. Without ``lasting`` others may
    make requests under the same name.
    """

    def __init__(
        self,
        name: str,
        assumed: str,
        envelopes: Envelopes | None = None,
        *,
        named: bool = False,
        lasting: bool = True,
    ) -> None:
        self.name = name
        self._lasting = lasting
        self._named = assumed if named else None
        self.legacy = Handshake(assumed, Asker(name, lasting=lasting))
        self._envelopes = envelopes or Envelopes()
        self._envelope: tuple[tuple[Raw | None, ...], str, Asker] | None = None

    @property
    def revision(self) -> str | None:
        """The revision in which the host is told what belongs to no request of its; ``None`` before any is known."""
        if self.legacy.agreed:
            return self.legacy.revision
        return self._envelope[1] if self._envelope is not None else self._named

    @property
    def asker(self) -> Asker:
        """Who it is, by its handshake or else by its last modern request."""
        if self.legacy.agreed or self._envelope is None:
            return self.legacy.asker
        return self._envelope[2]

    def read(self, method: str, params: Raw | UnsetType) -> Inbound:
        """Read a request's metadata. An ``initialize`` takes effect with this.

        Raises ``RemoteProtocolError`` (``-32602``) for params or metadata that are malformed, ``RpcError`` for a
        version that is not spoken.
        """
        if method == "initialize":
            return self._initialize(members_of(params) or {})
        return self._read(method, optional_members(params))

    def _read(self, method: str, params: dict[str, Raw]) -> Inbound:
        legacy = self.legacy
        meta = optional_members(params.pop("_meta", UNSET))
        if not meta:
            return Inbound(method, params, meta, legacy.revision, False, legacy.asker)
        if keys.REQUEST_KEYS.isdisjoint(meta):
            revision, asker, modern = legacy.revision, legacy.asker, False
        else:
            revision, asker = self._read_envelope(meta)
            modern = True
        token = meta.get(keys.PROGRESS_TOKEN)
        if token is not None and id_key(token) is None:
            token = None  # neither a string nor an integer: there is no valid progress notification for it
        foreign: dict[str, Raw] = {}
        if not meta.keys() <= keys.PER_HOP_KEYS:
            foreign = {key: value for key, value in meta.items() if key not in keys.PER_HOP_KEYS}
        return Inbound(method, params, foreign, revision, modern, asker, token)

    def _read_envelope(self, meta: Mapping[str, Raw]) -> tuple[str, Asker]:
        """The revision and the asker of a modern request (2026-07-28 basic/index, Per-request protocol fields).

        A host writes the same envelope on each of its requests, so the last one is kept, and compared byte for byte.
        """
        written = tuple(map(meta.get, _ENVELOPE))
        if self._envelope is None or self._envelope[0] != written:
            revision, asker = self._envelopes.read(self.name, written, lasting=self._lasting)
            self._envelope = (tuple(raw and raw.copy() for raw in written), revision, asker)
        return self._envelope[1], self._envelope[2]

    def _initialize(self, params: dict[str, Raw]) -> Inbound:
        """Open the legacy era: what was agreed before is replaced, requests under way finish as they began."""
        meta = members_of(params.pop("_meta", None)) or {}
        if not keys.REQUEST_KEYS.isdisjoint(meta):
            revision, asker = self._read_envelope(meta)
            return Inbound("initialize", params, {}, revision, True, asker)  # which that revision has removed
        info = params.get("clientInfo")
        capabilities = members_of(params.get("capabilities"))
        self.legacy = Handshake(
            _negotiate(params.get("protocolVersion")),
            Asker(
                self.name,
                {} if capabilities is None else {name: raw.copy() for name, raw in capabilities.items()},
                info.copy() if info is not None and members_of(info) is not None else None,
                lasting=self._lasting,
            ),
            agreed=True,
        )
        self._envelopes.introduce(self.legacy.revision, self.legacy.asker)
        return Inbound("initialize", params, {}, self.legacy.revision, False, self.legacy.asker, handshake=self.legacy)


def _negotiate(requested: Raw | None) -> str:
    """The revision that answers an ``initialize``: the one asked for, or mcpx's latest as a counter-offer.

    (The lifecycle pages of all four legacy revisions, Version Negotiation.)
    """
    if requested is None:
        return LATEST_LEGACY
    version = string_of(requested)
    if version is None:
        raise RpcError(
            INVALID_PARAMS,
            "Unsupported protocol version: not a string",
            {"supported": LEGACY, "requested": requested},
        )
    return version if is_legacy(version) else LATEST_LEGACY


def _envelope(
    host: str, lasting: bool, version: Raw | None, capabilities: Raw | None, info: Raw | None, level: Raw | None
) -> tuple[str, Asker]:
    if version is None or capabilities is None:
        missing = keys.PROTOCOL_VERSION if version is None else keys.CLIENT_CAPABILITIES
        raise RemoteProtocolError(INVALID_PARAMS, f"Invalid params: _meta lacks {missing}")
    revision = string_of(version)
    if revision is None:
        raise _wrong(keys.PROTOCOL_VERSION, "a string")
    declared = members_of(capabilities)
    if declared is None:
        raise _wrong(keys.CLIENT_CAPABILITIES, "an object")
    if info is not None and members_of(info) is None:
        raise _wrong(keys.CLIENT_INFO, "an object")
    log_level = None if level is None else string_of(level)
    if level is not None and log_level not in LEVELS:
        raise _wrong(keys.LOG_LEVEL, f"one of {', '.join(LEVELS)}")
    if not is_modern(revision):
        raise RpcError(
            UNSUPPORTED_VERSION,
            f"Unsupported protocol version: {revision}",
            {"supported": SUPPORTED, "requested": revision},
        )
    kept = {name: raw.copy() for name, raw in declared.items()}
    return revision, Asker(host, kept, None if info is None else info.copy(), log_level, lasting)


def shown(info: Raw | None) -> str:
    """Name and version out of a ``clientInfo``, and nothing else that a host may have put there."""
    told = members_of(info) or {}
    name, version = (string_of(told.get(key)) for key in ("name", "version"))
    if not name:
        return "without a name"
    words = f"{name} {version}" if version else name
    return f'"{words}"' if len(words) <= MAX_SHOWN else f'"{words[:MAX_SHOWN]}..."'


def _wrong(key: str, expected: str) -> RemoteProtocolError:
    return RemoteProtocolError(INVALID_PARAMS, f"Invalid params: _meta[{key!r}] must be {expected}")
