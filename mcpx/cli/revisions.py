"""``mcpx revisions``: what each revision of the protocol has, from the tables that mcpx itself goes by."""

from __future__ import annotations

from difflib import get_close_matches

import msgspec

from mcpx.errors import ConfigError
from mcpx.spec.render import as_data, names, render_table

MAX_NEAR = 5  # names that are offered for one that is unknown


def revisions(name: str | None, as_json: bool) -> int:
    """Print the table, or what it has of one name, and return the exit status.

    Raises ``ConfigError`` for a name that it does not have.
    """
    if name is not None:
        _check(name)
    text = msgspec.json.format(msgspec.json.encode(as_data(name))).decode() + "\n" if as_json else render_table(name)
    print(text, end="")
    return 0


def _check(name: str) -> None:
    known = {each.casefold(): each for each in names()}
    folded = name.casefold()
    if folded in known:
        return
    # A part of a longer name comes first: "initialized" for "notifications/initialized".
    holding = [each for each in known if len(folded) > 1 and folded in each]
    near = dict.fromkeys([*holding, *get_close_matches(folded, known, MAX_NEAR)])
    shown = ", ".join(f'"{known[each]}"' for each in list(near)[:MAX_NEAR])
    hint = f"did you mean {shown}?" if shown else '"mcpx revisions" shows what there is'
    problem = f'no method, notification, capability, code, kind of content or type is called "{name}"'
    raise ConfigError([f"{problem}; {hint}"])
