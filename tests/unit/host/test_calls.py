"""Calls: what reaches the gateway, what becomes of its events, and errors in the host's own codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import RpcError, UnknownItem, UpstreamError, UpstreamGone
from mcpx.spec.meta import SERVER_INFO
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
)
from mcpx.upstream.call import Identity, InputRequired, Progress, Reply
from tests.unit.host.talk import FakeGateway, Talk, open_talk, raw

MESSAGE = Progress({"progress": Raw(b"0.50"), "total": Raw(b"1.0"), "message": Raw(b'"half"')})


async def opened(talk: Talk, revision: str) -> str | None:
    """Let the host speak a revision; what ``Talk.ask`` wants for it."""
    if revision == LATEST_MODERN:
        return revision
    await talk.shake(revision)
    return None


async def test_a_request_reaches_the_gateway_without_its_metadata() -> None:
    gateway = FakeGateway(Reply(raw({"content": []}), V2025_06_18, "one"))
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_06_18, capabilities={"sampling": {}})
        await talk.write(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"z":1.0,"name":"n",'
            b'"arguments":{"a":12345678901234567890},"_meta":{"progressToken":1,"traceparent":"00-1"}}}'
        )
        await talk.hear()
        [call] = gateway.calls
        request = call.request
        assert (request.method, request.revision) == ("tools/call", V2025_06_18)
        assert list(request.params.items()) == [
            ("z", Raw(b"1.0")),
            ("name", Raw(b'"n"')),
            ("arguments", Raw(b'{"a":12345678901234567890}')),
        ]
        assert request.meta == {"traceparent": Raw(b'"00-1"')}
        assert request.asker.capabilities == {"sampling": Raw(b"{}")}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read", "completion/complete"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_an_upstream_answers_is_one_request_of_the_gateway(method: str, revision: str) -> None:
    payloads: dict[str, Any] = {
        "tools/call": {"content": []},
        "prompts/get": {"messages": []},
        "resources/read": {"contents": []},
        "completion/complete": {"completion": {"values": []}},
    }
    gateway = FakeGateway(Reply(raw(payloads[method]), V2025_06_18, "one"))
    async with open_talk(gateway) as talk:
        modern = await opened(talk, revision)
        await talk.ask(1, method, {"name": "n"}, revision=modern)
        result = (await talk.hear())["result"]
        assert [call.request.method for call in gateway.calls] == [method]
        assert payloads[method].items() <= result.items()
        assert ("resultType" in result) == (modern is not None)
        assert ("ttlMs" in result) == ("cacheScope" in result) == (modern is not None and method == "resources/read")


@pytest.mark.parametrize("revision", LEGACY)
async def test_between_revisions_alike_the_bytes_are_the_upstreams_own(revision: str) -> None:
    payload = b'{"z": 1.0, "content":[ {"type":"text","text":"\\u0041","n":12345678901234567890}],"_meta":{"a/b":1e2}}'
    gateway = FakeGateway(Reply(Raw(payload), revision, "one"))
    async with open_talk(gateway) as talk:
        await talk.shake(revision)
        await talk.call(7)
        await talk.hear()
        assert talk.heard[-1] == b'{"jsonrpc":"2.0","id":7,"result":' + payload + b"}"


async def test_a_modern_result_names_mcpx_and_is_otherwise_the_upstreams_own() -> None:
    payload = {"resultType": "complete", "content": [], "own": 1, "_meta": {"x.org/y": 1, SERVER_INFO: {"name": "up"}}}
    gateway = FakeGateway(Reply(raw(payload), LATEST_MODERN, "one"))
    async with open_talk(gateway) as talk:
        await talk.call(1, LATEST_MODERN)
        result = (await talk.hear())["result"]
        assert result["_meta"].pop(SERVER_INFO)["name"] == "mcpx"
        assert result == payload | {"_meta": {"x.org/y": 1}}


@pytest.mark.parametrize("known", [True, False])
async def test_a_modern_result_names_the_one_server_that_shines_through(known: bool) -> None:
    gateway = FakeGateway(Reply(raw({"content": []}), V2025_06_18, "one"), passthrough=True)
    if known:
        gateway.said = Identity(raw({"name": "shining", "version": "9"}))
    else:
        gateway.identity_error = UpstreamError("one", "It is gone.")  # after it had answered: the answer counts
    async with open_talk(gateway) as talk:
        await talk.call(1, LATEST_MODERN)
        result = (await talk.hear())["result"]
        assert result["_meta"][SERVER_INFO]["name"] == ("shining" if known else "mcpx")


async def test_a_result_is_said_as_the_hosts_revision_has_it() -> None:
    gateway = FakeGateway(
        Reply(
            raw({"resultType": "complete", "content": [], "structuredContent": {"a": 1}, "_meta": {SERVER_INFO: {}}}),
            LATEST_MODERN,
            "one",
        )
    )
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_03_26)
        await talk.call(1)
        result = (await talk.hear())["result"]
        assert result == {"content": [{"type": "text", "text": '{"a": 1}'}]}


@pytest.mark.parametrize("token", ["1", '"1"', "12345678901234567890", '"\\u00e9"'])
async def test_progress_goes_to_the_token_as_it_was_written(token: str) -> None:
    gateway = FakeGateway(MESSAGE, Reply(raw({"content": []}), V2025_11_25, "one"))
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_11_25)
        await talk.write(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","_meta":{"progressToken":%b}}}'
            % token.encode()
        )
        await talk.hear()
        assert (await talk.hear())["id"] == 1
        assert talk.heard[-2] == (
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
            b'{"progressToken":%b,"progress":0.50,"total":1.0,"message":"half"}}' % token.encode()
        )


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_has_a_message_where_the_revision_has(revision: str) -> None:
    gateway = FakeGateway(MESSAGE)
    async with open_talk(gateway) as talk:
        modern = await opened(talk, revision)
        await talk.call(1, modern, progressToken="t")
        params = (await talk.hear())["params"]
        assert (params["progressToken"], params["progress"], params["total"]) == ("t", 0.5, 1.0)
        assert ("message" in params) == (revision != V2024_11_05)
        gateway.calls[0].reply(raw({"content": []}))


async def test_each_progress_goes_to_its_own_request_and_none_without_a_token() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY)
        await talk.call(1, progressToken=5)
        await talk.call(2, progressToken="5")
        await talk.call(3)
        await trio.testing.wait_all_tasks_blocked()
        for number, call in enumerate(gateway.calls):
            call.put(Progress({"progress": raw(number)}))
        frames = await talk.hear_all()
        told = sorted((str(frame["params"]["progress"]), frame["params"]["progressToken"]) for frame in frames)
        assert told == [("0", 5), ("1", "5")]


async def test_progress_goes_forward_alone() -> None:
    """Its value must increase with each notification: what goes back, or stands still, is not told."""
    steps = [b"1", b"0.5", b"1.0", b"2", b"-3", b"2.5"]
    gateway = FakeGateway(*(Progress({"progress": Raw(step)}) for step in steps))
    async with open_talk(gateway) as talk:
        await talk.call(1, LATEST_MODERN, progressToken=1)
        assert [frame["params"]["progress"] for frame in await talk.hear_all()] == [1, 2, 2.5]


async def test_progress_of_a_cancelled_request_is_not_told() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1, progressToken=5)
        await trio.testing.wait_all_tasks_blocked()
        await talk.notify("notifications/cancelled", {"requestId": 1})
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(MESSAGE)
        assert await talk.hear_all() == []


async def test_reserved_keys_in_the_metadata_of_progress_stay_behind() -> None:
    meta = raw({SERVER_INFO: {}, "io.modelcontextprotocol/subscriptionId": 1, "x.org/y": 2})
    gateway = FakeGateway(Progress({"progress": Raw(b"1"), "_meta": meta}))
    async with open_talk(gateway) as talk:
        await talk.call(1, LATEST_MODERN, progressToken=1)
        assert (await talk.hear())["params"]["_meta"] == {"x.org/y": 2}


async def test_input_required_for_a_host_that_does_not_take_it_is_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    gateway = FakeGateway(InputRequired((), Raw(b'"s"'), LATEST_MODERN, "one"))
    async with open_talk(gateway) as talk:
        await talk.call(1)
        assert (await talk.hear())["error"]["code"] == -32603
        assert "LocalProtocolError" in caplog.text


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("kind", "legacy"), [("tool", -32602), ("prompt", -32602), ("resource", -32002)])
async def test_an_unknown_item_has_the_revisions_own_code(revision: str, kind: str, legacy: int) -> None:
    gateway = FakeGateway(UnknownItem(kind, "it"))
    async with open_talk(gateway) as talk:
        modern = await opened(talk, revision)
        await talk.ask(1, "resources/read", {"uri": "it"}, revision=modern)
        error = (await talk.hear())["error"]
        assert error["code"] == (-32602 if modern else legacy)
        assert "it" in error["message"]
        assert error.get("data") == ({"uri": "it"} if kind == "resource" else None)


async def test_an_upstreams_error_passes_with_its_data_as_written() -> None:
    gateway = FakeGateway(RpcError(-32050, "odd", Raw(b'{"a":1.0,"b":null}'), revision=V2025_11_25, server="one"))
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_11_25)
        await talk.call(1)
        await talk.hear()
        assert talk.heard[-1] == (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"odd","data":{"a":1.0,"b":null}}}'
        )


async def test_an_upstreams_error_is_said_as_the_hosts_revision_has_it() -> None:
    gateway = FakeGateway(RpcError(-32002, "gone", revision=V2025_11_25, server="one"))
    async with open_talk(gateway) as talk:
        await talk.ask(1, "resources/read", {"uri": "x"}, revision=LATEST_MODERN)
        assert (await talk.hear())["error"]["code"] == -32602


async def test_what_befell_an_upstream_is_told_with_its_name() -> None:
    gateway = FakeGateway(UpstreamGone("one", "It exited with status 3; its last words were: boom"))
    async with open_talk(gateway) as talk:
        await talk.call(1)
        error = (await talk.hear())["error"]
        assert error["code"] == -32603
        assert error["data"] == {"server": "one", "reason": "It exited with status 3; its last words were: boom"}
        assert json.dumps(error).count("boom") == 2
