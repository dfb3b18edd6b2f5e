"""Every host in front of mcpx in front of every server: the tour is the same as without mcpx between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.peers.running import HOSTS, SERVERS
from tests.peers.tours import UNKNOWN_TOOL, check_tour, spoken

if TYPE_CHECKING:
    from tests.peers.running import Run

PROBES_ON_A_SIBLING = {"ts2-auto", "ts2-modern"}  # these start mcpx twice, and kill the first

# Pass-through: each host with a server of each era, each server at least once.
SHINING_THROUGH = [
    *((host, "py2") for host in ("py1", "py2-legacy", "py2-auto", "py2-modern", "ts2-auto", "ts1-22")),
    *((host, "ts2") for host in ("ts2-legacy", "ts2-auto", "ts2-modern", "ts1-32", "py2-auto")),
    *((host, "py1") for host in ("py1", "py2-modern", "ts2-auto", "ts1-32")),
    *((host, "ts1-32") for host in ("py2-auto", "ts2-legacy", "ts2-modern", "ts1-32")),
    *((host, "ts1-22") for host in ("py2-legacy", "ts2-auto", "ts1-22")),
]


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("host", HOSTS)
async def test_tour_through_a_configuration(run: Run, host: str, server: str) -> None:
    command = run.mcpx({"one": run.entry(run.server(server))})
    report = await run.host(host, command, tool="one__", uri="mcpx://one/")
    check_tour(report, host, tool="one__", uri="mcpx://one/")
    assert report["protocol"] == spoken(host)
    assert report["unknown"]["code"] == -32602  # mcpx's own answer: no server has it
    assert run.complaints() == []
    # Handshake and discovery start nothing, so a sibling that only probes starts no server.
    assert len(run.recorded("started")) == 1


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("host", "server"), SHINING_THROUGH)
async def test_tour_through_a_pass_through(run: Run, host: str, server: str) -> None:
    report = await run.host(host, run.passthrough(run.server(server)))
    check_tour(report, host)
    assert report["protocol"] == spoken(host)
    assert report["unknown"] == UNKNOWN_TOOL[server]
    if host != "py2-modern":  # that one asks for no introduction
        assert report["server"] == f"{server[:3]}-peer"
        assert report["instructions"] == f"Ask {server[:3]}-peer to echo, add or wait."
    assert run.complaints() == []
    # Its introduction is the server's own, so the sibling's discovery has to start one, the first time.
    assert len(run.recorded("started")) == (2 if host in PROBES_ON_A_SIBLING else 1)


@pytest.mark.deadline(60)
async def test_tours_of_all_servers_behind_one_mcpx(run: Run) -> None:
    """All five at once: names under their own server, in the configuration's order, and each call reaches its own."""
    command = run.mcpx({name: run.entry(run.server(name)) for name in SERVERS})
    visits = [["tool", f"{name}__add", {"a": number, "b": 1}] for number, name in enumerate(SERVERS)]
    reads = [["resource", f"mcpx://{name}/peer://notes/{name}"] for name in SERVERS]
    report = await run.host("py2-auto", command, visit=[*visits, *reads])
    assert report["tools"] == [
        f"{name}__{tool}" for name in SERVERS for tool in ("echo", "add", "slow", "fail", "never")
    ]
    assert report["prompts"] == [f"{name}__greet" for name in SERVERS]
    assert report["resources"] == [f"mcpx://{name}/peer://motto" for name in SERVERS]
    sums, notes = report["results"][: len(SERVERS)], report["results"][len(SERVERS) :]
    assert [result["structuredContent"] for result in sums] == [{"result": n + 1} for n in range(len(SERVERS))]
    assert [result["contents"][0]["text"] for result in notes] == [f"notes on {name}" for name in SERVERS]
    assert run.complaints() == []
    assert len(run.recorded("started")) == len(SERVERS)


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", ["py2-legacy", "py2-auto"])
async def test_instructions_are_remembered_for_the_next_host(run: Run, host: str) -> None:
    """The first introduction is made before any server runs; the next one says what the servers said of themselves."""
    command = run.mcpx({name: run.entry(run.server(name)) for name in ("ts1-32", "py2")})
    first = await run.host(host, command, visit=[])
    assert first["instructions"] is None
    second = await run.host(host, command, visit=[])
    for name, said in (("ts1-32", "Ask ts1-peer"), ("py2", "Ask py2-peer")):
        assert name in second["instructions"]
        assert said in second["instructions"]
    assert second["server"] == "mcpx"
