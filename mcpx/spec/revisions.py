"""The revisions of the Model Context Protocol, and their two eras.

Modern is membership in this table, never a comparison of strings (2026-07-28 basic/versioning, Terminology).
"""

from __future__ import annotations

from typing import Literal

V2024_11_05 = "2024-11-05"
V2025_03_26 = "2025-03-26"
V2025_06_18 = "2025-06-18"
V2025_11_25 = "2025-11-25"
V2026_07_28 = "2026-07-28"

REVISIONS: tuple[str, ...] = (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28)  # oldest first
LEGACY: tuple[str, ...] = (V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05)  # newest first; a handshake opens them
MODERN: tuple[str, ...] = (V2026_07_28,)  # newest first; every request carries its own metadata
SUPPORTED: tuple[str, ...] = MODERN + LEGACY  # as server/discover and -32022 list them
LATEST_LEGACY = LEGACY[0]
LATEST_MODERN = MODERN[0]
# Revisions with JSON-RPC batches (2025-03-26 basic/index, Batching; taken out again by the next one).
BATCHING: frozenset[str] = frozenset({V2025_03_26})
# Revisions in which an error for a request whose id is unknown leaves the id out (schema, JSONRPCErrorResponse);
# in the older ones no form is valid, and JSON-RPC 2.0 has null.
IDLESS_ERRORS: frozenset[str] = frozenset({V2025_11_25, V2026_07_28})
# The revision of requests on a byte stream that come before any handshake and bring no version of their own (LV-10).
ASSUMED_ON_STREAMS = V2024_11_05
# The same over HTTP, where no header names a version (2025-06-18 to 2026-07-28, Protocol Version Header).
ASSUMED_ON_HTTP = V2025_03_26
# Revisions whose clients reconnect to a stream that the server has closed, after a priming event and a delay that it
# told (2025-11-25 basic/transports, Sending Messages); older clients break on the empty event.
POLLING: frozenset[str] = frozenset({V2025_11_25})
# Revisions whose requests over HTTP name the revision in a header: a legacy client after its handshake (2025-06-18
# basic/transports, Protocol Version Header), a modern one always.
VERSION_HEADER: frozenset[str] = frozenset({V2025_06_18, V2025_11_25, V2026_07_28})

Era = Literal["legacy", "modern"]

RANK: dict[str, int] = {revision: rank for rank, revision in enumerate(REVISIONS)}


def is_modern(revision: str) -> bool:
    """Whether a version belongs to the modern era; an unknown one does not."""
    return revision in MODERN


def is_legacy(revision: str) -> bool:
    """Whether a version is one of those that a handshake opens; an unknown one is not."""
    return revision in LEGACY


def era_of(revision: str) -> Era:
    """The era of a revision that mcpx speaks."""
    return "modern" if is_modern(revision) else "legacy"


def newest_common(offered: list[str], ours: tuple[str, ...]) -> str | None:
    """The first of ``ours`` (newest first) that is offered as well."""
    return next((revision for revision in ours if revision in offered), None)
