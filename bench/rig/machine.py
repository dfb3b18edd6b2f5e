"""What figures were measured on, and with what: without it a figure says nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def machine() -> dict[str, Any]:
    """This machine and this Python. Call it before the run: the load it finds is other work, which spoils figures."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def versions(*distributions: str) -> dict[str, str]:
    """The installed version of each; raises ``importlib.metadata.PackageNotFoundError`` where one is not installed."""
    return {name: importlib.metadata.version(name) for name in distributions}


def in_words(machine: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Both as the lines that a report begins with."""
    return (
        f"{machine['python']}, {machine['system']}, {machine['cpu']}, {machine['cpus']} CPUs, "
        f"load {machine['load']:.2f} before the run\n"
        + ", ".join(f"{name} {value}" for name, value in versions.items())
    )


def require_linux() -> None:
    """End the program with a sentence where there is no /proc to read what a process costs from."""
    if sys.platform != "linux":
        sys.exit("This benchmark reads /proc, which only Linux has.")


def _cpu() -> str:
    """The processor's model, where the system says it (ARM's /proc does not)."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1].strip() if found else platform.processor() or "unknown processor"
