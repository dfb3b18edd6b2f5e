"""Kind 15: names that are too long, have other characters, or are the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.scripted import PROMPT, TOOL

if TYPE_CHECKING:
    from tests.support.stage import Stage

ACCEPTED = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONG = "a_very_long_tool_name_that_goes_on_and_on_until_it_is_far_too_long_"
ODD = [
    "plain",
    "a.dotted.name",
    "a/b",
    "données",
    "工具",
    "with space",
    LONG + "one",
    LONG + "two",
    "x" * 128,
    "x" * 127,
    "_",
    "__",
    "a__b",
    "-",
    "=?base64?eA==?=",
    "A.dotted.name",
    "a_dotted_name",
]


async def test_pain_15_names_are_what_hosts_accept(stage: Stage) -> None:
    """Every public name fits, no two are the same, and each leads back to its own tool and prompt."""
    one = stage.upstream(
        "one",
        tools=[{**TOOL, "name": name} for name in ODD],
        prompts=[{**PROMPT, "name": name} for name in ODD],
    )
    async with stage.mcpx(one, stage.upstream("two", LATEST_MODERN)) as host:
        await host.open(LATEST_LEGACY)
        names = (await host.names())[: len(ODD)]
        prompts = [prompt["name"] for prompt in await host.all_items("prompts/list", "prompts")]
        assert len(set(names)) == len(ODD)
        assert prompts == names
        assert names[0] == "one__plain"
        for own, public in zip(ODD, names, strict=True):
            assert ACCEPTED.fullmatch(public)
            assert public.startswith("one__")
            assert (await host.call(public)).result["content"][0]["text"] == f"{own} {{}}"
            prompt = (await host.request("prompts/get", {"name": public})).result
            assert prompt["messages"][0]["content"]["text"].startswith(own)


async def test_pain_15_names_depend_on_nothing_else(stage: Stage) -> None:
    """Another server, another order, another start, or another tool beside it renames nothing."""
    odd = [{**TOOL, "name": name} for name in ODD]
    first = stage.upstream("first", tools=odd)
    async with stage.mcpx(first) as host:
        await host.open(LATEST_LEGACY)
        alone = await host.names()
    first.change(tools=odd[::-1])
    second = stage.upstream("second", tools=odd)
    async with stage.mcpx(second, first) as host:
        await host.open(LATEST_MODERN)
        together = await host.names()
    assert [name for name in together if name.startswith("first__")] == alone[::-1]
    assert len(together) == 2 * len(odd)


async def test_pain_15_the_same_name_in_two_servers(stage: Stage) -> None:
    """Two servers with one tool name are two tools; one server with a name twice has it once."""
    one = stage.upstream("one", tools=[TOOL, {**TOOL, "description": "again"}])
    two = stage.upstream("two", calls={"echo": [{"result": {"content": [{"type": "text", "text": "second"}]}}]})
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_LEGACY)
        listed = await host.all_items("tools/list", "tools")
        assert [(tool["name"], tool["description"]) for tool in listed] == [
            ("one__echo", "Says what it was told"),
            ("two__echo", "Says what it was told"),
        ]
        assert (await host.call("two__echo")).result["content"][0]["text"] == "second"
        assert (await host.call("one__echo")).result["content"][0]["text"] == "echo {}"


@pytest.mark.parametrize("name", ["my__server", "trailing_", "has space", "Ünïcode", "dots.and/slashes", "l" * 80])
async def test_pain_15_names_of_servers_are_cleaned(stage: Stage, name: str) -> None:
    """A configured name that cannot stand in a tool's is shown as its head and a hash, in names and URIs alike."""
    resource = {"uri": "file:///a", "name": "a"}
    one = stage.upstream("one", resources=[resource])
    other = stage.upstream("other", resources=[resource])
    async with stage.mcpx(one, other, servers={name: one.entry, "other": other.entry}, status=0) as host:
        await host.open(LATEST_LEGACY)
        names = [public for public in await host.names() if not public.startswith(("one__", "other__"))]
        (public,) = names
        part, item = public.rsplit("__", 1)
        assert item == "echo"
        assert "__" not in part
        assert not part.endswith("_")
        assert ACCEPTED.fullmatch(public)
        assert (await host.call(public)).result["content"]
        uri = f"mcpx://{part}/file:///a"
        assert uri in [item["uri"] for item in await host.all_items("resources/list", "resources")]
        assert (await host.request("resources/read", {"uri": uri})).result["contents"][0]["uri"] == uri


async def test_pain_15_two_servers_shown_alike_are_refused(stage: Stage) -> None:
    """Two configured names that hosts would see alike are a mistake that names both, before anything starts."""
    one = stage.upstream("one")
    async with stage.mcpx(one, servers={"has space": one.entry}) as host:
        await host.open(LATEST_LEGACY)
        part = next(name for name in await host.names() if not name.startswith("one__")).rpartition("__")[0]
    starts = len(one.starts)
    async with stage.mcpx(servers={"has space": one.entry, part: one.entry}, status=None) as host:
        assert await host.wait() != 0
        assert "has space" in host.log
        assert part in host.log
    assert len(one.starts) == starts


async def test_pain_15_pass_through_keeps_names(stage: Stage) -> None:
    """In pass-through names and URIs are the upstream's own; two that offer one name are an error naming both."""
    one = stage.upstream("one", tools=[{**TOOL, "name": name} for name in ODD])
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ODD
        for own in ODD:
            assert (await host.call(own)).result["content"][0]["text"] == f"{own} {{}}"
    two, three = stage.upstream("two"), stage.upstream("three", tools=[TOOL, {**TOOL, "name": "own"}])
    async with stage.mcpx(two, three, args=["--passthrough", "two", "--passthrough", "three"]) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["own"]
        line = await host.logged("'echo'")
        assert "two" in line
        assert "three" in line
