"""What a careless host says: understood where it can be, never passed on, and never a bug."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.scripted import PROMPT

if TYPE_CHECKING:
    from tests.support.fake_down import Host, Incoming
    from tests.support.stage import Stage

ERAS = [LATEST_LEGACY, LATEST_MODERN]


async def _raw(host: Host, ident: str, method: str, params: str, revision: str | None) -> Incoming:
    """A request with params that are written by hand."""
    asked = host.expect({"id": ident, "method": method}, revision)
    await host.send_raw(f'{{"jsonrpc":"2.0","id":"{ident}","method":"{method}","params":{params}}}\n'.encode())
    return await asked.wait()


@pytest.mark.parametrize(
    "declared",
    [
        '{"extensions":{"a/b":{"x":1e999}}}',
        '{"extensions":{"a/b":{"x":123456789012345678901234567890}}}',
        '{"extensions":{"a/b":5,"c/d":null,"e/f":true}}',
        '{"extensions":[]}',
        '{"extensions":null,"roots":true,"sampling":null,"elicitation":5}',
        '{"extensions":{"\\ud800":{}}}',
    ],
    ids=lambda declared: declared[:50],
)
async def test_bad_capabilities_of_a_host_are_no_bug(stage: Stage, declared: str) -> None:
    """Whatever a host declares, its requests are served, and servers are told only what the schema has."""
    async with stage.mcpx(stage.upstream("one"), stage.upstream("two", LATEST_MODERN)) as host:
        envelope = f'"_meta":{{"{PROTOCOL_VERSION}":"{LATEST_MODERN}","{CLIENT_CAPABILITIES}":{declared}}}'
        for name in ("one__echo", "two__echo"):
            params = f'{{"name":"{name}",{envelope}}}'
            assert (await _raw(host, name, "tools/call", params, LATEST_MODERN)).result["content"]
        opening = f'{{"protocolVersion":"{LATEST_LEGACY}","capabilities":{declared}}}'
        assert (await _raw(host, "init", "initialize", opening, None)).result
        params = '{"name":"one__echo"}'
        assert (await _raw(host, "legacy", "tools/call", params, LATEST_LEGACY)).result["content"]


@pytest.mark.parametrize("revision", ERAS)
async def test_bad_nulls_of_a_host_are_not_passed_on(stage: Stage, revision: str) -> None:
    """Null for params that are left out: nothing of it reaches the server, what no revision defines excepted."""
    one = stage.upstream("one", revision, prompts=[PROMPT], completes={})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.request("tools/call", {"name": "one__echo", "arguments": None, "mine": None})
        await host.request("prompts/get", {"name": "one__greet", "arguments": None})
        ref: dict[str, Any] = {"ref": {"type": "ref/prompt", "name": "one__greet"}, "context": None}
        await host.request("completion/complete", {**ref, "argument": {"name": "a", "value": ""}})
    for method in ("tools/call", "prompts/get", "completion/complete"):
        [line] = one.received(method)
        assert [key for key, value in line.frame["params"].items() if value is None] == (
            ["mine"] if method == "tools/call" else []
        )


async def test_bad_depth_is_an_error_at_whatever_depth(stage: Stage) -> None:
    """However deep a value is that should be a string, around the limit too, that is its own error and no bug."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for depth in range(940, 1000):
            deep = "[" * depth + "]" * depth
            for method, member in (("tools/call", "name"), ("resources/read", "uri"), ("tools/list", "cursor")):
                before = len(host.received)
                frame = {"jsonrpc": "2.0", "id": f"{method} {depth}", "method": method, "params": {member: "DEEP"}}
                host.expect(frame, LATEST_LEGACY)
                await host.send_raw(json.dumps(frame).replace('"DEEP"', deep).encode() + b"\n")
                await host.changes.until(lambda before=before: len(host.received) > before, "an answer")
                assert host.received[-1].code in (-32602, -32700)
