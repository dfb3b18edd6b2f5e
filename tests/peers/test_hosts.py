"""What real hosts do to mcpx besides asking: list servers without a model, hang up mid-call, probe and kill."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.peers.tours import HOST_PATIENCE

if TYPE_CHECKING:
    from tests.peers.running import Run

# opencode looks for updates, models and plugins on the network; none of that is wanted here. It installs its plugin
# package with an npm of its own, so that is sent to a port of this machine where nobody listens.
OPENCODE_OFFLINE = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "npm_config_registry": "http://127.0.0.1:9/",
    "npm_config_offline": "true",
    "npm_config_fetch_retries": "0",
    "NO_COLOR": "1",
}

TYPESCRIPT_HOSTS = ["ts2-legacy", "ts2-auto", "ts2-modern", "ts1-32", "ts1-22"]


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", ["py2", "ts1-32"])
async def test_opencode_lists_mcpx_as_connected(run: Run, server: str) -> None:
    command = run.mcpx({"one": run.entry(run.server(server)), "two": run.entry(run.server("py1"))})
    environment = {"PYTHONPATH": run.env["PYTHONPATH"]}
    entry = {"type": "local", "command": command, "enabled": True, "environment": environment}
    settings = {"autoupdate": False, "share": "disabled", "mcp": {"gateway": entry}}
    (run.home / "opencode.json").write_text(json.dumps(settings))
    output = await run.run([str(run.peers.opencode), "mcp", "list"], **OPENCODE_OFFLINE)
    assert "✓ gateway" in output
    assert "connected" in output
    assert "1 server(s)" in output


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", ["ts1-32", "py2"])
@pytest.mark.parametrize("host", TYPESCRIPT_HOSTS)
async def test_typescript_host_closes_with_a_call_in_flight(run: Run, host: str, server: str) -> None:
    """mcpx ends inside the host's patience, tells the server of the cancellation first, and leaves nothing behind.

    The TypeScript SDK 1.x server does not end by itself when its stdin closes in the middle of a call.
    """
    command = run.mcpx({"one": run.entry(run.server(server))})
    report = await run.host(host, command, do="close", tool="one__")
    assert report["closed"] < HOST_PATIENCE
    # The SDK 1.22 kills mcpx before it can answer; the others read until its end.
    farewell = "Connection closed" if host == "ts1-22" else "mcpx is stopping"
    assert report["left"]["message"] == farewell
    assert run.recorded("cancelled") == run.recorded("called") == run.recorded("started")


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", ["ts2-legacy", "ts1-22", "py2-auto"])
async def test_server_behind_a_launcher_that_hands_on_no_signal(run: Run, host: str) -> None:
    """node behind a script that waits for it, as ``npx`` and ``uvx`` put it: the whole process group has to go."""
    node, *arguments = run.server("ts1-32")
    command = run.mcpx({"one": run.entry([str(run.peers.node_launcher), *arguments])})
    if host == "py2-auto":
        report = await run.host(host, command, visit=[["tool", "one__echo", {"text": "hello"}]])
        assert report["results"][0]["content"] == [{"type": "text", "text": "hello"}]
    else:
        report = await run.host(host, command, do="close", tool="one__")
    assert report["closed"] < HOST_PATIENCE
    assert node != str(run.peers.node_launcher)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", ["py2", "py1"])
async def test_typescript_host_probes_on_a_sibling_of_a_slow_server(run: Run, server: str) -> None:
    """In pass-through the sibling has to wait for the server's introduction; it is killed with what it started."""
    run.env["START_DELAY"] = "1.5"
    command = run.passthrough(run.server(server))
    report = await run.host("ts2-auto", command, do="close")
    first, second = run.recorded("started")
    assert first != second
    assert run.recorded("called") == [second]
    assert report["server"] == f"{server}-peer"
    assert report["closed"] < HOST_PATIENCE
