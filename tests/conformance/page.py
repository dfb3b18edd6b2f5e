"""The tables of ``docs/conformance.md``, made from ``expected.py``: ``python -m tests.conformance.page`` does it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tests.conformance import client_leg, suite
from tests.conformance.expected import ANY, CAUSES, CLIENT_LEG, SERVER_LEG, Short, in_cell
from tests.conformance.server_leg import CELLS, REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE = suite.ROOT / "docs" / "conformance.md"
_TABLES = re.compile(r"(?<=<!-- made by tests/conformance/page.py -->\n).*(?=<!-- to here -->)", re.DOTALL)
PASSES = "passes"


def rendered(page: str) -> str:
    """The page with its tables made anew."""
    parts = [*(part for revision in REVISIONS for part in (_server(revision), _client(revision))), _causes()]
    return _TABLES.sub(lambda _: "\n" + "\n".join(parts), page)


def _server(revision: str) -> str:
    wanted = suite.requirements(revision)
    cells = [cell for cell in CELLS if cell.requirements == revision]
    shorts = [in_cell(cell) for cell in cells]
    rows = [
        [_name(name, name in wanted.server), *(_verdict(name, found) for found in shorts)]
        for name in wanted.server + wanted.server_unscored
    ]
    rows.append(["**scored scenarios that pass**", *(_score(wanted.server, found) for found in shorts)])
    columns = ["scenario", *(f"{cell.fixture} over {cell.transport}" for cell in cells)]
    return f"### Server leg, {revision}\n\n{_table(columns, rows)}\n{_details(SERVER_LEG[revision], behind=True)}"


def _client(revision: str) -> str:
    wanted = suite.requirements(revision)
    names = client_leg.scenarios(revision)
    rows = [[_name(name, name in wanted.client), _verdict(name, CLIENT_LEG[revision])] for name in names]
    scored = [name for name in names if name in wanted.client]
    rows.append(["**scored scenarios that pass**", _score(scored, CLIENT_LEG[revision])])
    details = _details(CLIENT_LEG[revision], behind=False)
    return f"### Client leg, {revision}\n\n{_table(['scenario', 'mcpx'], rows)}\n{details}"


def _causes() -> str:
    used = {short.cause for leg in (SERVER_LEG, CLIENT_LEG) for shorts in leg.values() for short in shorts}
    lines = [f"- **{name}**: {sentence}\n" for name, sentence in CAUSES.items() if name in used]
    return f"### Causes\n\n{''.join(lines)}\n"


def _name(name: str, scored: bool) -> str:
    return f"`{name}`" + ("" if scored else " (not scored)")


def _verdict(name: str, shorts: Iterable[Short]) -> str:
    found = [short for short in shorts if short.scenario == name]
    failed = dict.fromkeys(short.cause for short in found if short.failing)
    warned = dict.fromkeys(f"warns: {short.cause}" for short in found if short.warning)
    skipped = dict.fromkeys(f"skips: {short.cause}" for short in found if short.skipped)
    return ", ".join([*failed, *warned, *skipped]) or PASSES


def _score(names: Sequence[str], shorts: Iterable[Short]) -> str:
    failing = {short.scenario for short in shorts if short.failing}
    return f"**{sum(name not in failing for name in names)}/{len(names)}**"


def _details(shorts: Sequence[Short], *, behind: bool) -> str:
    """Which checks they are, and ``behind`` which server where there is one."""
    rows = [
        [f"`{short.scenario}`", *([_where(short)] if behind else []), _checks(short), short.cause]
        for short in shorts
        if ANY not in short.failing + short.skipped
    ]
    if not rows:
        return ""
    return _table(["scenario", *(["server behind mcpx"] if behind else []), "checks", "cause"], rows)


def _where(short: Short) -> str:
    return ", ".join(part for part in (short.fixture, short.transport) if part is not None) or "any"


def _checks(short: Short) -> str:
    marked = [(short.failing, ""), (short.warning, " (warns)"), (short.skipped, " (skipped)")]
    return ", ".join(
        f"`{id}`{note}" + (f" {times} times" if times > 1 else "")
        for ids, note in marked
        for id, times in Counter(ids).items()
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
