"""What no revision defines: relayed in pass-through in every direction, otherwise refused or dropped. From host to
server.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from msgspec import Raw

from mcpx.host import Service, serve_channel
from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports import MemoryChannel, memory_channel_pair
from mcpx.upstream.call import Asker, News, Request
from tests.support.running import run_in_virtual_time
from tests.unit.gateway.fakes import LISTS, Scripted, gateway_of

OPEN = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
ENVELOPE = {meta.PROTOCOL_VERSION: LATEST_MODERN, meta.CLIENT_CAPABILITIES: {}}


class Host:
    """A host on a channel in memory."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel
        self._unread: list[dict[str, Any]] = []

    def say(self, **frame: Any) -> None:
        self.channel.send_nowait(json.dumps({"jsonrpc": "2.0", **frame}).encode())

    async def hear(self, id: object = None) -> dict[str, Any]:
        """The next frame, or the answer to a request."""
        while True:
            for frame in self._unread:
                if id is None or frame.get("id") == id:
                    self._unread.remove(frame)
                    return frame
            for line in await self.channel.receive():
                assert isinstance(line, bytes)
                self._unread.append(json.loads(line))


@pytest.mark.parametrize("passthrough", [True, False])
def test_requests_and_notifications_of_no_revision(passthrough: bool) -> None:
    async def test() -> None:
        server = Scripted(acme_do=lambda params: {"got": params.get("x")})
        ours, theirs = memory_channel_pair()
        async with gateway_of(("one",) if passthrough else (), one=server) as gateway, trio.open_nursery() as nursery:
            host = Host(ours)
            nursery.start_soon(
                lambda: serve_channel(Service(gateway), theirs, host="h", transport="memory", drain=lambda: 0)
            )
            host.say(id=1, method="initialize", params=OPEN)
            await host.hear(1)
            host.say(method="notifications/initialized")
            host.say(id=2, method="tools/list")
            await host.hear(2)  # now the server is up

            host.say(id=3, method="acme/do", params={"x": 7})
            host.say(id=4, method="acme/do", params={"x": 8, "_meta": ENVELOPE})
            answers = [await host.hear(3), await host.hear(4)]
            host.say(method="acme/told", params={"y": 1})
            await trio.testing.wait_all_tasks_blocked()
            if passthrough:
                assert answers[0]["result"] == {"got": 7}
                assert answers[1]["result"]["got"] == 8
                assert answers[1]["result"]["resultType"] == "complete"
                assert server.asked[-1] == ("acme/told", {"y": 1})
                server.announce("acme/says")
                assert await host.hear() == {"jsonrpc": "2.0", "method": "acme/says", "params": {}}
            else:
                assert [answer["error"]["code"] for answer in answers] == [-32601, -32601]
                server.announce("acme/says")
                server.announce("notifications/tools/list_changed")
                assert (await host.hear())["method"] == "notifications/tools/list_changed"  # the first was dropped
                assert "acme/told" not in [method for method, _ in server.asked]
            ours.close()

    run_in_virtual_time(test)


def test_a_foreign_notification_reaches_the_hosts_of_its_instance_and_no_other() -> None:
    async def test() -> None:
        server = Scripted(tools_call={"content": []})
        plain, apps = Asker("a"), Asker("b", {"extensions": Raw(b'{"com.example/apps":{}}')})
        heard: dict[str, list[News]] = {"a": [], "b": []}
        async with gateway_of(("one",), one=server) as gateway:
            with (
                gateway.watch(plain, LISTS, heard["a"].append, keep=False),
                gateway.watch(apps, LISTS, heard["b"].append, keep=False),
            ):
                for asker in (plain, apps):  # two instances of a legacy server, which was told two different things
                    request = Request("tools/call", {"name": Raw(b'"x"')}, LATEST_LEGACY, asker)
                    with gateway.exchange(request) as exchange:
                        await exchange.next()
                server.announce("acme/says")  # the one that started last
                await trio.testing.wait_all_tasks_blocked()

        assert [len(news) for news in heard.values()] == [0, 1]

    run_in_virtual_time(test)
