"""The framing benchmark runs as a program, and its contenders do the same work: it refuses to measure otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[3] / "bench" / "framing.py"
ELSEWHERE = ("py-sdk", "py-sdk-typed", "node", "ts-sdk", "ts-sdk-typed")  # contenders in environments of their own


def test_the_framing_benchmark_measures_every_cell(tmp_path: Path) -> None:
    out, drawn = tmp_path / "figures.json", tmp_path / "figures.svg"
    without = [word for name in ELSEWHERE for word in ("--without", name)]
    command = [sys.executable, str(BENCH), "--rounds", "2", "--budget", "0", "--json", str(out), "--svg", str(drawn)]
    done = subprocess.run([*command, *without], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(out.read_text())
    cells = {(result["unit"], *sorted(result["labels"].items())) for result in figures["results"]}
    units = {result["unit"] for result in figures["results"]}
    assert len(cells) == len(figures["results"]) == len(units) * 3 * 5 * len(figures["versions"])
    assert all(len(result["values"]) == 2 and min(result["values"]) > 0 for result in figures["results"])
    assert all(name in done.stdout for name in figures["versions"])
    assert drawn.read_text().startswith("<svg")
