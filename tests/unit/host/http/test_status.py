"""What ``/v1`` tells: how each upstream is, who is connected, and never a secret."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.config import Redactor
from mcpx.demo import BUILTINS
from mcpx.gateway import open_gateway
from mcpx.gateway.status import Now, agreements, upstreams, words
from mcpx.host.http import status
from mcpx.host.service import Service
from mcpx.settings import ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS, SUPPORTED
from mcpx.upstream.call import Asker
from mcpx.upstream.eras import Remembered
from mcpx.upstream.supervisor import InstanceStatus
from tests.unit.host.http.serving import serving, until, ws_host
from tests.unit.host.talk import FakeGateway

SECRET = "sup3r-s3cret"
NOW = Now(1000.0, 86400.0)


def instance(state: str = "up", since: float = 990.0, **more: Any) -> InstanceStatus:
    told: dict[str, Any] = {
        "restarts": 0, "leases": 0, "in_flight": 0, "revision": None, "last_error": None, "noise": [], "noise_count": 0,
    }  # fmt: skip
    return InstanceStatus(state, since, **{**told, **more})  # type: ignore[arg-type]


def gateway(*instances: InstanceStatus, remembered: Remembered | None = None, **settings: Any) -> Any:
    """A gateway with one server, as far as status looks at it."""
    server = ServerSettings(name="one", command="x", env={"TOKEN": SECRET}, headers={"X": SECRET}, **settings)
    memory = SimpleNamespace(value=remembered or Remembered())
    one = SimpleNamespace(name="one", server=server, memory=memory, status=lambda: list(instances))
    return SimpleNamespace(supervisors=[one])


def upstream(*instances: InstanceStatus) -> dict[str, Any]:
    [told] = upstreams(gateway(*instances), NOW, Redactor([SECRET]))
    assert SECRET not in json.dumps(told)
    return told


def test_a_server_that_nobody_needed_is_idle() -> None:
    assert upstream() == {
        "name": "one", "state": "idle", "restarts": 0, "inFlight": 0, "lastError": None, "instances": [],
    }  # fmt: skip


def test_a_server_that_is_up() -> None:
    told = upstream(instance(since=990.0, leases=2, in_flight=3, revision=LATEST_MODERN, restarts=1))
    assert (told["state"], told["seconds"], told["since"]) == ("up", 10.0, "1970-01-01T23:59:50+00:00")
    assert (told["inFlight"], told["restarts"]) == (3, 1)
    [one] = told["instances"]
    assert (one["users"], one["inFlight"], one["revision"]) == (2, 3, LATEST_MODERN)


@pytest.mark.parametrize(
    ("states", "best"),
    [
        (["backing off", "up"], "up"),
        (["ended", "starting", "backing off"], "starting"),
        (["ended", "backing off"], "backing off"),
        (["ended"], "ended"),
    ],
)
def test_a_server_is_as_its_best_instance_is(states: list[str], best: str) -> None:
    told = upstream(*(instance(state, float(at)) for at, state in enumerate(states)))
    assert told["state"] == best
    assert told["seconds"] == NOW.clock - states.index(best)
    assert [one["state"] for one in told["instances"]] == states


def test_last_words_are_told_without_secrets() -> None:
    told = upstream(
        instance("backing off", last_error=f"It ended; its last words: {SECRET}", noise=[f"x {SECRET}"], noise_count=9)
    )
    assert told["lastError"] == "It ended; its last words: ***"
    assert told["instances"][0]["lastError"] == told["lastError"]
    assert told["instances"][0]["noise"] == {"lines": 9, "first": ["x ***"]}


def test_a_file_whose_name_is_no_text_breaks_nothing() -> None:
    told = upstream(instance("backing off", last_error="no \udcff"))
    assert told["lastError"] == "no ?"
    msgspec.json.encode(told)


@pytest.mark.parametrize(
    ("remembered", "running", "era", "revision"),
    [
        (Remembered(), None, None, None),
        (Remembered(era="legacy", revision=LATEST_LEGACY), None, "legacy", LATEST_LEGACY),
        (Remembered(era="legacy", revision=LATEST_LEGACY), LATEST_MODERN, "modern", LATEST_MODERN),
        (Remembered(), LATEST_LEGACY, "legacy", LATEST_LEGACY),
    ],
)
def test_what_was_agreed_on(remembered: Remembered, running: str | None, era: str | None, revision: str | None) -> None:
    instances = [instance("starting"), instance(revision=running)]
    [told] = agreements(gateway(*instances, remembered=remembered, protocol="legacy"))
    assert told == {"name": "one", "preference": "legacy", "era": era, "revision": revision, "identity": None}


def test_an_identity_is_its_words_and_no_more() -> None:
    info = {"name": "n", "version": "1", "title": "t" * 1000, "description": 7, "icons": [{"src": "data:x"}], "x": "y"}
    [told] = agreements(gateway(remembered=Remembered(server_info=Raw(json.dumps(info).encode()))))
    assert told["identity"] == {"name": "n", "title": "t" * 200, "version": "1"}


@pytest.mark.parametrize(("info", "told"), [(None, None), (b"{}", {}), (b"[]", {}), (b'{"name":""}', {})])
def test_a_peer_that_says_nothing_of_itself(info: bytes | None, told: dict[str, str] | None) -> None:
    assert words(None if info is None else Raw(info)) == told


async def test_the_table_of_revisions_and_a_real_gateway() -> None:
    settings = Settings(servers=(ServerSettings(name="demo", builtin="demo"),))
    async with open_gateway(settings, builtins=BUILTINS) as gateway:
        told = status.protocol(gateway)
        assert told["supported"] == list(SUPPORTED)
        assert [one["revision"] for one in told["revisions"]] == list(REVISIONS)
        assert {"methods", "capabilities", "codes", "contentKinds", "types"} <= told.keys()
        assert told["upstreams"][0]["revision"] is None
        await gateway.list("tools", Asker("test"), None)
        [one] = status.protocol(gateway)["upstreams"]
        assert (one["name"], one["preference"], one["era"], one["revision"]) == (
            "demo",
            "auto",
            "modern",
            LATEST_MODERN,
        )
        assert one["identity"]["name"]
        service = Service(gateway)
        [up] = status.status(service, 3, status.now(), str)["upstreams"]
        assert (up["state"], up["lastError"]) == ("up", None)
        assert status.status(service, 3, status.now(), str)["sessions"] == 3
        msgspec.json.encode(told)


async def test_who_is_connected() -> None:
    fake = FakeGateway()
    fake.supervisors = []  # type: ignore[attr-defined]
    async with serving(fake) as served, ws_host(served) as talk, served.wired() as wire:
        await talk.shake(LATEST_LEGACY)
        await talk.call(7)
        await until(lambda: fake.calls)
        told = (await wire.ask("GET", "/v1/status")).json
        [one] = told["hosts"]
        assert one.pop("since")
        assert one.pop("seconds") >= 0
        assert one == {
            "name": "websocket 1", "transport": "websocket", "client": one["client"], "revision": LATEST_LEGACY,
            "inFlight": 1,
            "subscriptions": 0,
        }  # fmt: skip
        assert (told["exchanges"], told["sessions"], told["upstreams"]) == (1, 0, [])
        assert (await wire.ask("HEAD", "/v1/status")).status == 200
