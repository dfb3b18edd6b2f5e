"""Where the configuration is looked for, and where mcpx keeps what it remembers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "mcpx.json"


def user_folders(environ: Mapping[str, str], platform: str = sys.platform) -> list[Path]:
    """The folders of the user's own configuration, first the one that counts most."""
    folders: list[Path] = []
    if (config := _base(environ, "XDG_CONFIG_HOME", ".config")) is not None:
        folders.append(config / "mcpx")
    if platform == "darwin" and (home := _home(environ)) is not None:
        folders.append(home / "Library" / "Application Support" / "mcpx")
    return folders


def named_file(path: str | None, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The file that somebody named, and how: ``--config`` first, then ``MCPX_CONFIG``."""
    if path is not None:
        return path, "--config"
    if environ.get("MCPX_CONFIG"):
        return environ["MCPX_CONFIG"], "MCPX_CONFIG"
    return None


def candidates(environ: Mapping[str, str], cwd: Path, platform: str = sys.platform) -> list[Path]:
    """The files that are looked for when none was named, in order."""
    return [cwd / FILE_NAME, *(folder / FILE_NAME for folder in user_folders(environ, platform))]


def resolve(path: str, environ: Mapping[str, str], cwd: Path) -> Path:
    """A named path, absolute. Hosts start servers without a shell, so a leading ``~/`` is the home folder here too."""
    home = _home(environ)
    if path.startswith("~/") and home is not None:
        return home / path[2:]
    return cwd / path


def state_folder(environ: Mapping[str, str]) -> str | None:
    """Where eras are remembered: ``$XDG_STATE_HOME/mcpx``, else ``~/.local/state/mcpx``; ``None`` without a home."""
    base = _base(environ, "XDG_STATE_HOME", ".local/state")
    return None if base is None else str(base / "mcpx")


def _base(environ: Mapping[str, str], variable: str, default: str) -> Path | None:
    """A base folder of the XDG Base Directory Specification, which has relative paths ignored."""
    named = Path(environ.get(variable, ""))
    if named.is_absolute():
        return named
    home = _home(environ)
    return None if home is None else home / default


def _home(environ: Mapping[str, str]) -> Path | None:
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None
