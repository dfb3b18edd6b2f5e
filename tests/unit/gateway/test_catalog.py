"""Lists of several servers: pages, circles, changes, late and failing servers. Virtual time, servers in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import RpcError, UnknownItem, UpstreamError
from mcpx.gateway import open_gateway
from mcpx.settings import Limits, ServerSettings, Settings
from tests.support.running import run_in_virtual_time
from tests.unit.gateway.fakes import HOST, LISTS, Scripted, call, gateway_of, names_of, tool
from tests.unit.upstream.fakes import FakeServer, discovered, surroundings

if TYPE_CHECKING:
    from mcpx.upstream.call import Change


def test_every_page_is_followed_and_the_order_is_the_configurations_then_the_servers() -> None:
    pages = {None: ("a", "1"), "1": ("b", ""), "": ("c", None)}  # an empty cursor is a cursor like any other

    def paged(params: dict[str, Any]) -> dict[str, Any]:
        name, following = pages[params.get("cursor")]
        return {"tools": [tool(name)], **({} if following is None else {"nextCursor": following})}

    async def test() -> None:
        async with gateway_of(
            two=Scripted(tools_list=paged), one=Scripted(tools_list={"tools": [tool("z")]})
        ) as gateway:
            assert await names_of(gateway) == ["two__a", "two__b", "two__c", "one__z"]

    run_in_virtual_time(test)


@pytest.mark.parametrize("cursors", [["x", "x"], ["x", "y", "x"], ["", ""]])
def test_pages_that_go_round_in_a_circle_end(cursors: list[str]) -> None:
    answers = iter([*cursors, *cursors, *cursors])

    async def test() -> None:
        server = Scripted(tools_list=lambda params: {"tools": [tool("a")], "nextCursor": next(answers)})
        async with gateway_of(one=server) as gateway:
            assert await names_of(gateway) == ["one__a"]

    run_in_virtual_time(test)


def test_endless_pages_end_at_the_limit() -> None:
    count = iter(range(10**6))

    async def test() -> None:
        server = Scripted(
            tools_list=lambda params: {"tools": [tool(f"t{next(count)}")], "nextCursor": f"c{next(count)}"}
        )
        async with gateway_of(one=server) as gateway:
            assert len(await names_of(gateway)) == Limits().max_pages

    run_in_virtual_time(test)


def test_a_bad_cursor_is_invalid_params_and_starts_nothing() -> None:
    async def test() -> None:
        server = Scripted(tools_list={"tools": []})
        async with gateway_of(one=server) as gateway:
            for cursor in ("", "nonsense", "eyJ4IjoxfQ"):
                with pytest.raises(RpcError) as caught:
                    await gateway.list("tools", HOST, cursor)
                assert caught.value.code == -32602
            assert server.asked == []

    run_in_virtual_time(test)


def test_a_list_waits_a_bounded_time_and_a_late_server_is_announced() -> None:
    async def test() -> None:
        fast, slow = Scripted(tools_list={"tools": [tool("a")]}), Scripted(tools_list={"tools": [tool("b")]}, delay=15)
        dead = Scripted(refuse=True)
        changes: list[Change] = []
        async with gateway_of(fast=fast, slow=slow, dead=dead) as gateway:
            with gateway.watch(HOST, LISTS, changes.append, keep=False):
                start = trio.current_time()
                assert await names_of(gateway) == ["fast__a"]
                assert trio.current_time() - start == 10
                start = trio.current_time()
                assert await names_of(gateway) == ["fast__a"]  # nobody waits twice for the same start
                assert trio.current_time() == start
                await trio.sleep(10)
                assert [change.kind for change in changes] == ["tools"]
                assert await names_of(gateway) == ["fast__a", "slow__b"]

    run_in_virtual_time(test)


def test_a_list_that_changes_are_told_of_is_asked_for_once_and_again_after_a_change() -> None:
    async def test() -> None:
        tools = [tool("a")]
        server = Scripted(changes=True, tools_list=lambda params: {"tools": list(tools)})
        changes: list[Change] = []
        async with gateway_of(one=server) as gateway:
            with gateway.watch(HOST, LISTS, changes.append, keep=False):
                await names_of(gateway)
                await names_of(gateway)
                assert server.count("tools/list") == 1
                tools.append(tool("b"))
                server.announce("notifications/tools/list_changed")
                await trio.testing.wait_all_tasks_blocked()
                assert len(changes) == 1
                assert await names_of(gateway) == ["one__a", "one__b"]
                assert server.count("tools/list") == 2

    run_in_virtual_time(test)


def test_a_server_that_notifies_inside_its_own_list_handler_does_not_loop() -> None:
    async def test() -> None:
        changes: list[Change] = []

        def notifying(params: dict[str, Any]) -> dict[str, Any]:
            server.announce("notifications/tools/list_changed")
            return {"tools": [tool("a")]}

        server = Scripted(changes=True, tools_list=notifying)
        async with gateway_of(one=server) as gateway:
            with gateway.watch(HOST, LISTS, changes.append, keep=False):
                await names_of(gateway)
                await trio.sleep(100)
                assert server.count("tools/list") <= 10  # the list, one more look, and then ever more seldom
                assert changes == []  # the same list again is no news

    run_in_virtual_time(test)


def test_a_storm_of_changes_costs_one_list() -> None:
    async def test() -> None:
        server = Scripted(changes=True, tools_list={"tools": [tool("a")]})
        async with gateway_of(one=server) as gateway:
            await names_of(gateway)
            for _ in range(200):
                server.announce("notifications/tools/list_changed")
            await trio.testing.wait_all_tasks_blocked()
            await names_of(gateway)
            assert server.count("tools/list") == 2

    run_in_virtual_time(test)


def test_a_call_goes_to_the_server_under_its_own_name_without_a_list_before() -> None:
    async def test() -> None:
        called = Scripted(tools_list={"tools": [tool("do.it")]}, tools_call={"content": []})
        other = Scripted(tools_list={"tools": [tool("x")]})
        async with gateway_of(one=called, two=other) as gateway:
            [public] = [name for name in await names_of(gateway) if name.startswith("one")]
        called.asked.clear()
        other.asked.clear()
        async with gateway_of(one=called, two=other) as gateway:
            await call(gateway, "tools/call", name=public, arguments={"a": 1})

        assert called.asked[-1][1]["name"] == "do.it"
        assert other.asked == []  # a server that cannot have the tool is not started for it

    run_in_virtual_time(test)


def test_an_unknown_name_is_unknown_and_starts_nothing_that_could_not_have_it() -> None:
    async def test() -> None:
        one = Scripted(tools_list={"tools": [tool("a")]})
        async with gateway_of(one=one) as gateway:
            with pytest.raises(UnknownItem):
                await call(gateway, "tools/call", name="nobody__x")
            assert one.asked == []
            with pytest.raises(UnknownItem):
                await call(gateway, "tools/call", name="one__x")

    run_in_virtual_time(test)


def test_the_name_of_a_server_that_cannot_be_started_says_so() -> None:
    async def test() -> None:
        async with gateway_of(one=Scripted(refuse=True)) as gateway:
            with pytest.raises(UpstreamError, match="refused both"):
                await call(gateway, "tools/call", name="one__x")

    run_in_virtual_time(test)


def test_a_resource_is_found_by_prefix_by_list_and_by_template() -> None:
    async def test() -> None:
        read = {"contents": [{"uri": "x", "text": "t"}]}
        one = Scripted(
            resources_list={"resources": [{"uri": "file:///a", "name": "a"}]},
            resources_templates_list={"resourceTemplates": [{"uriTemplate": "db://{table}/{id}", "name": "t"}]},
            resources_read=read,
        )
        async with gateway_of(zero=Scripted(resources_list={"resources": []}), one=one) as gateway:
            for public, own in [
                ("mcpx://one/file:///a", "file:///a"),
                ("file:///a", "file:///a"),
                ("db://users/7", "db://users/7"),
            ]:
                reply = await call(gateway, "resources/read", uri=public)
                method, params = one.asked[-1]
                assert (method, params["uri"]) == ("resources/read", own)
                assert b'"mcpx://one/x"' in bytes(reply.payload)
            with pytest.raises(UnknownItem):
                await call(gateway, "resources/read", uri="nowhere://x")

    run_in_virtual_time(test)


def test_completion_follows_the_reference() -> None:
    async def test() -> None:
        one = Scripted(
            prompts_list={"prompts": [{"name": "p"}]},
            completion_complete={"completion": {"values": ["v"]}},
        )
        async with gateway_of(one=one) as gateway:
            await call(gateway, "completion/complete", ref={"type": "ref/prompt", "name": "one__p"}, argument={})
            assert one.asked[-1][1]["ref"] == {"type": "ref/prompt", "name": "p"}
            ref = {"type": "ref/resource", "uri": "mcpx://one/db://{id}"}
            await call(gateway, "completion/complete", ref=ref, argument={})
            assert one.asked[-1][1]["ref"] == {"type": "ref/resource", "uri": "db://{id}"}

    run_in_virtual_time(test)


def test_in_pass_through_everything_is_the_servers_own() -> None:
    async def test() -> None:
        one = Scripted(tools_list={"tools": [tool("do.it")]}, tools_call={"content": []})
        async with gateway_of(("one",), one=one) as gateway:
            identity = await gateway.identity(HOST)
            assert identity.instructions == "Be kind."
            assert identity.server_info is not None
            assert await names_of(gateway) == ["do.it"]
            await call(gateway, "tools/call", name="not.listed")
            assert one.asked[-1][1]["name"] == "not.listed"

    run_in_virtual_time(test)


def test_two_in_pass_through_that_offer_one_name_are_an_error_that_names_both() -> None:
    async def test() -> None:
        one, two = (Scripted(tools_list={"tools": [tool("same"), tool(own)]}) for own in ("x", "y"))
        async with gateway_of(("one", "two"), one=one, two=two) as gateway:
            assert await names_of(gateway) == ["x", "y"]
            with pytest.raises(UpstreamError, match="'one' and 'two'"):
                await call(gateway, "tools/call", name="same")

    run_in_virtual_time(test)


def test_what_a_handshake_says_in_front_of_several_servers_needs_none_of_them() -> None:
    async def test() -> None:
        one = Scripted()
        async with gateway_of(one=one, two=Scripted()) as gateway:
            identity = await gateway.identity(HOST)

            assert identity.server_info is None
            assert set(identity.capabilities) == {"tools", "prompts", "resources", "completions", "logging"}
            assert one.asked == []

    run_in_virtual_time(test)


def test_a_list_result_that_is_no_list_leaves_the_others_alone() -> None:
    async def test() -> None:
        bad, good = Scripted(tools_list={"tools": "none"}), Scripted(tools_list={"tools": [tool("a"), {"no": "name"}]})
        async with gateway_of(bad=bad, good=good) as gateway:
            assert await names_of(gateway) == ["good__a"]

    run_in_virtual_time(test)


def test_lists_of_a_modern_server_stay_good_for_their_time_to_live() -> None:
    async def test() -> None:
        asked = 0

        async def modern(server: FakeServer) -> None:
            nonlocal asked
            server.answer(await server.expect("server/discover"), discovered())
            while True:
                asked += 1
                request = await server.expect("tools/list")
                server.answer(
                    request, {"resultType": "complete", "tools": [tool("a")], "ttlMs": 5000, "cacheScope": "public"}
                )

        settings = Settings(servers=(ServerSettings(name="one", builtin="demo"),))
        async with open_gateway(settings, builtins=surroundings(modern).builtins) as gateway:
            page = await gateway.list("tools", HOST, None)
            assert (page.ttl_ms, page.cache_scope) == (5000, "public")
            await trio.sleep(4)
            page = await gateway.list("tools", HOST, None)
            assert page.ttl_ms == 1000
            await trio.sleep(2)
            await gateway.list("tools", HOST, None)
            assert asked == 3  # two lists, and the third that is awaited

    run_in_virtual_time(test)


def listing(name: str, **hints: Any) -> Any:
    """A page of one tool, with what a modern server says of keeping it."""
    return {"tools": [tool(name)], **hints}


PUBLIC = {"ttlMs": 5000, "cacheScope": "public"}


@pytest.mark.parametrize(
    ("parts", "ttl_ms", "scope"),
    [
        ([PUBLIC, {"ttlMs": 9000, "cacheScope": "public"}], 5000, "public"),
        ([PUBLIC, {"ttlMs": 3000, "cacheScope": "private"}], 3000, "private"),
        ([PUBLIC, {}], 0, "private"),  # one that says nothing
        ([PUBLIC, {"ttlMs": 0, "cacheScope": "public"}], 0, "public"),
        ([PUBLIC, None], 5000, "public"),  # one that has no tools at all
        ([None, None], 0, "private"),
    ],
)
def test_a_merged_list_is_kept_as_the_strictest_of_its_parts_has_it(parts: Any, ttl_ms: int, scope: str) -> None:
    async def test() -> None:
        servers = {
            name: Scripted(**({} if part is None else {"tools_list": listing("t", **part)}))
            for name, part in zip(("one", "two"), parts, strict=True)
        }
        async with gateway_of(**servers) as gateway:
            page = await gateway.list("tools", HOST, None)
            assert (page.ttl_ms, page.cache_scope) == (ttl_ms, scope)

    run_in_virtual_time(test)


def test_a_list_without_a_server_that_is_late_is_kept_by_nobody_and_private_to_its_end() -> None:
    async def test() -> None:
        many = {"tools": [tool(f"t{number}") for number in range(5)], **PUBLIC}
        one, late = Scripted(tools_list=many), Scripted(delay=20, tools_list=listing("z", **PUBLIC))
        async with gateway_of(one=one, late=late) as gateway:
            first = await gateway.list("tools", HOST, None)
            assert (first.ttl_ms, first.cache_scope) == (0, "private")
            await trio.sleep(30)
            second = await gateway.list("tools", HOST, first.next_cursor)
            assert second.cache_scope == "private"  # as all pages of a list are what its first is
            fresh = await gateway.list("tools", HOST, None)
            assert (fresh.ttl_ms, fresh.cache_scope) == (5000, "public")
            assert (await gateway.list("tools", HOST, fresh.next_cursor)).cache_scope == "public"

    run_in_virtual_time(test)
