"""The programs in the documents run, and print what one would expect."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

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


def test_the_program_in_the_document_serves_any_number_of_hosts(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "embedding-servers.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "notes.py").write_text("\n".join(blocks))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    program = "import notes, trio; trio.run(notes.serve_many, 0)"
    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().split()
            assert said[-1] == "notes.sock"
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (
                json.loads(post(said[-3], json.dumps(ping), {"Content-Type": "application/json"}).read())["result"]
                == {}
            )
            with socket.socket(socket.AF_UNIX) as host:
                host.settimeout(30)
                host.connect(str(tmp_path / "notes.sock"))
                host.sendall(json.dumps(ping).encode() + b"\n")
                assert json.loads(host.recv(1000))["result"] == {}
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_the_requests_in_the_document_are_answered(tmp_path: Path) -> None:
    """Those of ``curl``, read as it reads them, in the page's order; the session of one is in the next."""
    page = (ROOT / "docs" / "http.md").read_text()
    commands = re.findall(r"^```sh\n(curl [^`]*/mcp .*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(commands) == 3
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mcpx", "serve", "--http", "127.0.0.1:0"]
    results: list[dict[str, Any]] = []
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = next(line.split()[-1] for line in process.stderr if "listening on" in line)
            session = ""
            for one in commands:
                words = shlex.split(one.replace("SESSION", session))
                assert [word for word in words if word.startswith("http")] == ["http://127.0.0.1:8000/mcp"]
                given = [words[at + 1].split(": ", 1) for at, word in enumerate(words) if word == "-H"]
                answer = post(url, words[words.index("-d") + 1], dict(given))
                session = answer.headers.get("Mcp-Session-Id", session)
                results.append(json.loads(answer.read())["result"])
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()
    modern, opened, legacy = results
    assert opened["protocolVersion"] == LATEST_LEGACY
    assert modern["content"] == legacy["content"]
    assert "hello" in legacy["content"][0]["text"]


def post(url: str, body: str, headers: dict[str, str]) -> Any:
    """The answer to a POST, where it is a good one."""
    request = urllib.request.Request(url, body.encode(), headers)
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)


def test_the_snippets_of_json_are_json() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for snippet in re.findall(r"^```json\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL):
            json.loads(snippet)
