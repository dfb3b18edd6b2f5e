"""spec: what each revision of the protocol says, as tables, and carrying, which follows them. No I/O.

``revisions``, ``meta``, ``lists`` and ``levels`` name things; ``methods``, ``tables`` (the rows of ``fields``),
``capabilities`` and ``codes`` say since and until which revision each exists; ``carry`` says a payload in another
revision, by ``plans`` worked out from the rows and by what ``restate`` and ``questions`` add to them; ``render`` prints
it all; ``headers`` is what HTTP says beside the body. A date stands nowhere else in mcpx. The function ``carry`` is had
from its module, which has the same name.
"""

from __future__ import annotations

from mcpx.spec.capabilities import (
    can_ask,
    is_implementation,
    narrow_client,
    narrow_implementation,
    narrow_server,
    read_server,
    told,
)
from mcpx.spec.carry import CannotSay, carry_params, carry_question, carry_result, stamp_modern
from mcpx.spec.codes import carry_error, unknown_item
from mcpx.spec.methods import METHODS, Method, defined, removed
from mcpx.spec.render import as_data, render_table

__all__ = [
    "METHODS",
    "CannotSay",
    "Method",
    "as_data",
    "can_ask",
    "carry_error",
    "carry_params",
    "carry_question",
    "carry_result",
    "defined",
    "is_implementation",
    "narrow_client",
    "narrow_implementation",
    "narrow_server",
    "read_server",
    "removed",
    "render_table",
    "stamp_modern",
    "told",
    "unknown_item",
]
