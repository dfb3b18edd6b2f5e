"""``${VAR}`` and ``${VAR:-default}`` in the values of a configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPENING = re.compile(r"\$?\$\{")
_BRACKET = re.compile(r"\$?\$\{|\}")
_EXPRESSION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class ExpansionError(ValueError):
    """An expression cannot be expanded. The message says which and why, and holds neither a value nor a default."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Replace each ``${VAR}`` by the variable's value, and each ``${VAR:-default}`` by it or the default.

    The default counts where the variable is unset or empty, and may hold expressions itself.
    ``$${`` stands for ``${``; a ``$`` before anything else is itself. What was put in is not looked at again.

    Raises ``ExpansionError`` for a variable that is unset and has no default, and for a ``${`` that begins no such
    expression.
    """
    parts: list[str] = []
    at = 0
    while opening := _OPENING.search(text, at):
        parts.append(text[at : opening.start()])
        if opening[0] == "$${":
            parts.append("${")
            at = opening.end()
        else:
            end = _closing(text, opening.end())
            parts.append(_value(text[opening.end() : end], environ))
            at = end + 1
    parts.append(text[at:])
    return "".join(parts)


def _closing(text: str, start: int) -> int:
    """Where the brace stands that closes the expression whose inside begins at ``start``."""
    depth = 1
    for bracket in _BRACKET.finditer(text, start):
        depth += {"${": 1, "}": -1}.get(bracket[0], 0)
        if depth == 0:
            return bracket.start()
    raise ExpansionError(f"{_shown(text[start:], closing='')} has no closing brace")


def _value(inside: str, environ: Mapping[str, str]) -> str:
    expression = _EXPRESSION.fullmatch(inside)
    if expression is None:
        raise ExpansionError(
            f"{_shown(inside)} is neither ${{VAR}} nor ${{VAR:-default}}; write $${{ where ${{ itself is meant"
        )
    name, default = expression[1], expression[2]
    value = environ.get(name)
    if default is None:
        if value is None:
            raise ExpansionError(
                f"the environment variable {name} is not set, and no default is given (${{{name}:-...}})"
            )
        return value
    return value or expand(default, environ)


def _shown(inside: str, closing: str = "}") -> str:
    """An expression for a message, without its default, which may be a secret."""
    head, default, _ = inside.partition(":-")
    return '"${' + head[:40] + (":-..." if default else closing if len(head) <= 40 else "...") + '"'
