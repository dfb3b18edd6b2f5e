"""``mcpx revisions``: what each revision of the protocol has, from the tables that mcpx itself goes by."""

from __future__ import annotations

import msgspec

from mcpx.spec.render import as_data, render_table


def revisions(as_json: bool) -> int:
    """Print the table, and return the exit status."""
    text = msgspec.json.format(msgspec.json.encode(as_data())).decode() + "\n" if as_json else render_table()
    print(text, end="")
    return 0
