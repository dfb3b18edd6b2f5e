"""Where hosts connect by TCP: addresses as people write them, ports to listen on, and TLS."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio

from mcpx.errors import McpxError
from mcpx.transports.sockets import host_and_port

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

MAX_PORT = 65535
EXAMPLE = "127.0.0.1:8000"
MAPPED = "::ffff:"  # an IPv4 address as IPv6 shows it

_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:/@\s]+)):([0-9]{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, an IPv6 address without its brackets. Port 0 is any that is free.

    Raises ``McpxError``, which says how an address is written.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > MAX_PORT:
        raise McpxError(f"{text!r} is no address to listen on: write HOST:PORT, such as {EXAMPLE} or [::1]:8000.")
    return match[1] or match[2], int(match[3])


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to an address or name."""
    host = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


@asynccontextmanager
async def open_tcp_listeners(host: str, port: int) -> AsyncGenerator[list[trio.SocketListener]]:
    """Listen on a port of every address that a host name stands for; on leaving nobody listens there any more.

    With port 0 it is one address and a port that is free. Raises ``McpxError``, which says in a sentence what is wrong.
    """
    where = host_and_port(host, port)
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except (socket.gaierror, UnicodeError) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        raise McpxError(f"The host name {host!r} cannot be resolved{why}.") from None
    except OSError as error:
        why = _WHY_NOT.get(error.errno or 0) or error.strerror or str(error)
        raise McpxError(f"{where} cannot be listened on: {why}.") from None
    try:
        if port == 0:  # each would have a port of its own
            for listener in listeners[1:]:
                await listener.aclose()
            del listeners[1:]
        yield listeners
    finally:
        for listener in listeners:
            listener.socket.close()


# What to say beside the system's own words.
_WHY_NOT: dict[int, str] = {
    errno.EADDRINUSE: "another program listens there already",
    errno.EADDRNOTAVAIL: "that is no address of this machine",
    errno.EACCES: "this user may not, which is usual for ports below 1024",
}


def server_tls(cert_path: str, key_path: str | None = None) -> ssl.SSLContext:
    """How a server with a certificate speaks TLS. Without ``key_path`` the key is in the certificate's file.

    Raises ``McpxError``, which says in a sentence what is wrong with the files.
    """
    for what, path in (("certificate", cert_path), ("key", key_path)):
        if path is not None:
            try:
                with Path(path).open("rb"):
                    pass
            except OSError as error:
                raise McpxError(f"The {what} file {path} cannot be read: {error.strerror or error}.") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    encrypted = False

    def no_password() -> str:
        """OpenSSL would ask on the terminal."""
        nonlocal encrypted
        encrypted = True
        return ""

    try:
        context.load_cert_chain(cert_path, key_path, password=no_password)
    except ssl.SSLError as error:
        if encrypted:
            why = f"The key in {key_path or cert_path} is encrypted; mcpx takes one without a password."
        else:
            why = _why_no_chain(cert_path, key_path or cert_path, error)
        raise McpxError(why) from None
    return context


def _why_no_chain(cert_path: str, key_path: str, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"The key in {key_path} is not that of the certificate in {cert_path}."
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert_path)
    except ssl.SSLError:
        return f"There is no certificate in {cert_path}; it is to be a PEM file."
    return f"There is no usable key in {key_path}; it is to be a PEM file."


def tls_listeners(
    listeners: Sequence[trio.SocketListener], context: ssl.SSLContext
) -> list[trio.SSLListener[trio.SocketStream]]:
    """The same listeners, behind TLS. Whoever takes a connection makes its handshake."""
    return [trio.SSLListener(listener, context, https_compatible=True) for listener in listeners]


def as_tls(stream: trio.abc.Stream) -> trio.SSLStream[trio.abc.Stream] | None:
    """The stream, where it is one behind TLS."""
    return cast("trio.SSLStream[trio.abc.Stream]", stream) if isinstance(stream, trio.SSLStream) else None


def peer_address(stream: trio.abc.Stream) -> str:
    """The address of who is at the other end, without a port; empty where it has none, or has gone."""
    if (tls := as_tls(stream)) is not None:
        return peer_address(tls.transport_stream)
    if not isinstance(stream, trio.SocketStream):
        return ""
    try:
        name: object = stream.socket.getpeername()
    except OSError:
        return ""
    return str(cast("tuple[object, ...]", name)[0]).removeprefix(MAPPED) if isinstance(name, tuple) else ""
