"""The benchmarks are programs in a folder of their own and find what they share beside them; here it is found, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "bench"))
