"""SUB-15 and SUB-17: how mcpx hears of its upstreams' changes, and which notifications go to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2024_11_05, is_modern
from tests.support.http_up import Asked, Reply, discovered, initialized, legacy, modern, serving
from tests.support.scripted import PROMPT, RESOURCE, TELLS_ALL
from tests.support.waiting import Changes

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

NOTES = "file:///notes.txt"
OTHER = "file:///other.txt"
LISTEN, SUBSCRIBE, UNSUBSCRIBE = "subscriptions/listen", "resources/subscribe", "resources/unsubscribe"
UPDATED = "notifications/resources/updated"
TOOLS_CHANGED = "notifications/tools/list_changed"
ITEMS: dict[str, Any] = {"prompts": [PROMPT], "resources": [RESOURCE], "capabilities": TELLS_ALL}


def public(uri: str) -> str:
    return f"mcpx://one/{uri}"


def uris(asked: dict[str, Any]) -> list[str]:
    """The resources that a request to listen names."""
    return asked["params"]["notifications"].get("resourceSubscriptions", [])


async def subscribe(host: Host, uri: str) -> None:
    assert (await host.request(SUBSCRIBE, {"uri": public(uri)})).result == {}


async def updated(host: Host, uri: str, count: int = 1) -> None:
    """Wait until the host has been told so often."""
    await host.notified(UPDATED, lambda note: note.params["uri"] == public(uri), count=count)


async def listens_for(one: Scripted, wanted: list[str], *, start: int = 0) -> dict[str, Any]:
    """Wait until a process asks to listen for just these; the request. ``start`` counts processes from zero."""

    def found() -> list[dict[str, Any]]:
        if len(one.starts) <= start:
            return []
        lines = one.received(LISTEN, one.starts[start].pid)
        return [line.frame for line in lines if uris(line.frame) == wanted]

    return (await one.changes.until(found, f"a request to listen for {wanted}"))[-1]


# -- stdio


async def test_sub_15_a_modern_upstream_is_listened_to_on_one_stream(stage: Stage) -> None:
    """With the union of what is wanted; widened and narrowed by another one, which is there before the first ends."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        first = await listens_for(one, [NOTES])
        await one.do({"changed": NOTES}, {"changed": "tools"})
        await updated(host, NOTES)
        await host.notified(TOOLS_CHANGED)
        await subscribe(host, OTHER)
        second = await listens_for(one, [NOTES, OTHER])
        cancelled = await one.got("notifications/cancelled")
        assert cancelled.frame["params"]["requestId"] == first["id"]
        acknowledged = [
            event.at
            for event in one.seen("out")
            if "subscriptions/acknowledged" in event.value["text"] and f": {second['id']}}}" in event.value["text"]
        ]
        assert acknowledged
        assert acknowledged[0] < cancelled.at
        await one.do({"changed": OTHER})
        await updated(host, OTHER)
        await host.request(UNSUBSCRIBE, {"uri": public(OTHER)})
        await host.request(UNSUBSCRIBE, {"uri": public(NOTES)})
        await listens_for(one, [])
    assert one.received(SUBSCRIBE) == []


@pytest.mark.parametrize("revision", LEGACY)
async def test_sub_15_a_legacy_upstream_is_subscribed_to_by_uri(stage: Stage, revision: str) -> None:
    """Once for each, and no longer than somebody wants it; what changes of its lists it says unasked."""
    one = stage.upstream("one", revision, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        await subscribe(host, NOTES)
        await subscribe(host, OTHER)
        await one.do({"changed": NOTES}, {"changed": OTHER}, {"changed": "tools"})
        await updated(host, NOTES)
        await updated(host, OTHER)
        await host.notified(TOOLS_CHANGED)
        await host.request(UNSUBSCRIBE, {"uri": public(NOTES)})
        assert (await one.got(UNSUBSCRIBE)).frame["params"]["uri"] == NOTES
        await host.fence()
    assert [line.frame["params"]["uri"] for line in one.received(SUBSCRIBE)] == [NOTES, OTHER]
    assert len(one.received(UNSUBSCRIBE)) == 1
    assert one.received(LISTEN) == []


@pytest.mark.parametrize("revision", [LATEST_MODERN, LATEST_LEGACY, V2024_11_05])
async def test_sub_15_an_upstream_that_ends_is_listened_to_again(stage: Stage, revision: str) -> None:
    """It is started again for that, and what may have changed meanwhile is said to have."""
    one = stage.upstream("one", revision, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        await one.do({"exit": 1})
        if is_modern(revision):
            await listens_for(one, [NOTES], start=1)
        else:
            assert (await one.got(SUBSCRIBE, 2)).frame["params"]["uri"] == NOTES
        await updated(host, NOTES)
        await host.notified(TOOLS_CHANGED)
        await one.do({"changed": NOTES})
        await updated(host, NOTES, 2)


async def test_sub_15_a_stream_that_ends_is_opened_again(stage: Stage) -> None:
    """After the graceful end of one, which the server is free to bring, nothing is lost."""
    one = stage.upstream("one", LATEST_MODERN, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        before = len(one.received(LISTEN))
        await one.do({"unlisten": None})
        await one.got(LISTEN, before + 1)
        await updated(host, NOTES)
        await one.do({"changed": NOTES})
        await updated(host, NOTES, 2)
    assert len(one.starts) == 1


async def test_sub_15_an_upstream_that_declares_no_changes_is_not_asked_for_them(stage: Stage) -> None:
    """Neither era's: the subscription succeeds, and what comes of it is nothing."""
    bare: dict[str, Any] = {"capabilities": {"tools": {}, "resources": {}}, "resources": [RESOURCE]}
    one, two = stage.upstream("one", LATEST_MODERN, **bare), stage.upstream("two", LATEST_LEGACY, **bare)
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_LEGACY)
        for server in ("one", "two"):
            assert (await host.request(SUBSCRIBE, {"uri": f"mcpx://{server}/{NOTES}"})).result == {}
        await host.names()
    assert not [line for up in (one, two) for method in (LISTEN, SUBSCRIBE) for line in up.received(method)]


ODD = ["notifications/roots/list_changed", "notifications/other", "notifications/initialized", UPDATED]


@pytest.mark.parametrize("revision", [LATEST_MODERN, *LEGACY])
async def test_sub_17_upstreams_are_sent_no_other_notifications(stage: Stage, revision: str) -> None:
    """``initialized`` ends the handshake, ``cancelled`` ends a request; whatever else hosts say stays with mcpx."""
    one = stage.upstream("one", revision, on={"tools/call": []}, **ITEMS)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        call = await host.start("tools/call", {"name": "one__echo", "arguments": {}})
        asked = (await one.got("tools/call")).frame
        for method in ODD:
            await host.notify(method, {"uri": public(NOTES)})
        await host.cancel(call)
        await one.changes.until(
            lambda: any(
                line.frame["params"]["requestId"] == asked["id"] for line in one.received("notifications/cancelled")
            ),
            "the cancellation",
        )
        await host.request(UNSUBSCRIBE, {"uri": public(NOTES)})
        await host.fence()
    notes = [line.frame["method"] for line in one.received() if "id" not in line.frame]
    assert set(notes) == {"notifications/cancelled", *([] if is_modern(revision) else ["notifications/initialized"])}
    assert notes.count("notifications/initialized") == (0 if is_modern(revision) else 1)


# -- HTTP


class ModernChanges:
    """A modern server over HTTP that is listened to: its streams, and what it says on them."""

    def __init__(self) -> None:
        self.open: list[tuple[Asked, Reply]] = []
        self.changes = Changes()
        self.broken = trio.Event()  # every stream that is open then is cut
        self.script = modern(server__discover=self._discover, subscriptions__listen=self._listen)

    async def _discover(self, asked: Asked, reply: Reply) -> None:
        await reply.result(discovered(capabilities=TELLS_ALL))

    async def _listen(self, asked: Asked, reply: Reply) -> None:
        await reply.events()
        await self._tell(
            asked,
            reply,
            "notifications/subscriptions/acknowledged",
            notifications=asked.frame["params"]["notifications"],
        )
        self.open.append((asked, reply))
        self.changes.tell()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._break, reply)
                await reply.hang()
                nursery.cancel_scope.cancel()
        finally:
            self.open.remove((asked, reply))
            self.changes.tell()

    async def _break(self, reply: Reply) -> None:
        await self.broken.wait()
        await reply.write(b"data: half a mess")
        await reply.cut()

    async def _tell(self, asked: Asked, reply: Reply, method: str, **params: Any) -> None:
        tag = {"io.modelcontextprotocol/subscriptionId": asked.frame["id"]}
        await reply.event({"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": tag}})

    async def updated(self, uri: str) -> None:
        """A resource has changed."""
        for asked, reply in self.open:
            if uri in uris(asked.frame):
                await self._tell(asked, reply, UPDATED, uri=uri)

    async def until(self, wanted: list[str]) -> tuple[Asked, Reply]:
        """Wait until there is one stream, and it is for these resources."""
        await self.changes.until(
            lambda: [uris(asked.frame) for asked, _ in self.open] == [wanted], f"one stream, for {wanted}"
        )
        return self.open[0]


async def test_sub_15_a_modern_upstream_at_a_url_is_listened_to(stage: Stage) -> None:
    """A POST that stays open; another takes its place, and the one before is closed, which is all that it is told."""
    server = ModernChanges()
    async with serving(server.script) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        first, _ = await server.until([NOTES])
        await server.updated(NOTES)
        await updated(host, NOTES)
        await subscribe(host, OTHER)
        second, _ = await server.until([NOTES, OTHER])
        assert first.gone_at is not None
        assert first.gone_at > second.at
        await server.updated(OTHER)
        await updated(host, OTHER)
        await host.request(UNSUBSCRIBE, {"uri": public(OTHER)})
        await server.until([NOTES])
    assert up.of("notifications/cancelled") == []
    assert server.open == []


async def test_sub_15_a_stream_over_http_that_breaks_is_opened_again(stage: Stage) -> None:
    """The connection is cut in the middle: there is another one, and what may be lost is said."""
    server = ModernChanges()
    async with serving(server.script) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        await server.until([NOTES])
        asked = len(up.of(LISTEN))
        server.broken.set()
        server.broken = trio.Event()
        await up.got(LISTEN, asked + 1)
        await server.until([NOTES])
        await updated(host, NOTES)
        await server.updated(NOTES)
        await updated(host, NOTES, 2)
        assert len(up.of("server/discover")) == 1  # it is the stream that broke, and not the server


class LegacyChanges:
    """A legacy server over HTTP that keeps subscriptions with its sessions, and says changes on a stream of its own."""

    def __init__(self) -> None:
        self.streams: dict[str, Reply] = {}  # by session
        self.subscribed: set[tuple[str, str]] = set()  # session and URI
        self.changes = Changes()
        self.number = 0
        self.script = legacy(
            GET=self._get,
            resources__subscribe=self._subscribe,
            resources__unsubscribe=self._unsubscribe,
            initialize=self._initialize,
        )
        self.script.known.add("s0")

    async def _initialize(self, asked: Asked, reply: Reply) -> None:
        self.number += 1
        self.script.known.add(f"s{self.number}")
        await reply.result(initialized(capabilities=TELLS_ALL), {"Mcp-Session-Id": f"s{self.number}"})

    async def _get(self, asked: Asked, reply: Reply) -> None:
        session = asked.headers["mcp-session-id"]
        await reply.events()
        self.streams[session] = reply
        self.changes.tell()
        await reply.hang()
        self.streams.pop(session, None)

    async def _subscribe(self, asked: Asked, reply: Reply) -> None:
        self.subscribed.add((asked.headers["mcp-session-id"], asked.frame["params"]["uri"]))
        self.changes.tell()
        await reply.result({})

    async def _unsubscribe(self, asked: Asked, reply: Reply) -> None:
        self.subscribed.discard((asked.headers["mcp-session-id"], asked.frame["params"]["uri"]))
        self.changes.tell()
        await reply.result({})

    async def updated(self, uri: str) -> None:
        """A resource has changed."""
        for session, reply in self.streams.items():
            if (session, uri) in self.subscribed:
                await reply.event({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}})

    def forget(self) -> None:
        """Know no session any more."""
        self.script.known.clear()
        self.subscribed.clear()


async def test_sub_15_a_legacy_upstream_at_a_url_is_subscribed_to(stage: Stage) -> None:
    """Its changes come on the stream of the session, which is opened for them."""
    server = LegacyChanges()
    async with serving(server.script) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        await server.changes.until(lambda: "s1" in server.streams, "the stream")
        await server.updated(NOTES)
        await updated(host, NOTES)
        await host.request(UNSUBSCRIBE, {"uri": public(NOTES)})
        await server.changes.until(lambda: not server.subscribed, "the end of the subscription")


async def test_sub_15_a_session_that_was_forgotten_is_subscribed_to_again(stage: Stage) -> None:
    """With the new session the subscriptions are made anew, and what may be lost is said."""
    server = LegacyChanges()
    async with serving(server.script) as up, stage.mcpx(servers={"one": {"url": up.url}}) as host:
        await host.open(LATEST_LEGACY)
        await subscribe(host, NOTES)
        server.forget()
        assert await host.names() == ["one__echo"]
        await server.changes.until(lambda: ("s2", NOTES) in server.subscribed, "the subscription")
        await updated(host, NOTES)
        await server.changes.until(lambda: "s2" in server.streams, "the stream")
        await server.updated(NOTES)
        await updated(host, NOTES, 2)
        assert len(up.of("initialize")) == 2
