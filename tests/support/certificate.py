"""A certificate made on the spot, for servers on this machine: Python can read certificates, and not make them.

ECDSA on P-256 (FIPS 186-5) and X.509 (RFC 5280), as far as one certificate that signs itself needs them.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
from base64 import encodebytes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    Point = tuple[int, int] | None

# The curve: its field, its first coefficient, the order of its base point, and that.
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
A = P - 3
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

# Object identifiers, encoded.
EC_KEY = "2a8648ce3d0201"
P256 = "2a8648ce3d030107"
ECDSA_SHA256 = "2a8648ce3d040302"
COMMON_NAME = "550403"
KEY_ID, KEY_USAGE, ALT_NAME, CONSTRAINTS = "551d0e", "551d0f", "551d11", "551d13"


def make_certificate(folder: Path, name: str = "localhost", address: bytes = b"\x7f\0\0\1") -> Path:
    """A file with a certificate for a name and an IP address, which signs itself, and its key."""
    private = secrets.randbelow(N - 1) + 1
    public = _encoded(_times(private, G))
    signed = _certificate(private, public, name, address)
    key = _sequence(_der(2, b"\1"), _der(4, private.to_bytes(32)), _der(0xA0, _oid(P256)), _der(0xA1, _bits(public)))
    path = folder / "certificate.pem"
    path.write_text(_pem("CERTIFICATE", signed) + _pem("EC PRIVATE KEY", key))
    return path


def server_context(path: Path) -> ssl.SSLContext:
    """How a server with that certificate speaks TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    return context


def _certificate(private: int, public: bytes, name: str, address: bytes) -> bytes:
    whose = _sequence(_der(0x31, _sequence(_oid(COMMON_NAME), _der(12, name.encode()))))
    lasts = _sequence(_der(23, b"200101000000Z"), _der(23, b"491231235959Z"))
    key = _sequence(_sequence(_oid(EC_KEY), _oid(P256)), _bits(public))
    extensions = _sequence(
        _extension(CONSTRAINTS, _sequence(_der(1, b"\xff")), critical=True),  # an authority: its own
        _extension(KEY_USAGE, _der(3, b"\2\x84"), critical=True),  # signs handshakes and certificates
        _extension(KEY_ID, _der(4, hashlib.sha256(public).digest()[:20])),
        _extension(ALT_NAME, _sequence(_der(0x82, name.encode()), _der(0x87, address))),
    )
    algorithm = _sequence(_oid(ECDSA_SHA256))
    serial = _integer(secrets.randbits(64) + 1)
    version = _der(0xA0, _der(2, b"\2"))
    body = _sequence(version, serial, algorithm, whose, lasts, whose, key, _der(0xA3, extensions))
    return _sequence(body, algorithm, _bits(_signature(private, body)))


def _signature(private: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest())
    once = secrets.randbelow(N - 1) + 1
    point = _times(once, G)
    assert point is not None
    r = point[0] % N
    s = pow(once, -1, N) * (digest + r * private) % N
    return _sequence(_integer(r), _integer(s))


def _times(factor: int, point: Point) -> Point:
    total: Point = None
    while factor:
        if factor & 1:
            total = _plus(total, point)
        point = _plus(point, point)
        factor >>= 1
    return total


def _plus(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return one or other
    (x1, y1), (x2, y2) = one, other
    if x1 == x2:
        if (y1 + y2) % P == 0:
            return None
        slope = (3 * x1 * x1 + A) * pow(2 * y1, -1, P)
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P)
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def _encoded(point: Point) -> bytes:
    assert point is not None
    return b"\4" + point[0].to_bytes(32) + point[1].to_bytes(32)


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 + len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _oid(encoded: str) -> bytes:
    return _der(6, bytes.fromhex(encoded))


def _integer(value: int) -> bytes:
    return _der(2, value.to_bytes(value.bit_length() // 8 + 1))


def _bits(content: bytes) -> bytes:
    return _der(3, b"\0" + content)


def _extension(identifier: str, content: bytes, *, critical: bool = False) -> bytes:
    return _sequence(_oid(identifier), _der(1, b"\xff") if critical else b"", _der(4, content))


def _pem(kind: str, content: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{encodebytes(content).decode()}-----END {kind}-----\n"
