"""URI templates of an app's own resources: the two simple kinds of expression, and what a URI says for them."""

from __future__ import annotations

import re
from urllib.parse import unquote

_EXPRESSION = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")


class UriTemplate:
    """A template with ``{name}`` for one path segment and ``{+name}`` for a rest that may hold slashes (RFC 6570).

    Raises ``ValueError`` for any other expression, for a name that comes twice, and for two expressions with nothing
    between them, since a URI would not say where one ends.
    """

    def __init__(self, template: str) -> None:
        parts = _EXPRESSION.split(template)  # literal, "+" or "", name, literal, ...
        literals, self.names = parts[::3], tuple(parts[2::3])
        if any("{" in literal or "}" in literal for literal in literals):
            raise ValueError(f"{template!r} holds an expression that is neither {{name}} nor {{+name}}")
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"{template!r} must hold names, each once")
        if "" in literals[1:-1]:
            raise ValueError(f"{template!r} has two expressions with nothing between them")
        self.template = template
        self._head = literals[0]
        self._variables = list(zip(self.names, parts[1::3], literals[1:], strict=True))

    def match(self, uri: str) -> dict[str, str] | None:
        """The values that a URI gives to the names, unquoted; ``None`` where it does not fit.

        Every value but the last ends at the first place where the text behind it follows: one answer, in linear time.
        """
        if not uri.startswith(self._head):
            return None
        values: dict[str, str] = {}
        at = len(self._head)
        for name, operator, literal in self._variables:
            if name == self.names[-1]:
                end = len(uri) - len(literal)
                if not uri.endswith(literal):
                    return None
            else:
                end = uri.find(literal, at + 1)
            value = uri[at:end] if end > at else ""
            if not value or (not operator and "/" in value):
                return None
            values[name] = unquote(value)
            at = end + len(literal)
        return values
