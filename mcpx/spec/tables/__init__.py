"""The rows: every type of the protocol, by subject. ``RECORDS`` and ``UNIONS`` hold them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.spec.tables import content, declared, offers, params, questions, results

if TYPE_CHECKING:
    from mcpx.spec.fields import Record, Union

RECORDS: dict[str, Record] = {
    row.name: row for module in (offers, content, results, params, questions, declared) for row in module.RECORDS
}
UNIONS: dict[str, Union] = {row.name: row for module in (offers, content, questions) for row in module.UNIONS}
KINDS = content.KINDS
