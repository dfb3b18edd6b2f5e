"""Whether a URI could have come from a URI template (RFC 6570), for finding out which upstream serves it.

Hosts expand templates by many libraries and by hand, and servers match them by many more, so this errs on the side of a
match: it asks where an expression's text may be, not which variables it would give. Templates come from upstreams and
URIs from hosts, and either may be hostile, so there is no backtracking: the set of places that can be reached is one
integer, a bit per byte of the URI, and each byte or expression of the template is a handful of operations on it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_TEMPLATE = 4096  # bytes; what is longer matches nothing
MAX_URI = 8192

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLES = re.compile(r"[\w.%]+(?::\d+|\*)?(?:,[\w.%]+(?::\d+|\*)?)*")


class _Form(NamedTuple):
    """What an expression may expand to: ``first``, then any run of bytes without those in ``stop``."""

    first: bytes
    stop: bytes
    may_vanish: bool  # whether it expands to nothing where its variables have no value


# By operator (RFC 6570, appendix A). A value of a plain expression is one path segment at most, and not empty, as
# servers have it; with an operator an expression whose variables are all undefined vanishes.
_FORMS: dict[str, _Form] = {
    "": _Form(b"", b"/", may_vanish=False),
    "+": _Form(b"", b"", may_vanish=False),
    "#": _Form(b"#", b"", may_vanish=True),
    ".": _Form(b".", b"/", may_vanish=True),
    "/": _Form(b"/", b"", may_vanish=True),
    ";": _Form(b";", b"/?#", may_vanish=True),
    "?": _Form(b"?", b"#", may_vanish=True),
    "&": _Form(b"&", b"#", may_vanish=True),
}


def match_template(template: str, uri: str) -> bool:
    """Whether ``uri`` could be an expansion of ``template``. Malformed templates, and what is over the limits, match
    nothing."""
    if len(template) > MAX_TEMPLATE or len(uri) > MAX_URI:
        return False
    literals = _EXPRESSION.split(template)  # literal, expression, literal, ..., literal
    head, tail = literals[0], literals[-1]
    if not uri.startswith(head) or not uri.endswith(tail):  # most templates end here
        return False
    text = uri.encode("utf-8", "surrogatepass")
    if len(text) > MAX_URI or len(template.encode("utf-8", "surrogatepass")) > MAX_TEMPLATE:
        return False
    places = _Places(text)
    for index, part in enumerate(literals):
        if index % 2 == 0:
            if "{" in part or "}" in part:
                return False
            places.take(part.encode("utf-8", "surrogatepass"))
        else:
            form = _form(part)
            if form is None:
                return False
            places.take_expression(form)
    return places.at_end()


def _form(expression: str) -> _Form | None:
    operator = expression[:1] if expression[:1] in _FORMS else ""
    return _FORMS[operator] if _VARIABLES.fullmatch(expression[len(operator) :]) else None


class _Places:
    """The places in a text that can be reached, bit by bit; at first its beginning."""

    def __init__(self, text: bytes) -> None:
        self._backwards = text[::-1]  # so that the first byte is the lowest bit
        self._end = len(text)
        self._all = (1 << self._end) - 1
        self._reached = 1
        self._masks: dict[bytes, int] = {}

    def at_end(self) -> bool:
        return bool(self._reached >> self._end & 1)

    def take(self, literal: bytes) -> None:
        """Go on past a literal, from wherever it stands."""
        for value in literal:
            self._reached = (self._reached & self._mask(bytes((value,)))) << 1

    def take_expression(self, form: _Form) -> None:
        """Go on past what an expression may expand to."""
        before = self._reached
        self.take(form.first)
        passable = self._all & ~self._mask(form.stop) if form.stop else self._all
        if not form.first:
            self._reached = (self._reached & passable) << 1  # at least one byte
        # Adding the reached bits to the passable ones carries each through its run of passable bytes, at once for all
        # runs (Myers 1999, for approximate matching).
        reached = self._reached
        self._reached = (((reached & passable) + passable) ^ passable) | reached
        if form.may_vanish:
            self._reached |= before

    def _mask(self, values: bytes) -> int:
        """Where in the text one of these bytes stands."""
        if values not in self._masks:
            digits = bytes(49 if value in values else 48 for value in range(256))  # "1" and "0"
            self._masks[values] = int(self._backwards.translate(digits) or b"0", 2)
        return self._masks[values]
