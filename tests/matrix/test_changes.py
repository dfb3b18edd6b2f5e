"""Changes in the four cells of eras, by every way that a host comes and every way that an upstream is reached."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05, is_modern
from tests.support.http_front import EventsFront, Front, fronted
from tests.support.scripted import PROMPT, RESOURCE, TELLS_ALL, TOOL
from tests.support.ways import WAYS, arriving

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

NOTES, OTHER = "file:///notes.txt", "file:///other.txt"
PUBLIC = f"mcpx://one/{NOTES}"
ITEMS: dict[str, Any] = {"tools": [TOOL], "prompts": [PROMPT], "resources": [RESOURCE], "capabilities": TELLS_ALL}
LISTS = ("tools", "prompts", "resources")
UPDATED = "notifications/resources/updated"
FRONTS: dict[str, type[Front]] = {"http": Front, "sse": EventsFront}


@pytest.mark.parametrize(
    ("reached", "upstream"),
    [
        ("stdio", LATEST_MODERN),
        ("stdio", LATEST_LEGACY),
        ("http", LATEST_MODERN),
        ("http", LATEST_LEGACY),
        ("sse", V2024_11_05),
    ],
)
@pytest.mark.parametrize("revision", [LATEST_MODERN, LATEST_LEGACY])
@pytest.mark.parametrize("way", WAYS)
async def test_cell(stage: Stage, way: str, revision: str, reached: str, upstream: str) -> None:
    """A host hears of each list, and of the resource that it asked for and no other; and then of nothing more."""
    one = stage.upstream("one", upstream, **ITEMS)
    async with AsyncExitStack() as stack:
        how: dict[str, Any] = {}
        upstreams: tuple[Scripted, ...] = (one,)
        if reached != "stdio":
            url = await stack.enter_async_context(fronted(one, FRONTS[reached]))
            transport = {"type": "sse"} if reached == "sse" else {}
            how, upstreams = {"servers": {"one": {"url": url, **transport}}}, ()
        host, _ = await stack.enter_async_context(arriving(stage, way, *upstreams, **how))
        await host.open(revision)
        assert await host.names() == ["one__echo"]
        await (_listen if is_modern(revision) else _subscribe)(host)
        await _change(one, is_modern(upstream))
        for kind in LISTS:
            await host.notified(f"notifications/{kind}/list_changed")
        note = await host.notified(UPDATED)
        assert note.params["uri"] == PUBLIC
        tags = {one.params.get("_meta", {}).get(SUBSCRIPTION_ID) for one in host.notifications}
        assert tags == ({"s"} if is_modern(revision) else {None})


async def _listen(host: Host) -> None:
    filter = {**{f"{kind}ListChanged": True for kind in LISTS}, "resourceSubscriptions": [PUBLIC]}
    await host.start("subscriptions/listen", {"notifications": filter}, id="s")
    acknowledged = await host.notified("notifications/subscriptions/acknowledged")
    assert acknowledged.params["notifications"] == filter


async def _subscribe(host: Host) -> None:
    assert (await host.request("resources/subscribe", {"uri": PUBLIC})).result == {}


async def _change(one: Scripted, modern: bool) -> None:
    """Everything changes. A modern server tells it on the stream that is open by now."""
    if modern:
        await one.changes.until(
            lambda: any(
                line.frame["params"]["notifications"].get("resourceSubscriptions") == [NOTES]
                for line in one.received("subscriptions/listen")
            ),
            "the stream for the resource",
        )
    await one.do(*({"changed": what} for what in (*LISTS, NOTES, OTHER)))
