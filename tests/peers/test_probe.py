"""mcpx finds out the era of real servers: slow ones lose no start, and what was found is remembered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_MODERN
from tests.peers.running import MODERN_SERVERS, SERVERS
from tests.peers.tours import check_tour

if TYPE_CHECKING:
    from pathlib import Path

    from tests.peers.running import Run

SLOW_START = 1.5  # seconds until the server serves
PROBE_DELAY = 0.6  # seconds that the probe is alone

every_server = pytest.mark.parametrize("server", SERVERS)


async def tapped_tour(
    run: Run, server: str, tap: Path, *, host: str = "py2-auto", delay: float = 0, probe_delay: float = 10, **more: Any
) -> list[dict[str, Any]]:
    """A tour with a wiretap between mcpx and the server; what went through it.

    Its path is part of the server's configuration, by which eras are remembered: the same for each run of a test.
    """
    command = run.program("wiretap.py", str(tap), *run.server(server))
    serve = run.mcpx({"one": run.entry(command, delay=delay, **more)}, limits={"probeDelay": probe_delay})
    report = await run.host(host, serve, tool="one__", uri="mcpx://one/")
    check_tour(report, host, tool="one__", uri="mcpx://one/")
    return take(tap)


def take(tap: Path) -> list[dict[str, Any]]:
    """The record of a wiretap, taken away for the next run."""
    lines = tap.read_text().splitlines()
    tap.unlink()
    return [json.loads(line) for line in lines]


def sent(tapped: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What mcpx sent, in order."""
    return [entry["frame"] for entry in tapped if entry["to"] == "server"]


def methods(tapped: list[dict[str, Any]]) -> list[str]:
    return [frame["method"] for frame in sent(tapped)]


def speaks_modern(frame: dict[str, Any]) -> bool:
    return frame["params"]["_meta"].get(meta.PROTOCOL_VERSION) == LATEST_MODERN


def answered_at(tapped: list[dict[str, Any]], method: str) -> int:
    """Where in the record the answer to the first request of this method stands."""
    request = next(entry["frame"] for entry in tapped if entry["frame"].get("method") == method)
    return next(
        place
        for place, entry in enumerate(tapped)
        if entry["to"] == "host" and entry["frame"].get("id") == request["id"] and "method" not in entry["frame"]
    )


@pytest.mark.deadline(90)
@pytest.mark.parametrize(
    ("host", "server"),
    # A host that probes in front of each; one that does not makes no difference to what goes upstream.
    [*(("py2-auto", server) for server in SERVERS), ("ts1-32", "py2"), ("ts1-32", "ts2")],
)
async def test_slow_server_loses_no_start_and_is_remembered(run: Run, host: str, server: str, tmp_path: Path) -> None:
    slow: Any = {"host": host, "delay": SLOW_START, "probe_delay": PROBE_DELAY}
    tapped = await tapped_tour(run, server, tmp_path / "tap", **slow)
    assert len(run.recorded("started")) == 1

    # The probe is alone for its delay; then initialize, whose answer decides; nothing else is sent before that.
    assert methods(tapped)[:2] == ["server/discover", "initialize"]
    times = {entry["frame"]["method"]: entry["at"] for entry in tapped if entry["to"] == "server"}
    assert times["initialize"] - times["server/discover"] > PROBE_DELAY / 10  # less what the wiretap took to start
    before = tapped[: answered_at(tapped, "initialize")]
    assert methods(before) == ["server/discover", "initialize"]
    if server == "py2":
        # Its initialize was refused with the modern versions, and discover answered: the connection is modern.
        assert all(speaks_modern(frame) for frame in sent(tapped) if "id" in frame and frame["method"] != "initialize")
        assert "notifications/initialized" not in methods(tapped)
    else:
        # ts2 among them: it answered both, and is legacy in this process for that.
        assert methods(tapped)[2] == "notifications/initialized"
        assert not any("_meta" in frame["params"] and speaks_modern(frame) for frame in sent(tapped)[3:])

    again = await tapped_tour(run, server, tmp_path / "tap", **slow)
    assert len(run.recorded("started")) == 2
    if server in MODERN_SERVERS:
        # Remembered as modern: discover alone is waited for, however slow, and nothing else is tried.
        assert methods(again)[0] == "server/discover"
        assert "initialize" not in methods(again)
        assert methods(again[: answered_at(again, "server/discover")]) == ["server/discover"]
        assert all(speaks_modern(frame) for frame in sent(again) if "id" in frame)
    else:
        # Remembered as legacy: no probe any more.
        assert methods(again)[:2] == ["initialize", "notifications/initialized"]
        assert "server/discover" not in methods(again)


@pytest.mark.deadline(60)
@every_server
async def test_quick_server_is_settled_by_the_probe_alone(run: Run, server: str, tmp_path: Path) -> None:
    tapped = await tapped_tour(run, server, tmp_path / "tap")
    assert methods(tapped)[0] == "server/discover"
    assert ("initialize" in methods(tapped)) is (server not in MODERN_SERVERS)
    if server not in MODERN_SERVERS:
        assert methods(tapped[: answered_at(tapped, "server/discover")]) == ["server/discover"]
        assert methods(tapped)[1:3] == ["initialize", "notifications/initialized"]


@pytest.mark.deadline(60)
@pytest.mark.parametrize("server", sorted(MODERN_SERVERS))
@pytest.mark.parametrize("protocol", ["legacy", "modern"])
async def test_configured_era_of_a_server_of_both(run: Run, server: str, protocol: str, tmp_path: Path) -> None:
    tapped = await tapped_tour(run, server, tmp_path / "tap", protocol=protocol)
    absent = {"legacy": "server/discover", "modern": "initialize"}[protocol]
    assert absent not in methods(tapped)
