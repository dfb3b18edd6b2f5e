"""Which proxy a request goes through: what the variables that programs heed for it say.

``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in capitals or not, as most programs read them. A
server on this machine is never asked for through a proxy, whatever they say: it could not be there.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """The URL of the proxy for a server; ``None`` for none. It may hold a password."""
    if is_loopback(host) or _is_excepted(host.lower(), port, _variable("no_proxy", environ)):
        return None
    found = _variable(f"{scheme}_proxy", environ) or _variable("all_proxy", environ)
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    name = host.partition("%")[0].lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    """Whether a list names the host: by its name, a domain that it is in, its address, a network, or ``*``."""
    for one in exceptions.lower().replace(" ", ",").split(","):
        name, _, number = one.rpartition(":")
        if number.isdigit() and name and not name.endswith(":"):
            if int(number) != port:
                continue
            one = name
        domain = one.strip("[]").removeprefix("*").removeprefix(".")
        if one == "*" or (domain and (host == domain or host.endswith(f".{domain}") or _is_in(host, domain))):
            return True
    return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _variable(name: str, environ: Mapping[str, str]) -> str:
    """What a variable says; the spelling in small letters counts first."""
    return environ.get(name) or environ.get(name.upper(), "")
