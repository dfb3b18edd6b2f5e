"""``python -m tests``: all that a change must pass, in the order of what is quickest to know.

Lint, format and types are checked for the whole project; arguments are handed on to pytest (``python -m tests
tests/unit -k config``), whose summary is what is printed last. The exit status is that of the first that failed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("pyright", "--pythonpath", sys.executable),  # or it would look at whichever Python comes first on the PATH
)


def main(arguments: list[str]) -> int:
    """Run everything, and return the exit status."""
    if {"-h", "--help"} & set(arguments):
        print(f"{__doc__}\n``python -m pytest --help`` shows what pytest takes.")
        return 0
    for module, *rest in (*CHECKS, ("pytest", *arguments)):
        print(f"$ {' '.join([module, *rest])}", flush=True)
        status = subprocess.run([sys.executable, "-m", module, *rest], cwd=ROOT, check=False).returncode
        if status != 0:
            print(f"{module} failed with status {status}", file=sys.stderr)
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
