"""Roots out of the configuration, for the hosts of a server that declare none of their own.

A server is told of them as of a host's, and asks in its own way; what it asks never reaches the host. (2025-11-25 and
2026-07-28 client/roots.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from mcpx.upstream.call import InputRequired
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOTS = "roots/list"
ROOTS_CHANGED = "notifications/roots/list_changed"
DECLARED = Raw(b"{}")  # without `listChanged`: a configuration stays as it is

_MARK = "mcpx.roots:"  # how a state begins in which it is kept what was answered here


def roots_result(uris: Iterable[str]) -> Raw:
    """The answer to ``roots/list``."""
    return to_raw({"roots": [{"uri": uri} for uri in uris]})


class _Kept(msgspec.Struct):
    keys: list[str]
    state: str | None  # the server's own, as it wrote it


_kept = msgspec.json.Decoder(_Kept)


def answer_some(required: InputRequired) -> InputRequired:
    """What of a server's questions is left for the host, which gives its answers back with the state.

    In that it is kept which of them are about roots, and so are answered with them then.
    """
    ours = [one.key for one in required.questions if one.method == ROOTS]
    state = None if required.state is None else string_of(required.state)
    if not ours and (state is None or not state.startswith(_MARK)):
        return required
    others = tuple(one for one in required.questions if one.method != ROOTS)
    written = None if required.state is None else bytes(required.state).decode()
    kept = _MARK + msgspec.json.encode(_Kept(ours, written)).decode()
    return InputRequired(others, to_raw(kept), required.revision, required.server)


def answer_rest(
    resumes: Mapping[str, Raw] | None, state: Raw | None, roots: Raw
) -> tuple[Mapping[str, Raw] | None, Raw | None]:
    """The answers and the state for the server, out of those that a host has given back."""
    text = None if state is None else string_of(state)
    if text is None or not text.startswith(_MARK):
        return resumes, state
    kept = _kept.decode(text[len(_MARK) :])
    answers = {**(resumes or {}), **dict.fromkeys(kept.keys, roots)}
    return answers, None if kept.state is None else Raw(kept.state.encode())
