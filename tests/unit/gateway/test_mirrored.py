"""The parameters of tools that a host repeats in headers, as their servers' schemas have it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import UpstreamError
from mcpx.spec.headers import ParamHeader
from mcpx.upstream.call import Asker
from tests.support.running import in_virtual_time
from tests.unit.gateway.fakes import HOST, Scripted, call, gateway_of, names_of

OTHER = Asker("other", {"roots": Raw(b"{}")})  # which declared something else, so that lists of its own are kept


def annotated(name: str, header: Any = "Region") -> dict[str, Any]:
    """A tool whose parameter ``region`` is repeated in a header."""
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}
    return {"name": name, "inputSchema": schema}


REGION = (ParamHeader("Region", ("region",)),)
PLAIN = {"name": "plain", "inputSchema": {"type": "object"}}
TOOLS = {"tools": [annotated("a"), PLAIN, annotated("bad", "not a token")]}


@in_virtual_time
async def test_tools_that_were_never_listed_are_looked_at_once() -> None:
    one, two = Scripted(tools_list=TOOLS), Scripted(tools_list={"tools": [annotated("a", "Zone")]})
    async with gateway_of(one=one, two=two) as gateway:
        assert await gateway.mirrored("two__a", HOST) == (ParamHeader("Zone", ("region",)),)
        assert one.asked == []
        assert await gateway.mirrored("one__a", HOST) == REGION
        assert await gateway.mirrored("one__plain", HOST) == ()
        assert await gateway.mirrored("one__bad", HOST) == ()
        assert await gateway.mirrored("one__a", HOST) == REGION
        assert (one.count("tools/list"), two.count("tools/list")) == (1, 1)


@in_virtual_time
async def test_in_pass_through_names_are_the_servers_own() -> None:
    async with gateway_of(passthrough=("one",), one=Scripted(tools_list=TOOLS)) as gateway:
        assert await gateway.mirrored("a", HOST) == REGION
        assert await gateway.mirrored("one__a", HOST) == ()


@in_virtual_time
async def test_a_host_that_declared_something_else_is_told_of_its_own_list() -> None:
    async with gateway_of(one=Scripted(tools_list=TOOLS)) as gateway:
        assert await names_of(gateway) == ["one__a", "one__plain", "one__bad"]
        assert await gateway.mirrored("one__a", OTHER) == REGION


@in_virtual_time
async def test_what_nobody_offers_repeats_nothing() -> None:
    async with gateway_of(one=Scripted(tools_list=TOOLS)) as gateway:
        for name in ("one__none", "none__a", "a", ""):
            assert await gateway.mirrored(name, HOST) == ()


@pytest.mark.parametrize("passthrough", [(), ("one",)])
@in_virtual_time
async def test_of_a_server_that_is_down_the_call_itself_says_what_is_wrong(passthrough: tuple[str, ...]) -> None:
    name = "a" if passthrough else "one__a"
    async with gateway_of(passthrough, one=Scripted(refuse=True), two=Scripted(tools_list=TOOLS)) as gateway:
        assert await gateway.mirrored(name, HOST) == ()
        if not passthrough:
            with pytest.raises(UpstreamError) as caught:
                await call(gateway, "tools/call", name=name)
            assert caught.value.server == "one"


@in_virtual_time
async def test_a_server_that_cannot_list_takes_calls_all_the_same() -> None:
    """A name that no list can tell belongs to a server in pass-through."""
    one = Scripted(tools_call={"content": []})
    async with gateway_of(passthrough=("one",), one=one) as gateway:
        assert await gateway.mirrored("a", HOST) == ()
        assert b"content" in bytes((await call(gateway, "tools/call", name="a")).payload)


@in_virtual_time
async def test_a_slow_server_is_waited_for_as_for_a_list() -> None:
    async with gateway_of(passthrough=("one",), one=Scripted(tools_list=TOOLS, delay=50)) as gateway:
        began = trio.current_time()
        assert await gateway.mirrored("a", HOST) == ()
        assert trio.current_time() - began == 10
        assert await gateway.mirrored("a", HOST) == ()
        assert trio.current_time() - began == 10  # nobody waits for it a second time
        await trio.sleep(50)
        assert await gateway.mirrored("a", HOST) == REGION


@in_virtual_time
async def test_a_changed_schema_counts_once_it_was_listed() -> None:
    """Until then hosts know the old one, and repeat what that says."""
    tools = {"tools": [annotated("a")]}
    one = Scripted(tools_list=lambda _: tools, changes=True)
    async with gateway_of(one=one) as gateway:
        assert await gateway.mirrored("one__a", HOST) == REGION
        tools = {"tools": [annotated("a", "Zone")]}
        one.announce("notifications/tools/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        assert await gateway.mirrored("one__a", HOST) == REGION
        await names_of(gateway)
        assert await gateway.mirrored("one__a", HOST) == (ParamHeader("Zone", ("region",)),)
