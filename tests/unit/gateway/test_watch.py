"""Watches on changes: public URIs to servers and back, what is wanted of whom, and what of it will be delivered."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.gateway.uris import ancestors
from mcpx.upstream.call import Change, Interest, News
from tests.support.running import in_virtual_time
from tests.unit.gateway.fakes import HOST, LISTS, Scripted, gateway_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcpx.gateway import Gateway

LISTING = {"resources": [{"name": "b", "uri": "a:/b"}]}
TEMPLATES = {"resourceTemplates": [{"name": "t", "uriTemplate": "t:/{x}/all"}]}


def server(**how: Any) -> Scripted:
    """A legacy server that lets clients subscribe, with one resource and one template."""
    handlers: dict[str, Any] = {
        "resources_list": LISTING,
        "resources_templates_list": TEMPLATES,
        "resources_subscribe": {},
        "resources_unsubscribe": {},
    }
    return Scripted(**{"changes": True, "subscribe": True, **handlers, **how})


def uris(*uris: str) -> Interest:
    return Interest(uris=frozenset(uris))


def asked_for(one: Scripted, method: str = "resources/subscribe") -> list[str]:
    return [params["uri"] for name, params in one.asked if name == method]


def update(one: Scripted, uri: str) -> None:
    assert one.server is not None
    one.server.say(method="notifications/resources/updated", params={"uri": uri})


@asynccontextmanager
async def watching(gateway: Gateway, interest: Interest, *, keep: bool = True) -> AsyncIterator[tuple[Any, list[News]]]:
    """A watch whose servers have agreed, and what it hears."""
    heard: list[News] = []
    with gateway.watch(HOST, interest, heard.append, keep=keep) as watch:
        await watch.settled()
        heard.clear()
        yield watch, heard


def test_what_a_resource_may_be_inside_of() -> None:
    assert list(ancestors("a:/b/c")) == ["a:/b/", "a:/b", "a:/", "a:"]
    assert list(ancestors("h://x?y#z")) == ["h://x?y#", "h://x?y", "h://x?", "h://x", "h://", "h:/", "h:/", "h:"]
    assert list(ancestors("plain")) == []


@in_virtual_time
async def test_uris_are_told_as_the_host_wrote_them() -> None:
    one, two = server(), server(resources_list={"resources": []}, resources_templates_list={"resourceTemplates": []})
    async with gateway_of(one=one, two=two) as gateway:
        wanted = uris("a:/b", "mcpx://one/a:/b", "t:/x/all", "mcpx://two/a:/b")
        async with watching(gateway, wanted) as (watch, heard):
            assert watch.granted == wanted
            assert sorted(asked_for(one)) == ["a:/b", "t:/x/all"]
            assert asked_for(two) == ["a:/b"]
            update(one, "a:/b")
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(news.uri for news in heard) == ["a:/b", "mcpx://one/a:/b"]  # type: ignore[union-attr]
            heard.clear()
            update(two, "a:/b/inner")
            update(one, "t:/x/all#end")
            update(one, "a:/bb")  # which is not inside of anything
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(news.uri for news in heard) == ["mcpx://two/a:/b/inner", "t:/x/all#end"]  # type: ignore[union-attr]
        await trio.sleep(10)
        assert sorted(asked_for(one, "resources/unsubscribe")) == ["a:/b", "t:/x/all"]


@in_virtual_time
async def test_what_is_wanted_may_become_more_and_less() -> None:
    one = server()
    async with gateway_of(one=one) as gateway, watching(gateway, uris("mcpx://one/a:/1")) as (watch, heard):
        watch.change(uris("mcpx://one/a:/1", "mcpx://one/a:/2", "a:/b"))
        await watch.settled()
        assert watch.granted == uris("mcpx://one/a:/1", "mcpx://one/a:/2", "a:/b")
        assert watch.grants("a:/b")
        watch.change(uris("mcpx://one/a:/2"))
        await watch.settled()
        await trio.sleep(10)
        assert sorted(asked_for(one, "resources/unsubscribe")) == ["a:/1", "a:/b"]
        heard.clear()
        for uri in ("a:/1", "a:/2", "a:/b"):
            update(one, uri)
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [Change("one", "resources", "mcpx://one/a:/2")]
        watch.change(Interest())
        await watch.settled()
        assert watch.granted == Interest()
        assert not watch.grants("a:/b")


@in_virtual_time
async def test_what_nobody_delivers_is_not_granted() -> None:
    one, mute, down = server(), server(subscribe=False), server(refuse=True)
    async with gateway_of(one=one, mute=mute, down=down) as gateway:
        wanted = uris("mcpx://one/a:/b", "mcpx://mute/a:/b", "mcpx://down/a:/b", "nobody:/x", "mcpx://other/x", "")
        async with watching(gateway, wanted) as (watch, _):
            assert watch.granted == uris("mcpx://one/a:/b")
        async with watching(gateway, LISTS) as (watch, _):
            assert watch.granted == LISTS  # whoever comes late makes them grow


@in_virtual_time
async def test_in_pass_through_names_are_the_servers_own_and_it_decides() -> None:
    one = server(changes=False)
    wanted = LISTS | uris("a:/b", "mcpx://one/a:/b")
    async with gateway_of(("one",), one=one) as gateway, watching(gateway, wanted) as (watch, heard):
        assert watch.granted == uris("a:/b", "mcpx://one/a:/b")
        update(one, "a:/b")
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [Change("one", "resources", "a:/b")]


@in_virtual_time
async def test_before_a_server_has_agreed_it_is_what_it_declared_last() -> None:
    one = server()
    async with gateway_of(one=one) as gateway:
        with gateway.watch(HOST, uris("mcpx://one/a:/b"), lambda _: None, keep=True) as watch:
            assert watch.granted == Interest()  # nobody has seen it yet
            await watch.settled()
        with gateway.watch(HOST, uris("mcpx://one/a:/c"), lambda _: None, keep=True) as watch:
            assert watch.granted == uris("mcpx://one/a:/c")


@pytest.mark.parametrize("keep", [True, False])
@in_virtual_time
async def test_a_server_is_started_for_what_was_asked_for_and_for_nothing_else(keep: bool) -> None:
    one = server()
    async with gateway_of(one=one) as gateway, watching(gateway, LISTS, keep=keep):
        await trio.sleep(10)
        assert (one.server is not None) is keep


@in_virtual_time
async def test_only_those_hear_who_want_to() -> None:
    one = server()
    async with gateway_of(one=one) as gateway, watching(gateway, Interest(frozenset({"tools"}))) as (_, heard):
        for kind in ("prompts", "tools", "resources"):
            one.announce(f"notifications/{kind}/list_changed")
        update(one, "a:/b")
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [Change("one", "tools")]


@in_virtual_time
async def test_waiting_for_one_resource_is_not_waiting_for_other_servers() -> None:
    one, slow = server(), server(delay=500)
    async with gateway_of(one=one, slow=slow) as gateway:
        with gateway.watch(HOST, uris("mcpx://one/a:/b", "mcpx://slow/a:/b"), lambda _: None, keep=True) as watch:
            start = trio.current_time()
            await watch.settled({"mcpx://one/a:/b"})
            assert watch.granted == uris("mcpx://one/a:/b")
            assert trio.current_time() - start < 100


@in_virtual_time
async def test_a_storm_reaches_a_thousand_watches_as_a_few_changes_and_asks_for_no_list() -> None:
    one = server(tools_list={"tools": []})
    heard: list[list[News]] = [[] for _ in range(1000)]
    async with gateway_of(one=one) as gateway:
        await gateway.list("tools", HOST, None)
        async with watching(gateway, LISTS):
            watches = [gateway.watch(HOST, LISTS, one.append, keep=True) for one in heard]
            for watch in watches:
                watch.__enter__()
            for _ in range(100):
                one.announce("notifications/tools/list_changed")
            await trio.testing.wait_all_tasks_blocked()
            [told] = {len(one) for one in heard}
            assert 1 <= told <= 3
            one.announce("notifications/tools/list_changed")
            await trio.testing.wait_all_tasks_blocked()
            assert {len(one) for one in heard} == {told + 1}  # the last one counts
            for watch in reversed(watches):
                watch.__exit__(None, None, None)


@pytest.mark.parametrize("spelling", ["mcpx://one/a:/{}", "t:/{}/all"])
@in_virtual_time
async def test_one_more_resource_costs_no_more_where_there_are_thousands(spelling: str) -> None:
    async def one_more(number: int) -> int:
        """The calls that it takes to want one more resource."""
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        uri = spelling.format(number)
        sys.setprofile(count)
        try:
            watch.change(uris(*wanted, uri))
            await watch.settled({uri})
            assert watch.grants(uri)
        finally:
            sys.setprofile(None)
        return calls

    async with gateway_of(one=server()) as gateway, watching(gateway, uris("mcpx://one/a:/b")) as (watch, _):
        wanted = ["mcpx://one/a:/b"]
        few = await one_more(0)
        wanted = [f"mcpx://one/a:/b/{number}" for number in range(2000)]
        watch.change(uris(*wanted))
        await watch.settled()
        assert await one_more(1) < 2 * few
