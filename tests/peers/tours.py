"""What every host must have seen on its tour of one of our servers, whoever stands between them."""

from __future__ import annotations

from typing import Any

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_06_18
from tests.peers.running import MODERN_HOSTS

TOOLS = ["echo", "add", "slow", "fail", "never"]
STEPS = [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
HOST_PATIENCE = 2.0  # seconds: both SDKs' clients send SIGTERM so long after closing stdin

# What a server's own SDK says when a tool does not exist.
UNKNOWN_TOOL = {
    "py1": {"isError": True, "message": "Unknown tool: nothing"},
    "py2": {"isError": True, "message": "Unknown tool: nothing"},
    "ts2": {"code": -32602, "message": "Tool nothing not found"},
    "ts1-32": {"isError": True, "message": "MCP error -32602: Tool nothing not found"},
    "ts1-22": {"isError": True, "message": "MCP error -32602: Tool nothing not found"},
}


def spoken(host: str) -> str:
    """The revision that a host ends up speaking with mcpx, whatever the server behind."""
    if host in MODERN_HOSTS:
        return LATEST_MODERN
    return V2025_06_18 if host == "ts1-22" else LATEST_LEGACY


def check_tour(report: dict[str, Any], host: str, *, tool: str = "", uri: str = "") -> None:
    """Hold a report against what the servers offer, named with these prefixes."""
    assert report["tools"] == [tool + name for name in TOOLS]
    assert report["prompts"] == [f"{tool}greet"]
    assert report["resources"] == [f"{uri}peer://motto"]
    assert report["templates"] == [f"{uri}peer://notes/{{topic}}"]

    assert report["echo"] == "grüße, 世界 \u2028 end"
    assert report["add"] == {"result": 2**40 + 2}
    assert report["add_text"] == str(2**40 + 2)
    assert report["add_schema"]["properties"]["result"]["type"] == "integer"
    assert report["slow"] == "3 steps"
    if host.startswith("ts"):
        # These SDKs handle a result before a progress notification that came in the same read, and then drop it.
        assert report["progress"][:2] == STEPS[:2]
        assert report["progress"][2:] in ([], STEPS[2:])
    else:
        assert report["progress"] == STEPS
    assert report["fail"]["isError"] is True
    assert "this tool always fails" in report["fail"]["message"]
    assert report["again"] == "still here"

    assert report["motto"] == [[f"{uri}peer://motto", "carried, not rebuilt"]]
    assert report["notes"] == [[f"{uri}peer://notes/probes", "notes on probes"]]
    assert report["prompt"] == ["Say hello to Ada."]
    assert report["names"] == ["Ada", "Alan"]
    assert report["topics"] == ["probes", "prompts"]
    assert report["closed"] < HOST_PATIENCE
