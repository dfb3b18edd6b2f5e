"""The built-in demo server, as a host sees it."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import zlib

import trio

from mcpx import __version__
from mcpx.demo import BUILTINS, demo_app
from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_MODERN
from tests.unit.app.talk import Host, run


def test_what_it_is_and_offers() -> None:
    async def script(host: Host) -> None:
        found = await host.ask("server/discover")
        assert found["capabilities"] == {
            "tools": {},
            "prompts": {},
            "resources": {},
            "completions": {},
            "logging": {},
        }
        assert found["_meta"][meta.SERVER_INFO]["name"] == "mcpx-demo"
        assert found["_meta"][meta.SERVER_INFO]["version"] == __version__
        tools = (await host.ask("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["echo", "add", "slow", "fail", "image", "weather"]
        assert all(tool["title"] and tool["description"] for tool in tools)
        assert [prompt["name"] for prompt in (await host.ask("prompts/list"))["prompts"]] == ["greet"]
        resources = (await host.ask("resources/list"))["resources"]
        assert [resource["uri"] for resource in resources] == ["demo://readme", "demo://square.png"]
        [template] = (await host.ask("resources/templates/list"))["resourceTemplates"]
        assert template["uriTemplate"] == "demo://greeting/{name}"

    run(demo_app(), script)


def test_echo_and_add() -> None:
    async def script(host: Host) -> None:
        assert await host.said("echo", {"text": "héllo\n"}) == ("héllo\n", False)
        result = await host.call("add", {"a": 2, "b": 3.5})
        assert result["structuredContent"] == {"sum": 5.5}
        assert result["content"] == [{"type": "text", "text": '{"sum":5.5}'}]

    run(demo_app(), script)


def test_slow_takes_its_time_and_reports() -> None:
    async def script(host: Host) -> None:
        started = trio.current_time()
        extra = {meta.PROGRESS_TOKEN: "t", meta.LOG_LEVEL: "info"}
        result = await host.call("slow", {"seconds": 4, "steps": 2}, **extra)
        assert trio.current_time() - started == 4
        assert result["content"] == [{"type": "text", "text": "Done after 4 s."}]
        assert [frame["params"] for frame in host.frames[:-1]] == [
            {"level": "info", "logger": "demo", "data": "waiting 4 s"},
            {"progressToken": "t", "progress": 1, "total": 2, "message": "step 1 of 2"},
            {"progressToken": "t", "progress": 2, "total": 2, "message": "step 2 of 2"},
        ]

    run(demo_app(), script)


def test_fail_fails() -> None:
    async def script(host: Host) -> None:
        assert await host.said("fail") == ("This tool always fails.", True)
        assert await host.said("fail", {"message": "no"}) == ("no", True)

    run(demo_app(), script)


def test_the_image_is_a_png_of_its_size() -> None:
    async def script(host: Host) -> None:
        [block] = (await host.call("image", {"colour": "red", "size": 5}))["content"]
        assert (block["type"], block["mimeType"]) == ("image", "image/png")
        data = base64.b64decode(block["data"])
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        chunks: dict[bytes, bytes] = {}
        at = 8
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at : at + 8])
            chunks[kind] = data[at + 8 : at + 8 + length]
            [check] = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
            assert check == zlib.crc32(kind + chunks[kind])
            at += 12 + length
        assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
        assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (5, 5)
        assert len(zlib.decompress(chunks[b"IDAT"])) == 5 * (1 + 5 * 3)

    run(demo_app(), script)


def test_the_weather_is_the_same_for_one_city() -> None:
    async def script(host: Host) -> None:
        first = (await host.call("weather", {"city": "Paris"}))["structuredContent"]
        second = (await host.call("weather", {"city": " paris"}))["structuredContent"]
        assert (first["sky"], first["celsius"]) == (second["sky"], second["celsius"])
        assert (await host.said("weather", {"city": ""}))[1]

    run(demo_app(), script)


def test_the_prompt_and_its_completion() -> None:
    async def script(host: Host) -> None:
        result = await host.ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada", "style": "formal"}})
        assert result["messages"][0]["content"]["text"] == "Write one formal sentence that greets Ada."
        params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "style", "value": "f"}}
        assert (await host.ask("completion/complete", params))["completion"]["values"] == ["formal", "friendly"]

    run(demo_app(), script)


def test_the_resources_and_the_template() -> None:
    async def script(host: Host) -> None:
        [text] = (await host.ask("resources/read", {"uri": "demo://readme"}))["contents"]
        assert text["mimeType"] == "text/markdown"
        assert text["text"].startswith("# The mcpx demo server")
        [blob] = (await host.ask("resources/read", {"uri": "demo://square.png"}))["contents"]
        assert base64.b64decode(blob["blob"]).startswith(b"\x89PNG")
        [hello] = (await host.ask("resources/read", {"uri": "demo://greeting/Ada%20L"}))["contents"]
        assert hello["text"] == "Hello, Ada L!"
        ref = {"type": "ref/resource", "uri": "demo://greeting/{name}"}
        params = {"ref": ref, "argument": {"name": "name", "value": "a"}}
        assert (await host.ask("completion/complete", params))["completion"]["values"] == ["Ada", "Alan"]

    run(demo_app(), script)


def test_a_program_has_it_by_its_name() -> None:
    async def ask() -> bytes:
        own = {meta.PROTOCOL_VERSION: LATEST_MODERN, meta.CLIENT_CAPABILITIES: {}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": own}}
        async with BUILTINS["demo"]() as channel:
            await channel.send(json.dumps(request).encode())
            [answer] = await channel.receive()
        assert isinstance(answer, bytes)
        return answer

    assert json.loads(trio.run(ask))["result"]["tools"][0]["name"] == "echo"


def test_it_is_not_loaded_until_it_is_opened() -> None:
    program = "import sys, mcpx.demo\nsys.exit(any(name.startswith('mcpx.app') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
