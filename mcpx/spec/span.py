"""A stretch of revisions: since which one something exists, and until which."""

from __future__ import annotations

import msgspec

from mcpx.spec.revisions import RANK, REVISIONS, V2024_11_05


class Span(msgspec.Struct, frozen=True):
    """From ``since`` to ``until``, both included; ``until=None`` means that the newest revision still has it."""

    since: str = V2024_11_05
    until: str | None = None

    def covers(self, revision: str) -> bool:
        """Whether ``revision`` has it. An unknown revision is a ``KeyError``."""
        rank = RANK[revision]
        return RANK[self.since] <= rank and (self.until is None or rank <= RANK[self.until])

    def ended(self, revision: str) -> bool:
        """Whether an older revision had it and ``revision`` no longer does."""
        return self.until is not None and RANK[revision] > RANK[self.until]

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions that have it, oldest first."""
        return tuple(revision for revision in REVISIONS if self.covers(revision))


ALWAYS = Span()
