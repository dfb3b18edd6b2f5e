"""All benchmarks, one after the other: ``python bench``.

Each prints its tables as it would alone, and leaves its figures as JSON and its chart as SVG in a folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / "tests" / "peers" / "environments.py"

# What each takes for a first look: little, and good for nothing else.
BENCHES: dict[str, list[str]] = {
    "framing": ["--rounds", "3"],
    "relay": ["--quick"],
    "scale": ["--quick"],
    "memory": ["--quick"],
    "changes": ["--rounds", "1"],
    "streams": ["--streams", "200", "--rounds", "1"],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a first look: minutes, where all takes half an hour")
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES), metavar="NAME", help="only these")
    parser.add_argument("--into", type=Path, default=HERE / "results", metavar="FOLDER", help="(bench/results)")
    asked = parser.parse_args()
    asked.into.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if "framing" in asked.only:
        subprocess.run([sys.executable, str(PEERS)], check=True, stdout=subprocess.DEVNULL)
    for name in asked.only:
        outputs = ["--json", str(asked.into / f"{name}.json"), "--svg", str(asked.into / f"{name}.svg")]
        print(f"\n== {name}\n", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), *outputs, *(BENCHES[name] if asked.quick else [])]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
