"""What bad input gets: from a host an error, and the connection goes on; from an upstream nothing but its own loss."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, REVISIONS, is_modern
from tests.support.scripted import PROMPT, RESOURCE, TEMPLATE, TOOL

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

KiB = 1024
LIMIT = 64 * KiB
OF_ANY = [None, *REVISIONS]  # before any era is known, and in each revision
NOT_JSON = [b"{", b"hello", b'{"jsonrpc":"2.0","id":1,', b"\x00", b"'x'", b'{"a":1}}', b"{'a':1}", b"NaN"]
NOT_UTF8 = [b"\xff\xfe{", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xe9"}}', b"\xc3"]
NO_MESSAGE = [b"7", b'"text"', b"null", b"true", b"1.5", b"{}", b'{"id":null}', b'{"jsonrpc":"2.0"}']


async def _errors(host: Host, lines: list[bytes]) -> list[int]:
    """The codes of the errors that lines get, one each; afterwards the connection still works."""
    before = len(host.received)
    for line in lines:
        await host.send_raw(line + b"\n")
    await host.changes.until(lambda: len(host.received) >= before + len(lines), f"an error for each of {lines}")
    codes = [one.code for one in host.received[before:]]
    await host.fence()
    return codes


@pytest.mark.parametrize("revision", OF_ANY)
async def test_bad_bytes_of_a_host_are_parse_errors(stage: Stage, revision: str | None) -> None:
    """What is not JSON or not UTF-8 is -32700, without an id or with null as the revision has it."""
    async with stage.mcpx(stage.upstream("one")) as host:
        if revision is not None:
            await host.open(revision)
        assert await _errors(host, NOT_JSON) == [-32700] * len(NOT_JSON)
        assert await _errors(host, NOT_UTF8) == [-32700] * len(NOT_UTF8)
        assert await host.names() == ["one__echo"]


@pytest.mark.parametrize("revision", OF_ANY)
async def test_bad_messages_of_a_host_are_invalid_requests(stage: Stage, revision: str | None) -> None:
    """JSON that is no JSON-RPC message is -32600, and the connection goes on."""
    async with stage.mcpx(stage.upstream("one")) as host:
        if revision is not None:
            await host.open(revision)
        assert await _errors(host, NO_MESSAGE) == [-32600] * len(NO_MESSAGE)


@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "1.0", "id": 9, "method": "ping"},
        {"id": 9, "method": "ping"},
        {"jsonrpc": 2.0, "id": 9, "method": "ping"},
        {"jsonrpc": "2.0", "id": 9, "method": 7},
        {"jsonrpc": "2.0", "id": 9},
        {"jsonrpc": "2.0", "id": 9, "method": "ping", "result": {}},
    ],
)
async def test_bad_messages_with_an_id_are_answered_to_it(stage: Stage, frame: dict[str, Any]) -> None:
    """Where the id of a malformed request can be read, the -32600 carries it."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.open(LATEST_LEGACY)
        asked = host.expect({"id": 9, "method": "ping"}, LATEST_LEGACY)
        await host.send(frame)
        assert (await asked.wait()).code == -32600
        await host.fence()


@pytest.mark.parametrize("revision", OF_ANY)
async def test_bad_ids_are_invalid_requests(stage: Stage, revision: str | None) -> None:
    """An id that is null, fractional, or no string or number is -32600; the request is not carried out."""
    one = stage.upstream("one")
    async with stage.mcpx(one) as host:
        if revision is not None:
            await host.open(revision)
        _, frame = host.prepare("tools/list")
        ids = ["null", "1.5", "-0.25", "true", "[1]", '{"a":1}', "1e-3"]
        lines = [json.dumps({**frame, "id": "ID"}).replace('"ID"', ident).encode() for ident in ids]
        assert await _errors(host, lines) == [-32600] * len(ids)
    assert one.starts == []


@pytest.mark.parametrize("depth", [1_000, 200_000])
async def test_bad_nesting_harms_nobody(stage: Stage, depth: int) -> None:
    """JSON nested without measure, in params or as a whole line, gets an answer or an error, never a crash."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await host.send_raw(b"[" * depth + b"\n")
        await host.send_raw(b'{"a":' * depth + b"1" + b"}" * depth + b"\n")
        deep = b"[" * depth + b"]" * depth
        params = b'{"name":"one__echo","arguments":{"a":' + deep + b"}}"
        await host.send_raw(b'{"jsonrpc":"2.0","method":"notifications/x","params":' + params + b"}\n")
        await host.fence()
        assert (await host.call("one__echo")).result["content"]
    assert all("error" in stray.frame for stray in host.strays)


async def _oversize(host: Host, line: bytes, ident: Any) -> dict[str, Any]:
    asked = host.expect({"id": ident, "method": "tools/call"}, host.revision)
    await host.send_raw(line + b"\n")
    return (await asked.wait()).error


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_bad_size_of_a_hosts_request_is_its_error(stage: Stage, revision: str) -> None:
    """A request over maxFrame whose id is in its head or its tail gets an error that says so; others go on."""
    async with stage.mcpx(stage.upstream("one"), limits={"maxFrame": LIMIT}) as host:
        await host.open(revision)
        assert await host.names() == ["one__echo"]
        params = json.dumps({"name": "one__echo", "arguments": {"a": "x" * LIMIT}})
        for frame in (
            f'{{"jsonrpc":"2.0","id":"head","method":"tools/call","params":{params}}}',
            f'{{"jsonrpc":"2.0","method":"tools/call","params":{params},"id":"tail"}}',
        ):
            ident = "head" if '"head"' in frame else "tail"
            error = await _oversize(host, frame.encode(), ident)
            assert error["code"] == -32600
            assert str(LIMIT) in error["message"]
        assert (await host.call("one__echo", {"a": "x" * (LIMIT - 500)})).result["content"]
        assert (await host.call("one__echo")).result["content"]


async def test_bad_size_of_what_cannot_be_told_ends_that_connection(stage: Stage) -> None:
    """A line over maxFrame that belongs to no request ends the host's connection, with the reason in error and log."""
    async with stage.mcpx(stage.upstream("one"), limits={"maxFrame": LIMIT}, status=None) as host:
        await host.open(LATEST_LEGACY)
        await host.send_raw(b"x" * (LIMIT + 1) + b"\n")
        await host.wait()
        assert host.strays[0].code == -32600
        assert str(LIMIT) in host.strays[0].error["message"]
        assert str(LIMIT) in host.log


async def test_bad_size_at_the_very_limit_passes(stage: Stage) -> None:
    """A message of exactly maxFrame bytes passes; one byte more does not."""
    async with stage.mcpx(stage.upstream("one"), limits={"maxFrame": LIMIT}) as host:
        await host.open(LATEST_LEGACY)
        for size, passes in ((LIMIT, True), (LIMIT + 1, False)):
            head = b'{"jsonrpc":"2.0","id":"s","method":"ping","params":{"_meta":{"x":"'
            line = head + b"x" * (size - len(head) - 4) + b'"}}}'
            assert len(line) == size
            asked = host.expect({"id": "s", "method": "ping"}, LATEST_LEGACY)
            await host.send_raw(line + b"\n")
            answer = await asked.wait()
            assert ("result" in answer.frame) is passes


async def test_bad_size_of_an_upstreams_answer_is_its_requests_error(stage: Stage) -> None:
    """A result over maxFrame is an error that names the server and the limit; the server is used on."""
    tools = [TOOL, {**TOOL, "name": "big"}]
    one = stage.upstream("one", tools=tools, calls={"big": [{"big": 2 * LIMIT}]})
    async with stage.mcpx(one, limits={"maxFrame": LIMIT}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        other = await host.start("tools/call", {"name": "one__echo"})
        error = (await host.call("one__big")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"
        assert "maxFrame" in error["data"]["reason"]
        assert (await other.wait()).result["content"]
        assert (await host.call("one__echo")).result["content"]
    assert len(one.starts) == 1


async def test_bad_size_of_an_upstreams_noise_ends_it_alone(stage: Stage) -> None:
    """A line over maxFrame that belongs to no request closes that upstream with the reason; it is started again."""
    noise = [{"stdout": '{"method":"notifications/x",' + "x" * (2 * LIMIT) + "\n"}]
    one = stage.upstream("one", tools=[TOOL, {**TOOL, "name": "loud"}], calls={"loud": noise})
    two = stage.upstream("two")
    async with stage.mcpx(one, two, limits={"maxFrame": LIMIT}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        error = (await host.call("one__loud")).error
        assert error["data"]["server"] == "one"
        assert "maxFrame" in error["data"]["reason"]
        assert "one" in await host.logged("maxFrame")
        assert (await host.call("two__echo")).result["content"]
        assert (await host.call("one__echo")).result["content"]
    assert (len(one.starts), len(two.starts)) == (2, 1)


async def test_bad_numbers_of_requests_are_refused_at_once(stage: Stage) -> None:
    """Beyond maxInFlight a request is an error at once, reading goes on, and a cancellation makes room."""
    one = stage.upstream("one", tools=[TOOL, {**TOOL, "name": "never"}], calls={"never": []})
    async with stage.mcpx(one, limits={"maxInFlight": 4}) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        calls = [await host.start("tools/call", {"name": "one__never"}) for _ in range(4)]
        refused = await host.call("one__echo")
        assert refused.code == -32603
        assert "4" in refused.error["message"]
        await host.cancel(calls[0])
        await one.got("notifications/cancelled")
        assert (await host.call("one__echo")).result["content"]


async def test_bad_names_get_the_code_of_the_revision(stage: Stage) -> None:
    """A tool, prompt or resource that nobody has: -32602, and for a resource -32002 up to 2025-11-25."""
    one = stage.upstream("one", prompts=[PROMPT], resources=[RESOURCE], templates=[TEMPLATE], completes={})
    ref = {"ref": {"type": "ref/prompt", "name": "one__no"}, "argument": {"name": "a", "value": ""}}
    async with stage.mcpx(one) as host:
        for revision in REVISIONS:
            await host.open(revision)
            for method, params in [
                ("tools/call", {"name": "one__no"}),
                ("tools/call", {"name": "echo"}),
                ("tools/call", {}),
                ("tools/call", {"name": 7}),
                ("prompts/get", {"name": "one__no"}),
                ("completion/complete", ref),
                ("resources/read", {}),
            ]:
                assert (await host.request(method, params)).code == -32602, (method, params)
            for uri in ("mcpx://one/no:/such", "mcpx://no/file:///notes.txt", "no:/such", ""):
                missing = await host.request("resources/read", {"uri": uri})
                assert missing.code == (-32602 if is_modern(revision) else -32002)
            assert (await host.request("no/such")).code == -32601


@pytest.mark.parametrize("host_revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_bad_upstreams_are_told_and_the_others_work(stage: Stage, host_revision: str) -> None:
    """No such command, an exit at once, no answer ever: log and error say which and why, with the last words."""
    exits = stage.upstream("exits", onStart=[{"stderr": "usage: exits FILE\n"}, {"exit": 64}])
    mute = stage.upstream(
        "mute",
        on={"server/discover": [], "initialize": [{"stderr": "thinking...\n"}]},
        entry={"limits": {"startTimeout": 0.8, "probeDelay": 0.2}},
    )
    nowhere = {"command": str(stage.folder / "not" / "there")}
    async with stage.mcpx(exits, mute, stage.upstream("one"), servers={"nowhere": nowhere}) as host:
        await host.open(host_revision)
        assert await host.names() == ["one__echo"]
        expected = {
            "exits": ["64", "usage: exits FILE"],
            "mute": ["0.8"],
            "nowhere": [nowhere["command"]],
        }
        for name, words in expected.items():
            reason = (await host.call(f"{name}__echo")).error["data"]["reason"]
            for word in words:
                assert word in reason
                await host.changes.until(
                    lambda name=name, word=word: any(name in line and word in line for line in host.log.splitlines()),
                    f"{word!r} in the log of {name}",
                )
        await host.logged("thinking...")
        assert (await host.call("one__echo")).result["content"]
