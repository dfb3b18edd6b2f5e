"""Checking ``roots``, at the top of the file and within a server: the folders that servers are told of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcpx.config import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpx.config.document import JsonValue
    from mcpx.config.report import Place

_SCHEME = "file"  # the one that a root may have (2025-11-25 and 2026-07-28 client/roots, Root)


def read_roots(place: Place, value: JsonValue, environ: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """A list of folders, each a path or a ``file:`` URI."""
    found = values.texts(place, value, environ)
    if found is None or environ is None:
        return found
    for index, root in enumerate(found):
        at = place.item(index)
        if not root.strip():
            at.problem("must be a path or a file:// URI, and is empty")
        elif root.partition("/")[0] == "~":
            at.warning('there is no shell to make a folder of "~"; write "${HOME}"')
        elif _is_uri(root):
            _check_uri(at, root)
    return found


def root_uri(root: str, folder: Path) -> str:
    """A root as servers are told of it; a relative path is meant from the folder."""
    return root if _is_uri(root) else Path(os.path.normpath(folder / root)).as_uri()


def _is_uri(root: str) -> bool:
    scheme, colon, rest = root.partition(":")
    return bool(colon) and rest.startswith("/") and scheme.isascii() and scheme.isalnum()


def _check_uri(place: Place, root: str) -> None:
    scheme = root.partition(":")[0].lower()
    if scheme != _SCHEME:
        place.problem(f"a root is a folder: a path, or a {_SCHEME}:// URI, and not {scheme}:")
        return
    parts = urlsplit(root)
    if parts.netloc or not root[len(_SCHEME) :].startswith(":///"):
        place.problem(f"a {_SCHEME}:// URL of a root has three slashes, and no host")
