"""Collecting what is wrong with a configuration, so that all of it can be said at once."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Report(msgspec.Struct):
    """The mistakes and the warnings found in one file, each one full sentence that begins with where it is."""

    file: str
    problems: list[str] = []
    warnings: list[str] = []


class Place(msgspec.Struct, frozen=True):
    """A place in the file, to which a sentence is put: the file, the server if it is within one, and the key."""

    report: Report
    server: str | None = None
    key: str = ""

    def within(self, key: str) -> Place:
        """The place of a member of the object here."""
        return Place(self.report, self.server, f"{self.key}.{key}" if self.key else key)

    def item(self, index: int) -> Place:
        """The place of an item of the list here."""
        return Place(self.report, self.server, f"{self.key}[{index}]")

    def problem(self, sentence: str) -> None:
        """Something that must be put right before anything runs."""
        self.report.problems.append(self._located(sentence))

    def warning(self, sentence: str) -> None:
        """Something that is probably not meant, and does not stop mcpx."""
        self.report.warnings.append(self._located(sentence))

    def unknown(self, key: str, known: Iterable[str], *, elsewhere: Iterable[str] = ()) -> None:
        """Warn of a key that means nothing here, with the nearest one that does, here or ``elsewhere``."""
        by_fold = {candidate.rpartition(".")[2].casefold(): candidate for candidate in (*elsewhere, *known)}
        folded = key.replace("_", "").replace("-", "").casefold()
        nearest = difflib.get_close_matches(folded, by_fold, n=1, cutoff=0.6)
        hint = f'; did you mean "{by_fold[nearest[0]]}"?' if nearest else ""
        self.warning(f'unknown key "{key}" is ignored{hint}')

    def _located(self, sentence: str) -> str:
        parts = [self.report.file]
        if self.server is not None:
            parts.append(f'server "{self.server}"')
        if self.key:
            parts.append(self.key)
        return ": ".join((*parts, sentence))
