"""The programs in the documents run, and print what one would expect."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcpx.spec.revisions import LATEST_LEGACY
from tests.process.machine import SERVER

ROOT = Path(__file__).parents[2]

# Document -> how that begins which its program prints with one configured server, called "files", that has one tool.
PRINTED = {
    "README.md": "files 1\n",
    "docs/architecture.md": "['demo']\nprogress 1\nprogress 2\n"
    '{"resultType":"complete","content":[{"type":"text","text":"Done after 1 s."}],',
}


@pytest.mark.parametrize("document", PRINTED)
def test_the_program_in(document: str, tmp_path: Path) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    entry = {"command": sys.executable, "args": ["-u", str(server)]}
    (tmp_path / "mcpx.json").write_text(json.dumps({"mcpServers": {"files": entry}}))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(PRINTED[document])
    assert len(done.stdout.splitlines()) == len(PRINTED[document].splitlines())


def test_the_server_in_the_document_serves_its_host(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "embedding-servers.md").read_text()
    program = tmp_path / "notes.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)))
    opening = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    done = subprocess.run(
        [sys.executable, str(program)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        input="".join(json.dumps(frame) + "\n" for frame in frames),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["serverInfo"]["name"] == "notes"
    assert [tool["name"] for tool in answers[2]["tools"]] == ["write_note", "read_note", "count_words", "tidy"]


def test_the_snippets_of_json_are_json() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for snippet in re.findall(r"^```json\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL):
            json.loads(snippet)
