"""``mcpx serve --http`` behind a token: real hosts that show it come in, and the others say clearly what is missing."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from tests.peers.over_http import HTTP_HOSTS, command_of, serving
from tests.peers.running import HOST_LIMIT
from tests.peers.test_hosts import OPENCODE_OFFLINE

if TYPE_CHECKING:
    import subprocess

    from tests.peers.running import Run

TOKEN = "s3cret-t0ken-of-this-test"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
TOOLS = ["one__echo", "one__add", "one__slow", "one__fail", "one__never"]

# What the hosts say without it. The Python SDK 2.x reads an error in an answer's body only where that has an id.
UNNAMED = "Server returned an error response"
REFUSED = {host: UNNAMED if host.startswith("py2") else "401" for host in HTTP_HOSTS}


@pytest.mark.deadline(90)
@pytest.mark.parametrize("host", HTTP_HOSTS)
async def test_host_comes_in_with_the_token_alone(run: Run, host: str) -> None:
    """With it and without it at the same time; who has none starts no server."""
    serve = run.mcpx({"one": run.entry(run.server("ts1-32"))})
    outcomes: dict[bool, subprocess.CompletedProcess[bytes]] = {}
    async with run.clearing(), serving(run, serve, MCPX_TOKEN=TOKEN) as site:

        async def come(*, shown: bool) -> None:
            command = command_of(run, host, site, do="list", headers=SHOWN if shown else {})
            start = functools.partial(trio.run_process, command, capture_stdout=True, capture_stderr=True, check=False)
            with trio.fail_after(HOST_LIMIT):
                outcomes[shown] = await start(env=run.env, cwd=run.home)

        async with trio.open_nursery() as nursery:
            for shown in (True, False):
                nursery.start_soon(functools.partial(come, shown=shown))
    assert outcomes[True].returncode == 0, outcomes[True].stderr.decode()
    assert json.loads(outcomes[True].stdout)["tools"] == TOOLS
    assert outcomes[False].returncode != 0
    assert REFUSED[host] in outcomes[False].stderr.decode()
    assert TOKEN not in run.log


@pytest.mark.deadline(60)
async def test_mcpx_comes_in_to_another_with_the_token_alone(run: Run) -> None:
    """A token on both sides of one mcpx: it is asked for one, and shows one."""
    first = run.mcpx({"one": run.entry(run.server("ts1-32"))})
    async with serving(run, first, MCPX_TOKEN=TOKEN) as site:
        config: dict[str, Any] = {"behind": {"url": site.address("http"), "headers": SHOWN}}
        front = run.mcpx(config)
        async with serving(run, front, MCPX_TOKEN="another-t0ken-of-this-test") as second:
            command = command_of(
                run, "py2-auto", second, do="list", headers={"Authorization": "Bearer another-t0ken-of-this-test"}
            )
            assert json.loads(await run.output(command))["tools"] == [f"behind__{name}" for name in TOOLS]
        assert TOKEN not in run.log
        del config["behind"]["headers"]
        check = [*run.mcpx(config)[:3], "check", "--config", str(run.home / "mcpx.json")]
        refused = await trio.run_process(
            check, capture_stdout=True, capture_stderr=True, check=False, env=run.env, cwd=run.home
        )
        assert refused.returncode == 1
        assert "401" in refused.stdout.decode()
        assert '"headers"' in refused.stdout.decode()  # where the token is to be given


@pytest.mark.deadline(60)
@pytest.mark.parametrize("over", ["http", "sse"])
async def test_opencode_lists_mcpx_at_a_url(run: Run, over: str) -> None:
    serve = run.mcpx({"one": run.entry(run.server("py2")), "two": run.entry(run.server("ts1-32"))})
    async with run.clearing(), serving(run, serve, MCPX_TOKEN=TOKEN) as site:
        for headers, said in ((SHOWN, "✓ gateway"), ({}, "⚠ gateway")):
            entry = {"type": "remote", "url": site.address(over), "enabled": True, "headers": headers}
            settings = {"autoupdate": False, "share": "disabled", "mcp": {"gateway": entry}}
            (run.home / "opencode.json").write_text(json.dumps(settings))
            output = await run.output([str(run.peers.opencode), "mcp", "list"], **OPENCODE_OFFLINE)
            assert said in output
            assert ("connected" if headers else "needs authentication") in output
            assert "1 server(s)" in output
    assert TOKEN not in run.log
    assert run.complaints() == []
