"""The benchmarks run as programs, write what they promise, and measure only what does the same work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
ELSEWHERE = ("py-sdk", "py-sdk-typed", "node", "ts-sdk", "ts-sdk-typed")  # contenders in environments of their own
LINUX = sys.platform == "linux"


def run(folder: Path, name: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], Path, Path]:
    out, drawn = folder / "figures.json", folder / "figures.svg"
    command = [sys.executable, str(BENCH / f"{name}.py"), "--json", str(out), "--svg", str(drawn), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100), out, drawn


def test_the_framing_benchmark_measures_every_cell(tmp_path: Path) -> None:
    without = [word for name in ELSEWHERE for word in ("--without", name)]
    done, out, drawn = run(tmp_path, "framing", "--rounds", "2", "--budget", "0", *without)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(out.read_text())
    cells = {(result["unit"], *sorted(result["labels"].items())) for result in figures["results"]}
    units = {result["unit"] for result in figures["results"]}
    assert len(cells) == len(figures["results"]) == len(units) * 3 * 5 * len(figures["versions"])
    assert all(len(result["values"]) == 2 and min(result["values"]) > 0 for result in figures["results"])
    assert all(name in done.stdout for name in figures["versions"])
    assert drawn.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("relay", ["--ways", "stdio-stdio", "--gateways", "none", "mcpx", "--quick"], "mcpx against"),
        ("scale", ["--axis", "start", "--quick"], "start"),
        ("memory", ["--ways", "stdio-stdio", "--eras", "legacy", "--sizes", "1"], "× frame"),
        ("changes", ["--count", "50", "--rounds", "1"], "modern"),
        ("streams", ["--streams", "5", "--rounds", "1"], "a change"),
    ],
)
def test_the_others_run_on_linux_and_say_so_elsewhere(
    tmp_path: Path, name: str, arguments: list[str], said: str
) -> None:
    done, out, drawn = run(tmp_path, name, *arguments)
    if not LINUX:
        assert done.returncode == 1
        assert "Linux" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    figures = json.loads(out.read_text())
    assert figures["bench"] == name
    assert figures["results"]
    assert all(result["values"] for result in figures["results"])
    assert drawn.read_text().startswith("<svg")
