"""How a stream of bytes may reach a framer, and what a test needs to say so."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpx.wire.lines import LineSplitter, Oversize

# Properties are about bytes, not about how busy the machine is.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


def in_chunks(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def at_positions(stream: bytes, positions: Iterable[int]) -> list[bytes]:
    """The stream cut at each position that lies within it."""
    bounds = [0, *sorted(position for position in positions if position <= len(stream)), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


def split(splitter: LineSplitter, chunks: Iterable[bytes]) -> list[bytes | Oversize]:
    """All that a splitter makes of a stream, to its end."""
    lines: list[bytes | Oversize] = []
    for chunk in chunks:
        lines += splitter.feed(chunk)
    return lines + splitter.finish()
