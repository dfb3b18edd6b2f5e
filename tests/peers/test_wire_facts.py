"""What README.md says of the servers' behaviour on the wire, held against the servers: the era probe is built on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.codes import UNSUPPORTED_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_06_18
from tests.peers.raw import DISCOVER, INITIALIZE, INITIALIZED, Wire, modern, notification, open_wire, request
from tests.peers.running import MODERN_SERVERS, SERVERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.running import Run

INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601
# What a server that does not know server/discover answers: not all say "method not found".
REFUSED_PROBE = {"py1": INVALID_PARAMS, "ts1-32": METHOD_NOT_FOUND, "ts1-22": METHOD_NOT_FOUND}
HANDSHAKE = {"ts1-22": V2025_06_18}  # the others speak the latest

every_server = pytest.mark.parametrize("server", SERVERS)
every_delay = pytest.mark.parametrize("delay", ["0", "1"])


def revision(server: str) -> str:
    return HANDSHAKE.get(server, LATEST_LEGACY)


@every_server
async def test_a_probe_alone(run: Run, server: str) -> None:
    async with open_wire(run, run.server(server)) as wire:
        await wire.send(DISCOVER)
        answer = await wire.answer("discover")
        if server in MODERN_SERVERS:
            # The legacy revisions are not listed, though both serve them to a host that opens with the handshake.
            assert answer["result"]["supportedVersions"] == [LATEST_MODERN]
        else:
            assert answer["error"]["code"] == REFUSED_PROBE[server]
        assert await wire.rest() == []


@every_server
@every_delay
async def test_initialize_behind_an_unanswered_probe(run: Run, server: str, delay: str) -> None:
    """Both are answered, in order, however late the server starts; which answers these are is each SDK's own choice."""
    async with open_wire(run, run.server(server), START_DELAY=delay) as wire:
        await wire.send(DISCOVER, INITIALIZE)
        hello = await wire.answer("initialize")
        assert [frame["id"] for frame in wire.frames] == ["discover", "initialize"]
        assert ("result" in wire.frames[0]) is (server in MODERN_SERVERS)
        if server == "py2":
            # Locked to the modern era by the probe.
            assert hello["error"]["code"] == UNSUPPORTED_VERSION
            assert hello["error"]["data"] == {"supported": [LATEST_MODERN], "requested": LATEST_LEGACY}
            await wire.send(modern(1, "tools/list"))
        else:
            # ts2 takes its DiscoverResult back: the connection is legacy from here on.
            assert hello["result"]["protocolVersion"] == revision(server)
            await wire.send(INITIALIZED, request(1, "tools/list"))
        listed = await wire.answer(1)
        assert len(listed["result"]["tools"]) == 5
        assert ("resultType" in listed["result"]) is (server == "py2")


@every_server
async def test_cancelling_the_probe_changes_nothing(run: Run, server: str) -> None:
    async with open_wire(run, run.server(server)) as wire:
        await wire.send(DISCOVER, notification("notifications/cancelled", requestId="discover"), INITIALIZE)
        await wire.answer("initialize")
        assert [frame["id"] for frame in wire.frames] == ["discover", "initialize"]


@every_server
async def test_a_notification_before_the_probe(run: Run, server: str) -> None:
    """It makes ts2 legacy: so nothing goes to a server before its era is known."""
    async with open_wire(run, run.server(server)) as wire:
        await wire.send(INITIALIZED, DISCOVER)
        answer = await wire.answer("discover")
        assert ("result" in answer) is (server == "py2")


@every_server
async def test_an_envelope_after_the_handshake(run: Run, server: str) -> None:
    async with open_wire(run, run.server(server)) as wire:
        await wire.send(INITIALIZE, INITIALIZED, modern(1, "tools/list"))
        answer = await wire.answer(1)
        if server == "py2":
            assert answer["error"]["code"] == -32600
        else:
            assert "resultType" not in answer["result"]  # ignored: answered as a legacy request


@pytest.mark.parametrize("server", sorted(MODERN_SERVERS))
async def test_initialize_after_a_modern_request(run: Run, server: str) -> None:
    async with open_wire(run, run.server(server)) as wire:
        await wire.send(modern(1, "tools/list"), INITIALIZE)
        assert (await wire.answer(1))["result"]["resultType"] == "complete"
        assert (await wire.answer("initialize"))["error"]["code"] == UNSUPPORTED_VERSION


async def never_called(wire: Wire, run: Run, server: str) -> None:
    """Open a connection in the server's newest era and leave a call that never ends in flight."""
    if server in MODERN_SERVERS:
        await wire.send(DISCOVER)
        await wire.answer("discover")
        await wire.send(modern(1, "tools/call", name="never", arguments={}))
    else:
        await wire.send(INITIALIZE)
        await wire.answer("initialize")
        await wire.send(INITIALIZED, request(1, "tools/call", name="never", arguments={}))
    await run.until_recorded("called")


@every_server
async def test_a_cancelled_call(run: Run, server: str) -> None:
    """py1 alone answers a cancelled call, with an error of code 0; a late answer must surprise nobody."""
    async with open_wire(run, run.server(server)) as wire:
        await never_called(wire, run, server)
        await wire.send(notification("notifications/cancelled", requestId=1))
        await run.until_recorded("cancelled")
        rest = await wire.rest()
        answers = [frame for frame in rest if frame.get("id") == 1]
        assert [answer["error"]["code"] for answer in answers] == ([0] if server == "py1" else [])


@pytest.mark.parametrize("server", ["py1", "py2", "ts2"])
async def test_stdin_closed_with_a_call_in_flight(run: Run, server: str) -> None:
    """These end by themselves, and py2 answers the call with an error first."""
    async with open_wire(run, run.server(server)) as wire:
        await never_called(wire, run, server)
        rest = await wire.rest()
        assert [frame["error"]["code"] for frame in rest] == ([-32000] if server == "py2" else [])
        assert wire.process.returncode == 0


@pytest.mark.parametrize("server", ["ts1-32", "ts1-22"])
async def test_ts1_does_not_watch_stdin(run: Run, server: str) -> None:
    """A TypeScript SDK 1.x server lives as long as one of its calls does, though stdin is closed: it takes a signal."""
    async with open_wire(run, run.server(server)) as wire:
        await never_called(wire, run, server)
        assert wire.process.stdin
        await wire.process.stdin.aclose()
        assert await run.lives_on(wire.process, 1.0)
        wire.process.terminate()
        assert await wire.process.wait() != 0


UNKNOWN: dict[str, Any] = {  # tool, prompt, resource; None stands for a result with isError
    "py1": (None, 0, 0),
    "py2": (None, -32603, INVALID_PARAMS),
    "ts2": (INVALID_PARAMS, INVALID_PARAMS, INVALID_PARAMS),
    "ts1-32": (None, INVALID_PARAMS, INVALID_PARAMS),
    "ts1-22": (None, INVALID_PARAMS, INVALID_PARAMS),
}


@every_server
async def test_what_an_unknown_name_gets(run: Run, server: str) -> None:
    is_modern = server in MODERN_SERVERS
    make: Callable[..., dict[str, Any]] = modern if is_modern else request
    async with open_wire(run, run.server(server)) as wire:
        if not is_modern:
            await wire.send(INITIALIZE, INITIALIZED)
        await wire.send(
            make(1, "tools/call", name="nothing", arguments={}),
            make(2, "prompts/get", name="nothing"),
            make(3, "resources/read", uri="peer://nothing"),
        )
        answers = [await wire.answer(id_) for id_ in (1, 2, 3)]
    codes = tuple(answer["error"]["code"] if "error" in answer else None for answer in answers)
    assert codes == UNKNOWN[server]
    if codes[0] is None:
        assert answers[0]["result"]["isError"] is True


async def test_everything_announces_its_tools_before_it_lists_them(run: Run) -> None:
    """A ``list_changed`` that comes at once, ahead of the first answer, as real servers send it."""
    command = [str(run.peers.node), str(run.peers.package("@modelcontextprotocol/server-everything", "dist/index.js"))]
    async with open_wire(run, command) as wire:
        await wire.send(INITIALIZE)
        await wire.answer("initialize")
        await wire.send(INITIALIZED, request(1, "tools/list"))
        await wire.answer(1)
        methods = [frame.get("method") for frame in wire.frames]
        assert methods == [None, "notifications/tools/list_changed", None]
