"""What every request has to show before its body is read: that it is meant for mcpx, and that whoever sends it may.

A web page can have a browser send requests anywhere, and by rebinding a name of its own even read what comes back from
this machine. It cannot choose the ``Host`` and the ``Origin`` that the browser writes: those tell. (The transports
pages of all revisions, Security Warning. CORS: the Fetch standard, section 3.2.)
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import UNSET

from mcpx.host.http.access import host_of, normal_origin
from mcpx.spec.headers import LAST_EVENT_ID, MCP_SESSION_ID
from mcpx.transports.http_server import Answer
from mcpx.wire.frames import INVALID_REQUEST, encode, error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpx.host.http.access import Access
    from mcpx.transports.http_server import HttpRequest

HEALTH = "/v1/health"  # the one path that asks for no token: it says nothing, and load balancers have none to give
MAX_SHOWN = 100  # characters of what a request says that an answer repeats

# What a page that is allowed may send and see beyond what any page may.
_METHODS = "GET, POST, DELETE"
_HEADERS = frozenset({"authorization", "content-type", "accept", "cache-control", LAST_EVENT_ID})
_MCP_HEADERS = "mcp-"
_PREFLIGHT_AGE = "600"  # seconds that a browser need not ask again


def check(request: HttpRequest, access: Access) -> Answer | None:
    """The answer that refuses a request, or settles it; ``None`` for one that may be served."""
    host = request.headers.get("host", "")
    if host_of(host) not in access.hosts:
        return _refuse(
            403, f"Forbidden: {_shown(host)} is no name that mcpx is served under here; --allow-host would add it"
        )
    origin = request.headers.get("origin")
    if origin is not None and not is_allowed(origin, access):
        hint = (
            "; --allow-origin would let them" if origin.lower() != "null" else ": any page can have that for its origin"
        )
        return _refuse(403, f"Forbidden: pages of {_shown(origin)} may not use this server{hint}")
    shared = cors(request, access)
    asked = request.headers.get("access-control-request-method")
    if request.method == "OPTIONS" and origin is not None and asked is not None:
        return Answer(204, b"", {**shared, **_preflight(request)})  # which never carries the token
    if access.token is not None and request.path != HEALTH and not _has_token(request, access.token):
        wanted = {"WWW-Authenticate": "Bearer", **shared}
        return _refuse(401, "Unauthorized: it takes the token of this server, as Authorization: Bearer TOKEN", wanted)
    return None


def is_allowed(origin: str, access: Access) -> bool:
    """Whether pages of an origin may use mcpx: those of the hosts that it is served under, and those that are named.

    ``null`` is what any page can have for its origin, and never allowed.
    """
    written = normal_origin(origin)
    if written in access.origins:
        return True
    try:
        parts = urlsplit(written)
    except ValueError:
        return False
    bare = written == f"{parts.scheme}://{parts.netloc}"
    return bare and parts.scheme in ("http", "https") and host_of(parts.netloc) in access.hosts


def cors(request: HttpRequest, access: Access) -> Mapping[str, str]:
    """The headers by which a browser lets the page that sent a request read its answer; none for what is no page."""
    origin = request.headers.get("origin")
    if origin is None or not is_allowed(origin, access):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": "Mcp-Session-Id, WWW-Authenticate",
        "Vary": "Origin",
    }


def _preflight(request: HttpRequest) -> Mapping[str, str]:
    """What a page is allowed, of what it asks for; names of headers with parameters of tools are not known before."""
    asked = request.headers.get("access-control-request-headers", "").lower().split(",")
    names = [name for one in asked if (name := one.strip()) in _HEADERS or name.startswith(_MCP_HEADERS)]
    return {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": ", ".join(names or [MCP_SESSION_ID]),
        "Access-Control-Max-Age": _PREFLIGHT_AGE,
    }


def _has_token(request: HttpRequest, token: str) -> bool:
    """Whether the credentials are the token, compared in a time that tells nothing of it (RFC 6750 section 2.1)."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    given = credentials.strip().encode("utf-8", "surrogatepass")
    return hmac.compare_digest(given, token.encode()) and scheme.lower() == "bearer"


def _refuse(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """A JSON-RPC error without an id, as the transports pages of 2025-11-25 and later have it."""
    body = encode(error(UNSET, INVALID_REQUEST, message))
    return Answer(status, body, {"Content-Type": "application/json", **(headers or {})})


def _shown(value: str) -> str:
    kept = "".join(one if one.isprintable() else "?" for one in value[:MAX_SHOWN])
    return f'"{kept}"'
