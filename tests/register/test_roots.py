"""LV-11 and LV-20 for roots: a server is told of the host's, else of the configuration's, and of whatever it is told it
gets an answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_CAPABILITIES
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, is_modern
from tests.support.http_front import Front, fronted
from tests.support.http_hosts import http_host, serving_http

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

ERAS = [LATEST_LEGACY, LATEST_MODERN]
ROOTS, CHANGED = "roots/list", "notifications/roots/list_changed"
CONFIGURED = ["file:///srv/a", "file:///srv/b"]
OURS = {"roots": [{"uri": uri} for uri in CONFIGURED]}
HOSTS_OWN = {"roots": [{"uri": "file:///home/me", "name": "Home"}]}


def asking(upstream: str) -> dict[str, Any]:
    """An upstream whose tool asks for the roots before it answers."""
    if is_modern(upstream):
        asks: Any = {
            "times": [[{"require": {"questions": {"r": {"method": ROOTS}}, "state": "s"}}], [{"answer": True}]]
        }
    else:
        asks = [{"ask": {"id": "r", "method": ROOTS}}, {"answer": True}]
    return {"calls": {"echo": asks}}


def told(one: Scripted, upstream: str) -> Any:
    if is_modern(upstream):
        return one.received("tools/call")[0].frame["params"]["_meta"][CLIENT_CAPABILITIES]
    return one.received("initialize")[0].frame["params"]["capabilities"]


def answered(one: Scripted, upstream: str) -> Any:
    if is_modern(upstream):
        return one.received("tools/call")[1].frame["params"]["inputResponses"]["r"]
    return next(line.frame["result"] for line in one.received() if line.frame.get("id") == "r")


async def use(host: Host, revision: str, capabilities: dict[str, Any] | None = None) -> None:
    await host.open(revision, capabilities or {})
    assert (await host.call("one__echo")).result["content"]


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_lv_20_a_host_without_roots_has_the_configurations(stage: Stage, revision: str, upstream: str) -> None:
    """The server is told of roots, asks, and is answered; the host hears nothing of it."""
    one = stage.upstream("one", upstream, entry={"roots": CONFIGURED}, **asking(upstream))
    async with stage.mcpx(one) as host:
        await use(host, revision)
        assert host.requests == []
    assert told(one, upstream) == {"roots": {}}
    assert answered(one, upstream) == OURS


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_lv_20_a_host_without_roots_over_http(stage: Stage, revision: str, upstream: str) -> None:
    """The same by HTTP on both sides, where a modern host has no connection that could be asked."""
    one = stage.upstream("one", upstream, **asking(upstream))
    async with (
        fronted(one, Front) as url,
        serving_http(stage, servers={"one": {"url": url, "roots": CONFIGURED}}) as site,
        http_host(site) as host,
    ):
        await use(host, revision)
    assert answered(one, upstream) == OURS


@pytest.mark.parametrize("upstream", ERAS)
async def test_lv_20_a_host_with_roots_is_asked_for_its_own(stage: Stage, upstream: str) -> None:
    """Whatever the configuration has."""
    one = stage.upstream("one", upstream, entry={"roots": CONFIGURED}, **asking(upstream))
    async with stage.mcpx(one) as host:
        host.answers = {ROOTS: HOSTS_OWN}
        await use(host, LATEST_LEGACY, {"roots": {"listChanged": True}})
    assert answered(one, upstream) == HOSTS_OWN


async def test_lv_20_a_server_that_asks_right_after_its_handshake_is_answered(stage: Stage) -> None:
    """As file servers do, before any call."""
    one = stage.upstream("one", LATEST_LEGACY, entry={"roots": CONFIGURED})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        await one.do({"ask": {"id": "r", "method": ROOTS}})
        await one.changes.until(
            lambda: any(line.frame.get("id") == "r" for line in one.received()), "the answer of mcpx"
        )
    assert answered(one, LATEST_LEGACY) == OURS


@pytest.mark.parametrize("declared", [{"listChanged": True}, {}])
async def test_lv_11_changed_roots_are_told_to_whom_that_was_declared(stage: Stage, declared: dict[str, Any]) -> None:
    """A host's notification goes to its own process of a legacy server, if it had promised it, and to no modern one."""
    one, two = stage.upstream("one", LATEST_LEGACY), stage.upstream("two", LATEST_MODERN)
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_LEGACY, {"roots": declared})
        await host.names()
        await host.notify(CHANGED)
        await host.call("one__echo")
        await host.call("two__echo")
    assert len(one.received(CHANGED)) == (1 if declared else 0)
    assert two.received(CHANGED) == []
    assert json.dumps(declared) == json.dumps(told(one, LATEST_LEGACY)["roots"])
