"""The ``requestState`` that mcpx gives to modern hosts: what it needs for the retry, sealed.

A host gives it back unchanged, so it is to be taken for an attacker's (2026-07-28 basic/patterns/mrtr, Server
Requirements). It is readable and authenticated: a payload and an HMAC-SHA256 over that and over what it is bound to,
which is the request as the retry has to repeat it, and who makes it. What it is bound to is not in it, so nothing of a
token or of arguments can be read out of one. Whoever has the key can open it, also another mcpx.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw

from mcpx.errors import RpcError
from mcpx.wire.frames import INVALID_PARAMS, canonical, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

# Other uses of the same key, should there ever be one, seal otherwise.
_PURPOSE = b"mcpx requestState 1"


class State(msgspec.Struct, frozen=True, eq=False):
    """What a ``requestState`` of mcpx says."""

    kind: Literal["wrapped", "parked", "visits"]
    server: str  # the upstream that it is about
    expires: float  # on the wall's clock, which all who have the key share
    inner: Raw  # of a wrapped one the upstream's own, a JSON string byte for byte; otherwise a matter of its kind


_decoder = msgspec.json.Decoder(State)


class Sealer:
    """Seals and opens with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = sha256(_PURPOSE + b"\0" + key).digest()

    def bind(self, method: str, params: Mapping[str, Raw], caller: str) -> bytes:
        """What a state is bound to: the request without what a retry adds, its arguments whatever their spelling, and
        who makes it.
        """
        return hmac.digest(self._key, encode((method, caller, canonical(params))), "sha256")

    def seal(self, state: State, bound: bytes) -> str:
        """The state as a host is given it."""
        payload = urlsafe_b64encode(encode(state)).rstrip(b"=")
        return (payload + b"." + self._proof(payload, bound)).decode()

    def open(self, sealed: str, bound: bytes, now: float) -> State:
        """The state that a host has given back, ``now`` on the wall's clock.

        Raises ``RpcError`` (``-32602``) for one that this key did not seal, or not for this request and caller, and for
        one that has expired.
        """
        payload, _, proof = sealed.encode("utf-8", "surrogatepass").partition(b".")
        if not hmac.compare_digest(proof, self._proof(payload, bound)):
            raise _invalid("it is not the one that was given out for this request")
        state = _decoder.decode(urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))  # sealed here: it decodes
        if now >= state.expires:
            raise _invalid("it has expired; make the request again without it")
        return state

    def _proof(self, payload: bytes, bound: bytes) -> bytes:
        return urlsafe_b64encode(hmac.digest(self._key, bound + payload, "sha256")).rstrip(b"=")


def _invalid(why: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: requestState cannot be used: {why}")
