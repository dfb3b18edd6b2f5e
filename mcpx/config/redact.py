"""Keeping secrets out of what mcpx shows: values of ``env`` and ``headers``, and a URL's user, query and fragment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcpx.settings import SAFE_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpx.settings import ServerSettings

MASK = "***"
SHORTEST_SECRET = 6  # masking "1" or "true" wherever it stands would garble the log and protect nothing


def redact_url(url: str) -> str:
    """The URL without user name, password, query and fragment."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{MASK if user else ''}{at}{host}{parts.path}{'?' + MASK if parts.query else ''}"


def secrets_of(servers: Iterable[ServerSettings]) -> frozenset[str]:
    """The strings of these servers' settings that nobody is to see."""
    found: set[str] = set()
    for server in servers:
        # What is safe to inherit is safe to show, and a message about the PATH must be able to say it.
        found.update(value for name, value in server.env.items() if name not in SAFE_VARIABLES)
        for value in server.headers.values():
            found.update((value, value.partition(" ")[2]))  # "Bearer x" is to be hidden as "x" too
        if server.url is not None:
            parts = urlsplit(server.url)
            found.update((parts.query, parts.username or "", parts.password or ""))
    return frozenset(secret for secret in found if len(secret) >= SHORTEST_SECRET)


class Redactor:
    """Masks a set of secrets in texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        ordered = sorted(secrets, key=len, reverse=True)  # the longest first, so that none leaves its tail behind
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: str) -> str:
        """The text with each secret masked."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)
