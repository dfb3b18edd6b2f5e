"""The page on writing servers says what is so: its examples are run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from mcpx.gateway.gateway import open_gateway
from mcpx.gateway.uris import public_uri
from mcpx.settings import ServerSettings, Settings
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.upstream.call import Asker, Reply, Request
from mcpx.wire.frames import to_raw
from tests.support.running import run_in_virtual_time
from tests.unit.app.talk import Host, run

PAGE = Path(__file__).parents[3] / "docs" / "embedding-servers.md"


@pytest.fixture
def page() -> dict[str, Any]:
    """What the page's Python, all of it in one module, defines."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 8
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), scope)
    return scope


def test_the_server_on_the_page_works(page: dict[str, Any]) -> None:
    async def script(host: Host) -> None:
        assert await host.said("read_note", {"title": "a"}) == ("There is no note 'a'. There are: none", True)
        assert await host.said("write_note", {"title": "a", "text": " one two "}) == ("1 notes", False)
        assert await host.said("write_note", {"title": "", "text": "x"}) == (
            "Invalid arguments for tool write_note: Expected `str` of length >= 1 - at `$.title`",
            True,
        )
        result = await host.call("count_words")
        assert result["structuredContent"] == [{"title": "a", "words": 2}]
        assert await host.said("tidy") == ("Tidy.", False)
        prompt = await host.ask("prompts/get", {"name": "summarise", "arguments": {"title": "a"}})
        assert [message["content"]["text"] for message in prompt["messages"]] == [
            "Summarise in a short way:",
            "one two",
        ]
        [contents] = (await host.ask("resources/read", {"uri": "notes://note/a"}))["contents"]
        assert contents["text"] == "one two"
        [contents] = (await host.ask("resources/read", {"uri": "notes://all"}))["contents"]
        assert contents["mimeType"] == "text/plain"
        assert (await host.refused("resources/read", {"uri": "notes://note/b"}))["code"] == -32602

    run(page["app"], script)


def test_the_test_on_the_page_works(page: dict[str, Any]) -> None:
    found: list[str] = []

    async def main() -> None:
        found.extend(await page["tools"]())

    run_in_virtual_time(main)
    assert found == ["write_note", "read_note", "count_words", "tidy"]


def test_the_gateway_on_the_page_serves_it(page: dict[str, Any]) -> None:
    trio.run(page["main"])

    async def main() -> None:
        settings = Settings(servers=(ServerSettings(name="my notes", builtin="notes"),))
        asker = Asker("host")
        async with open_gateway(settings, builtins={"notes": page["app"].open_channel}) as gateway:
            listed = await gateway.list("resources", asker, None)
            [item] = listed.parts[0].items
            uri = msgspec.json.decode(item)["uri"]
            assert uri == public_uri("my notes", "notes://all")
            read = Request("resources/read", {"uri": to_raw(uri)}, LATEST_MODERN, asker)
            with gateway.exchange(read) as call:
                reply = await call.next()
            assert isinstance(reply, Reply)
            assert msgspec.json.decode(reply.payload)["contents"] == [
                {"uri": uri, "mimeType": "text/plain", "text": ""}
            ]

    trio.run(main)
