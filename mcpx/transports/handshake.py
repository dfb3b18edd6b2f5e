"""What a client says to open a WebSocket, and what it makes of the answer; and what any HTTP request says of whom it is
for and who asks. (RFC 6455 section 4; RFC 9110 section 7.)

The headers of the configuration hold credentials, as the address itself may: nothing that is said here to a person
shows more of them than a header's name.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mcpx.errors import ConnectError
from mcpx.transports.reasons import ADVICE, said_status, secrets_among
from mcpx.transports.sockets import host_and_port

if TYPE_CHECKING:
    from collections.abc import Mapping

PORTS = {"ws": 80, "wss": 443, "http": 80, "https": 443}  # where none is given
SECURE = frozenset({"wss", "https"})

# What is said by HTTP itself, or by the handshake. A second one of any of them would make the request invalid.
_FRAMING = {"upgrade", "connection", "content-length", "transfer-encoding", "expect", "te", "trailer"}
_HANDSHAKE = _FRAMING | {
    "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol", "sec-websocket-extensions",
}  # fmt: skip
_RESERVED = {"http": (_FRAMING, "HTTP"), "https": (_FRAMING, "HTTP")}
_RESERVED_ELSE = (_HANDSHAKE, "the WebSocket handshake")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # in no header's value, RFC 9110 section 5.5
_STATUS = re.compile(rb"HTTP/1\.\d (\d{3})[ \r]")
_PATH = "/%:@!$&'()*+,;=~"  # what a path may hold beside letters and digits, RFC 3986 section 3.3
_HTTP = b"HTTP/"
_TLS_ALERT = b"\x15\x03"  # how a server that speaks TLS answers what is none, RFC 8446 section 5.1

_SWITCHING = 101

# What an HTTP server refuses with that has no WebSocket at a path, beside 404.
_NO_WEBSOCKET = frozenset({400, 405, 406, 415, 501})
_SPEAKS_HTTP = (
    "There may be no WebSocket at this URL; that of a server which speaks HTTP begins with http:// or https://."
)


class Opening(NamedTuple):
    """Whom a request is for and what it says of who asks."""

    host: str
    port: int
    tls: bool
    host_header: str
    target: str  # path and query; the query may hold credentials
    headers: list[tuple[bytes, bytes]]  # beside those of the handshake itself
    secrets: tuple[str, ...]  # what nobody is to see, should the server say it back

    @property
    def where(self) -> str:
        """The address as it is shown."""
        return host_and_port(self.host, self.port)


def opening(url: str, headers: Mapping[str, str]) -> Opening:
    """What a request to a URL says: the handshake of ``ws://`` and ``wss://``, and anything to ``http://``, ``https://``.

    A user name and password in it become an ``Authorization``, unless ``headers`` has one. Raises ``ConnectError`` for
    what cannot be said in HTTP.
    """
    parts = urlsplit(url)
    assert parts.hostname is not None
    try:
        host = parts.hostname.encode("idna").decode() if not parts.hostname.isascii() else parts.hostname
        host.encode("idna")
    except UnicodeError:
        raise ConnectError(f"{parts.hostname!r} is not a valid host name.") from None
    port = parts.port or PORTS[parts.scheme]
    shown = host.partition("%")[0]  # the zone of an IPv6 address means something on this machine only
    host_header = (
        host_and_port(shown, port) if port != PORTS[parts.scheme] else host_and_port(shown, port)[: -len(f":{port}")]
    )
    target = target_of(parts.path, parts.query)
    reserved, owner = _RESERVED.get(parts.scheme, _RESERVED_ELSE)
    sent: dict[str, str] = {}
    for name, value in headers.items():
        value = value.strip(" \t")
        if _CONTROL.search(value):
            raise ConnectError(f"The value of the header {name} holds a control character, which HTTP does not allow.")
        if name.lower() == "host":
            host_header = value
        elif name.lower() in reserved:
            raise ConnectError(f"The header {name} belongs to {owner} itself; take it out of the headers.")
        else:
            sent[name] = value
    if parts.username is not None and "authorization" not in map(str.lower, sent):
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        sent["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
    hidden = {parts.query, parts.username or "", parts.password or "", *sent.values()}
    hidden |= {value.partition(" ")[2] for value in sent.values()}  # "Bearer x" is to be hidden as "x" too
    return Opening(
        host,
        port,
        parts.scheme in SECURE,
        host_header,
        target,
        [(name.encode(), value.encode()) for name, value in sent.items()],
        secrets_among(hidden),
    )


def target_of(path: str, query: str) -> str:
    """What a request line says of a URL."""
    target = quote(path or "/", safe=_PATH)
    return f"{target}?{quote(query, safe=_PATH + '?')}" if query else target


def status_of(head: bytes) -> int | None:
    """The HTTP status that an answer begins with, once that much of it has come."""
    match = _STATUS.match(head)
    return None if match is None else int(match[1])


def is_refusal(head: bytes) -> bool:
    """Whether what has come of an answer says already that there will be no WebSocket."""
    if not head.startswith(_HTTP[: len(head)]):
        return True
    status = status_of(head)
    return status is not None and status >= 200


def why_refused(head: bytes, broke: str | None) -> str:
    """Why a handshake failed, in a sentence for a person. ``broke`` is how the connection broke, if it did."""
    status = status_of(head)
    if status is not None and status != _SWITCHING:
        return _why_status(status)
    if head.startswith(_TLS_ALERT):
        return "The server speaks TLS; its URL should begin with wss://."
    if status == _SWITCHING:
        return "The server's answer to the WebSocket handshake is not a valid one."
    if head:
        return "The server does not speak WebSocket, nor any HTTP."
    if broke is not None:
        return f"The connection broke during the WebSocket handshake: {broke}."
    return "The server closed the connection during the WebSocket handshake."


def _why_status(status: int) -> str:
    if 200 <= status < 300:
        said = f"The server answered as to any HTTP request, with {said_status(status)}:"
        return f"{said} there is no WebSocket at this URL."
    if 300 <= status < 400:
        said = f"The server redirects elsewhere, with HTTP status {said_status(status)}, which mcpx does not follow:"
        return f"{said} give it the address that is meant."
    advice = _SPEAKS_HTTP if status in _NO_WEBSOCKET else ADVICE.get(status)
    said = f"The server refused the WebSocket handshake with HTTP status {said_status(status)}."
    return f"{said} {advice}" if advice else said
