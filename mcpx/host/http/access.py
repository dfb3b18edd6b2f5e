"""Who may come in by HTTP: what a command line says of that, checked before anything listens."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from mcpx.errors import ConfigError
from mcpx.transports.listeners import is_loopback
from mcpx.transports.sockets import host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORTEST_TOKEN = 8  # characters; whatever is shorter is guessed soon
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})  # this machine's names for itself

_HOST = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:/@?#%,\\\s]+))(?::\d*)?")  # RFC 9110 section 7.2
_TOKEN = re.compile(r"[\x21-\x7e]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")


class Access(msgspec.Struct, frozen=True):
    """Who may come in: by which names, from which web pages, and with what."""

    hosts: frozenset[str] = LOOPBACK  # as ``normal`` has them
    origins: frozenset[str] = frozenset()  # beside those of ``hosts``
    token: str | None = None


def plan_access(
    address: tuple[str, int], *, token: str | None = None, hosts: Iterable[str] = (), origins: Iterable[str] = ()
) -> Access:
    """Who may come in at an address: by its own name, this machine's and those in ``hosts``, and from pages of
    ``origins`` as well.

    Raises ``ConfigError`` for what is no name or no origin, and where others could reach the address without a token.
    """
    host, port = address
    problems: list[str] = []
    names = set(LOOPBACK)
    if not is_wildcard(host):
        names.add(normal(host))
    for one in hosts:
        name = _plain_host(one)
        if name is None:
            problems.append(f'--allow-host needs a host name or address without a port; "{one}" is none')
        else:
            names.add(name)
    allowed: set[str] = set()
    for origin in origins:
        try:
            allowed.add(_plain_origin(origin))
        except ValueError as error:
            problems.append(f'--allow-origin needs an origin such as https://app.example; "{origin}" {error}')
    if token is None and not is_loopback(host):
        problems.append(
            f"--http {host_and_port(host, port)}: others could use your servers there, so it needs a token "
            "(--token-file FILE, or MCPX_TOKEN); or serve 127.0.0.1, for this machine alone"
        )
    if problems:
        raise ConfigError(problems)
    return Access(frozenset(names), frozenset(allowed), token)


def check_token(text: str, source: str) -> str:
    """A token as ``source`` has it, without the white space around it.

    Raises ``ConfigError`` for one that is too short, or that no ``Authorization`` could carry (RFC 6750 section 2.1).
    """
    token = text.strip()
    if not token:
        raise ConfigError([f"{source} holds no token"])
    if len(token) < SHORTEST_TOKEN:
        made = "openssl rand -hex 32 makes a good one"
        raise ConfigError([f"the token in {source} has less than {SHORTEST_TOKEN} characters; {made}"])
    if not _TOKEN.fullmatch(token):
        raise ConfigError([f"the token in {source} may have letters, digits and punctuation only, and no spaces"])
    return token


def is_wildcard(host: str) -> bool:
    """Whether it stands for all addresses of this machine, and so for no name."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def normal(host: str) -> str:
    """One spelling for one host: a name in lower case, an address as it is usually written."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        return host.lower().removesuffix(".")


@lru_cache(maxsize=64)  # clients say the same few
def host_of(header: str) -> str | None:
    """The host that a ``Host`` header names, in its normal spelling and without its port; ``None`` for what is none."""
    found = _HOST.fullmatch(header)
    if found is None or (found[1] is not None and not _is_ipv6(found[1])):
        return None
    return normal(found[1] or found[2])


def normal_origin(origin: str) -> str:
    """One spelling for one origin: browsers write it in lower case and leave a usual port out (RFC 6454 section 6)."""
    written = origin.lower()
    for scheme, port in (("http", ":80"), ("https", ":443")):
        if written.startswith(f"{scheme}://"):
            written = written.removesuffix(port)
    return written


def _plain_host(text: str) -> str | None:
    try:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        name = None if ":" in text or "*" in text else host_of(text)
        return name or None


def _plain_origin(text: str) -> str:
    """Raises ``ValueError`` that says what is wrong."""
    if text == "null":
        raise ValueError("stands for any page that has no origin of its own")
    parts = urlsplit(text)
    if not (
        _SCHEME.fullmatch(parts.scheme) and parts.netloc and text.lower() == f"{parts.scheme}://{parts.netloc}".lower()
    ):
        raise ValueError("is none")
    if "*" in parts.netloc or "@" in parts.netloc:
        raise ValueError("is none; each one is given by itself")
    return normal_origin(text)


def _is_ipv6(text: str) -> bool:
    try:
        return isinstance(ip_address(text), IPv6Address)
    except ValueError:
        return False
