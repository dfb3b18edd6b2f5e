"""A folder in which mcpx is run as people run it, and a small server of the legacy era to run it in front of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpx.spec.revisions import LATEST_LEGACY

if TYPE_CHECKING:
    from collections.abc import Iterator

    Popen = subprocess.Popen[str]

ROOT = Path(__file__).parents[2]

# A server of the legacy era: it answers `initialize`, has one tool, writes a banner to stdout, and knows nothing else.
SERVER = f"""
import json, sys
print("banner")
for line in sys.stdin:
    frame = json.loads(line)
    if "id" not in frame:
        continue
    answer = {{"jsonrpc": "2.0", "id": frame["id"]}}
    if frame["method"] == "initialize":
        answer["result"] = {{
            "protocolVersion": {LATEST_LEGACY!r},
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": "old", "version": "1.2", "title": "Old one"}},
            "instructions": "Mind\\nthe gap.",
        }}
    elif frame["method"] == "tools/list":
        answer["result"] = {{"tools": [{{"name": "dig", "inputSchema": {{"type": "object"}}}}]}}
    else:
        answer["error"] = {{"code": -32601, "message": "Method not found"}}
    print(json.dumps(answer), flush=True)
"""


class Machine:
    """A folder to run mcpx in, with an environment in which no other configuration is found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = folder / "server.py"
        self.server.write_text(SERVER)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environ = {**kept, "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-u", str(self.server)]

    @property
    def entry(self) -> dict[str, Any]:
        command, *args = self.command
        return {"command": command, "args": args}

    def configure(self, servers: dict[str, Any], **more: Any) -> Path:
        path = self.folder / "mcpx.json"
        path.write_text(json.dumps({"mcpServers": servers, **more}))
        return path

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpx", *arguments],
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def start(self, *arguments: str, **streams: Any) -> Iterator[Popen]:
        """mcpx with pipes, or what ``streams`` say, as its standard streams; it must end by itself."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-m", "mcpx", *arguments]
        with subprocess.Popen(command, cwd=self.folder, env=self.environ, text=True, **{**pipes, **streams}) as process:
            try:
                yield process
            except BaseException:
                process.kill()  # or leaving would wait for it
                raise
