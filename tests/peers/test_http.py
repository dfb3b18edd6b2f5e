"""Every host over HTTP in front of ``mcpx serve --http`` in front of every server over HTTP; and how they all end."""

from __future__ import annotations

import json
import signal
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import is_modern
from tests.peers.over_http import HTTP_HOSTS, SERVER_END_LIMIT, answer, listening, serving, visit
from tests.peers.running import SERVERS
from tests.peers.tours import check_tour, spoken
from tests.peers.town import DEAF, WAYS, Town

if TYPE_CHECKING:
    from pathlib import Path

    from tests.peers.over_http import Site
    from tests.peers.running import Run

# Every host with every server; and every further way to reach one with a host of each era.
FURTHER = [way for way in WAYS if way not in SERVERS]
TOURS = [*((host, list(SERVERS)) for host in HTTP_HOSTS), ("py1", FURTHER), ("ts2-auto", FURTHER)]


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("host", "ways"), TOURS)
async def test_tours(guest: Run, town: Town, host: str, ways: list[str]) -> None:
    async with guest.clearing(), serving(guest, guest.mcpx(town.entries(*ways))) as site:
        report = await visit(guest, host, site, servers=ways, deaf=DEAF)
        told = (await site.ask("/v1/protocol"))["upstreams"]
    assert report["protocol"] == spoken(HTTP_HOSTS[host][0])
    for way in ways:
        tour = {**report["tours"][way], "closed": report["closed"]}
        check_tour(tour, host, tool=f"{way}__", uri=f"mcpx://{way}/")
        assert tour["unknown"]["code"] == -32602  # mcpx's own answer: no server has it
    assert {upstream["name"]: upstream["revision"] for upstream in told} == {way: WAYS[way][3] for way in ways}
    # Each cancellation reached its server, and once.
    assert len(guest.recorded("called")) == len(guest.recorded("cancelled")) == len(set(ways) - set(DEAF))
    assert guest.complaints() == []


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", HTTP_HOSTS)
async def test_what_a_host_cancels_is_one_notification_to_a_server_on_pipes(
    run: Run, host: str, tmp_path: Path
) -> None:
    """A tour across the transports. A host of either era cancels one call in it, by a notification or by hanging up."""
    tap = tmp_path / "tap"
    command = run.program("wiretap.py", str(tap), *run.server("ts1-32"))
    async with run.clearing(), serving(run, run.mcpx({"one": run.entry(command)})) as site:
        report = await visit(run, host, site, tool="one__", uri="mcpx://one/")
    check_tour(report, host, tool="one__", uri="mcpx://one/")
    tapped = [json.loads(line) for line in tap.read_text().splitlines()]
    sent = [entry["frame"] for entry in tapped if entry["to"] == "server"]
    [cancelled] = [frame["params"]["requestId"] for frame in sent if frame["method"] == "notifications/cancelled"]
    [call] = [frame["id"] for frame in sent if frame["method"] == "tools/call" and frame["params"]["name"] == "never"]
    assert cancelled == call
    assert run.complaints() == []


# -- how it all ends

# The way to the server that each host's call waits at.
WAITS = {
    "py1": "ts2",
    "py1-sse": "py1-sse",
    "py2-legacy": "py2-legacy",
    "py2-auto": "ts1-32",
    "py2-modern": "ts2-legacy",
    "ts2-legacy": "py2",
    "ts2-auto": "py1",
    "ts2-modern": "ts1-22-sse",
    "ts1-32": "py2-sse",
    "ts1-32-sse": "ts1-32-sse",
    "ts1-22": "ts2-legacy-stateless",
    "ts1-22-sse": "ts1-22",
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("host", "way"), WAITS.items())
async def test_mcpx_is_stopped_with_a_call_in_flight(guest: Run, town: Town, host: str, way: str) -> None:
    """The call gets its error, the server is told, and mcpx ends with the streams of both sides still open."""
    command = guest.mcpx(town.entries(way), limits={"exitBudget": {"server": 1.5}})
    report: dict[str, Any] = {}
    async with guest.clearing(), serving(guest, command) as site, trio.open_nursery() as nursery:

        async def wait() -> None:
            report.update(await visit(guest, host, site, do="wait", tool=f"{way}__"))

        nursery.start_soon(wait)
        await guest.until_recorded("called")
        await site.stop()
    assert report["left"]["message"] == "mcpx is stopping"
    await guest.until_recorded("cancelled")
    assert len(guest.recorded("cancelled")) == 1
    assert guest.complaints() == []


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", SERVERS)
async def test_server_is_stopped_with_calls_in_flight_and_comes_back(run: Run, server: str) -> None:
    """Each call gets an error that names its server, and so does the next; mcpx goes on, and finds it back again."""
    ways = [way for way, (name, *_) in WAYS.items() if name == server]
    ways.sort(key=lambda way: is_modern(WAYS[way][3]))
    command = run.http_server(server)
    with ExitStack() as stack:
        process, address = stack.enter_context(listening(run, command))
        entries = Town(dict.fromkeys(SERVERS, address), run).entries(*ways)
        async with serving(run, run.mcpx(entries, limits={"restartBackoffMax": 0.2})) as site:
            async with AsyncExitStack() as calls:
                wires = [await calls.enter_async_context(site.calling(f"{way}__never")) for way in ways]
                await run.until_recorded("called", len(ways))
                process.send_signal(signal.SIGTERM)
                for way, wire in zip(ways, wires, strict=True):
                    if way == "py2":
                        process.send_signal(signal.SIGINT)  # for modern calls it would wait as long as they take
                    error = (await answer(wire))["error"]
                    assert error["code"] == -32603
                    assert error["message"].startswith(f"{way}: ")
                    assert error["data"]["server"] == way
            assert process.wait(SERVER_END_LIMIT) is not None
            for way in ways:
                async with site.calling(f"{way}__echo", text="gone") as wire:
                    assert "cannot be connected to" in (await answer(wire))["error"]["message"]
            stack.enter_context(listening(run, command, PEER_PORT=address.rpartition(":")[2]))
            for way in ways:
                assert await again(site, way) == "back"


async def again(site: Site, way: str) -> str:
    """What the first call says that succeeds; while a stream of events waits for its next start, they fail."""
    while True:
        async with site.calling(f"{way}__echo", text="back") as wire:
            if "result" in (said := await answer(wire)):
                return said["result"]["content"][0]["text"]
