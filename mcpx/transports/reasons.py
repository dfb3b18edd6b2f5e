"""Why a server at a URL was not reached, or refused, in sentences for a person, without the secrets it was sent."""

from __future__ import annotations

import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORTEST_SECRET = 6  # characters; masking anything shorter would garble what is said, and protect nothing
MASK = "***"
MAX_SAID = 200  # characters shown of what a server says

# What to do about a refusal, by its HTTP status.
ADVICE: dict[int, str] = {
    401: 'Give it a token: "headers": {"Authorization": "Bearer ..."} in the configuration, '
    'or --header "Authorization: Bearer ..." beside a URL on the command line.',
    403: 'It may want another token in "headers", or no client at this place.',
    404: "Is the path of the URL right?",
    407: "It is a proxy that wants to know who asks: put user and password into the proxy's address.",
    429: "It has had too many requests.",
}


def said_status(status: int) -> str:
    """A status with what it means, as far as that is known."""
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def why_no_tls(where: str, cause: BaseException | None, plain: str) -> str:
    """Why a TLS handshake with the server at ``where`` failed; ``plain`` is how the URL of one without TLS begins."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = cause.verify_message.rstrip(".")
        own = "If it is one of your own, name the file of its authority in mcpx's environment variable SSL_CERT_FILE."
        return f"The certificate of {where} is not accepted: {why}. {own}"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return f"{where} does not speak TLS; its URL should begin with {plain}."
        if cause.reason:
            return f"TLS with {where} failed: {cause.reason.replace('_', ' ').lower()}."
    return f"{where} closed the connection during the TLS handshake."


def secrets_among(texts: Iterable[str]) -> tuple[str, ...]:
    """Those of the texts that are long enough to be masked, the longest first, so that none leaves its tail behind."""
    return tuple(sorted({one for one in texts if len(one) >= SHORTEST_SECRET}, key=len, reverse=True))


def clean(said: str, secrets: Iterable[str]) -> str:
    """What a server says, without secrets and control characters, shortened, and without a full stop."""
    for secret in secrets:
        said = said.replace(secret, MASK)
    said = "".join(one if one.isprintable() else " " for one in said[:MAX_SAID])
    return said.strip().rstrip(".")
