"""What ``/mcp`` makes of a request before it is anybody's: methods, versions, bodies."""

from __future__ import annotations

import pytest

from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    V2025_03_26,
    V2025_06_18,
)
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import HttpGateway, code, open_desk, settled


@in_virtual_time
async def test_without_a_session_there_is_neither_get_nor_delete() -> None:
    async with open_desk(HttpGateway()) as desk:
        client = await desk.open()
        for method in ("GET", "DELETE"):
            for headers in (
                {},
                {"mcp-protocol-version": LATEST_MODERN},
                client.headers | {"mcp-protocol-version": LATEST_MODERN},
            ):
                sent = await desk.ask(method, b"", headers)
                assert (sent.status, sent.response.headers["allow"]) == (405, "POST")
                assert b"give the URL that ends in /sse" in sent.response.body
        sent = await desk.ask("PUT")
        assert (sent.status, sent.response.headers["allow"]) == (405, "POST, GET, DELETE")
        assert desk.endpoint.session_count == 1


@pytest.mark.parametrize("version", ["2099-01-01", "", "x"])
@in_virtual_time
async def test_a_version_that_is_not_spoken_is_a_bad_request(version: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open()
        call = client.call(1)
        await settled()
        assert (await client.ask(1, "ping", mcp_protocol_version=version)).status == 400
        cancel = await client.notify("notifications/cancelled", {"requestId": 1}, mcp_protocol_version=version)
        assert cancel.status == 400
        assert (await client.delete(mcp_protocol_version=version)).status == 400
        sent = client.get(mcp_protocol_version=version)
        await sent.done.wait()
        assert sent.status == 400
        gateway.calls[0].reply()
        await call.done.wait()
        assert call.frame["result"]


# -- bodies that are no message

NOTHING_ELSE = {
    b"": -32700,
    b"  ": -32700,
    b"{": -32700,
    b"[": -32700,
    b"\xff": -32700,
    b'{"jsonrpc":"2.0","id":1,"method":"\xff"}': -32700,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}': -32700,
    b"[" * 100_000: -32700,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001: -32700,
    b"1": -32600,
    b"null": -32600,
    b'"ping"': -32600,
    b"{}": -32600,
    b"[]": -32600,
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}': -32600,
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}': -32600,
    b'{"jsonrpc":"2.0","id":true,"method":"ping"}': -32600,
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}': -32600,
}


@pytest.mark.parametrize("how", [None, V2025_03_26, LATEST_LEGACY, LATEST_MODERN, "session"])
@pytest.mark.parametrize("body", NOTHING_ELSE, ids=lambda body: repr(body[:50]))
@in_virtual_time
async def test_bad_bodies_get_the_right_error(body: bytes, how: str | None) -> None:
    """An id that is not known is null where the revision is old or not known, and left out where it is newer."""
    async with open_desk(HttpGateway()) as desk:
        headers = {"mcp-protocol-version": how}
        revision = how or V2025_03_26
        if how == "session":
            headers, revision = (await desk.open(V2025_06_18)).headers, V2025_06_18
        sent = await desk.ask("POST", body, headers, revision=revision)
        assert code(sent) == (400, NOTHING_ELSE[body])
        bare = how in (LATEST_LEGACY, LATEST_MODERN)
        assert sent.frame.get("id", "none") == ("none" if bare else None)


@pytest.mark.parametrize(
    "id", [b"0", b'"0"', b"-1", b"9007199254740993", b"1" * 200, b'"' + b"x" * 100_000 + b'"', b'""']
)
@in_virtual_time
async def test_any_id_comes_back_as_it_was_spelled(id: bytes) -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id)
        assert sent.status == 200
        assert b'"id":%b,' % id in sent.response.body


@in_virtual_time
async def test_a_byte_order_mark_is_no_part_of_a_body() -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert (sent.status, sent.response.body) == (200, b'{"jsonrpc":"2.0","id":1,"result":{}}')


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
@in_virtual_time
async def test_what_a_browser_sends_without_asking_is_no_message(content_type: str | None) -> None:
    async with open_desk(HttpGateway()) as desk:
        frame = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await desk.ask("POST", frame, {"content-type": content_type})).status == 415


@in_virtual_time
async def test_a_content_type_may_have_parameters() -> None:
    async with open_desk(HttpGateway()) as desk:
        frame = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        sent = await desk.ask("POST", frame, {"content-type": "Application/JSON; charset=utf-8"})
        assert sent.frame["result"] == {}
