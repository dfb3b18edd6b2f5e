"""The framing benchmark runs, and its contenders do the same work: it refuses to measure otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench" / "framing.py"


def test_the_framing_benchmark_measures_every_cell(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, str(BENCH), "--rounds", "2", "--budget", "0", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(out.read_text())
    cells = {(cell["job"], cell["sample"], cell["contender"]) for cell in figures["cells"]}
    assert len(cells) == len(figures["cells"]) == 3 * 5 * len(figures["versions"])
    assert all(len(cell["nanoseconds"]) == 2 and min(cell["nanoseconds"]) > 0 for cell in figures["cells"])
    assert all(name in done.stdout for name in figures["versions"])
