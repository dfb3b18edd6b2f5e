"""POSTs that stand alone: those of the modern era, and those of legacy hosts without a session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import UnknownItem, UpstreamError
from mcpx.host.http.reply import STREAM_AFTER, TICK
from mcpx.spec.headers import ParamHeader
from mcpx.spec.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, SUPPORTED, V2025_03_26, V2025_06_18
from tests.support.running import in_virtual_time
from tests.unit.host.http.desk import (
    CALL,
    Desk,
    HttpGateway,
    code,
    modern,
    modern_headers,
    open_desk,
    progress,
    settled,
)
from tests.unit.host.talk import TEXT

if TYPE_CHECKING:
    from msgspec import Raw

REGION = ParamHeader("Region", ("region",))
CALL_TO = {"name": "one__echo", "arguments": {"region": "eu"}}


async def replying(gateway: HttpGateway, payload: Raw = TEXT) -> None:
    """Answer the call that comes next."""
    await settled()
    gateway.calls[-1].reply(payload)


@in_virtual_time
async def test_an_answer_that_comes_soon_is_json_and_opens_no_session() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = desk.start_modern("é", "tools/call", CALL, mcp_session_id="whatever")
        await replying(gateway)
        await sent.done.wait()
        assert (sent.status, sent.response.headers) == (200, {"content-type": "application/json"})
        assert sent.frame["id"] == "é"
        assert sent.frame["result"]["resultType"] == "complete"
        assert desk.endpoint.session_count == 0


@in_virtual_time
async def test_an_answer_after_progress_is_a_stream() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL, meta={"progressToken": "t"})
        await settled()
        assert not sent.response.started
        gateway.calls[0].put(progress(1))
        await settled()
        assert sent.is_stream
        assert sent.response.headers["x-accel-buffering"] == "no"
        gateway.calls[0].reply()
        await sent.done.wait()
        assert [frame.get("method", "result") for frame in sent.frames] == ["notifications/progress", "result"]
        assert sent.ids == [None, None]  # there is nothing to resume
        assert "mcp-session-id" not in sent.response.headers


@in_virtual_time
async def test_an_answer_that_takes_its_time_is_a_stream_that_is_kept_alive() -> None:
    gateway = HttpGateway(keep_alive=15.0)
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL)
        await settled()
        await trio.sleep(STREAM_AFTER + TICK)
        assert (sent.is_stream, sent.comments) == (True, 1)
        for beats in (2, 3):
            await trio.sleep(15.0 + TICK)
            assert sent.comments == beats
        gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.frame["result"]["content"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("application/json", "json"),
        ("application/json, text/event-stream;q=0", "json"),
        ("text/event-stream;q=0.9, application/json;q=0.1", "json"),
        ("application/*", "json"),
        ("text/event-stream", "stream"),
        ("application/json;q=0, text/event-stream", "stream"),
        ("text/*", "stream"),
        ("text/html", "neither"),
        ("application/json;q=0, text/event-stream;q=0", "neither"),
        ("*/*;q=0", "neither"),
    ],
)
@in_virtual_time
async def test_the_form_is_one_that_the_client_takes(accept: str | None, form: str) -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.modern(1, "server/discover", accept=accept)
        if form == "neither":
            assert sent.status == 406
            assert sent.response.headers["content-type"].startswith("text/plain")
        else:
            assert sent.status == 200
            assert sent.is_stream == (form == "stream")
            assert sent.frame["result"]["supportedVersions"] == list(SUPPORTED)


@in_virtual_time
async def test_who_takes_json_alone_waits_for_it_however_long_and_goes_without_progress() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL, meta={"progressToken": 1}, accept="application/json")
        await settled()
        gateway.calls[0].put(progress(1))
        await trio.sleep(100)
        assert not sent.response.started
        gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.response.headers == {"content-type": "application/json"}
        assert sent.frame["result"]["content"]


@in_virtual_time
async def test_a_status_is_said_even_to_who_would_rather_have_a_stream() -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.modern(1, "ping", accept="text/event-stream")
        assert code(sent) == (404, -32601)


OTHER = "2099-01-01"
# What the header and the body name, and what comes of it for a request, as status and error code.
VERSIONS: list[tuple[str | None, str | None, tuple[int, int | None]]] = [
    (LATEST_MODERN, LATEST_MODERN, (200, None)),
    (None, LATEST_MODERN, (400, -32020)),
    (LATEST_MODERN, None, (400, -32602)),
    (OTHER, None, (400, -32022)),
    ("", None, (400, -32022)),
    ("nonsense", None, (400, -32022)),
    (OTHER, OTHER, (400, -32022)),
    (None, OTHER, (400, -32022)),
    (OTHER, LATEST_MODERN, (400, -32020)),
    (LATEST_MODERN, OTHER, (400, -32020)),
    (LATEST_LEGACY, LATEST_MODERN, (400, -32020)),
    (LATEST_MODERN, LATEST_LEGACY, (400, -32020)),
    (LATEST_LEGACY, LATEST_LEGACY, (400, -32022)),
    (None, LATEST_LEGACY, (400, -32022)),
]


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize(("header", "body", "expected"), VERSIONS)
@in_virtual_time
async def test_header_and_body_name_a_version_together(
    header: str | None, body: str | None, expected: tuple[int, int | None], session: bool
) -> None:
    async with open_desk(HttpGateway()) as desk:
        frame = modern(7, "tools/list", meta={PROTOCOL_VERSION: body})
        if body is None:
            del frame["params"]["_meta"]
        headers = modern_headers(frame) | {"mcp-protocol-version": header}
        if session:
            headers["mcp-session-id"] = (await desk.open()).id
        sent = await desk.ask("POST", frame, headers, revision=LATEST_MODERN)
        assert (sent.status, sent.frame.get("error", {}).get("code")) == expected
        assert sent.frame["id"] == 7
        if expected[1] == -32022:
            assert sent.frame["error"]["data"] == {"supported": list(SUPPORTED), "requested": header or body or ""}


@pytest.mark.parametrize(
    ("id", "said"), [(b"null", None), (b"1.5", None), (b"[]", None), (b'"x"', "x"), (b"0", 0)], ids=str
)
@in_virtual_time
async def test_a_mismatch_names_no_id_that_is_none(id: bytes, said: Any) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"method":"ping","params":{"_meta":{"%b":"2030-01-01","%b":{}}}}'
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask(
            "POST",
            body % (id, PROTOCOL_VERSION.encode(), CLIENT_CAPABILITIES.encode()),
            {"mcp-protocol-version": LATEST_MODERN},
            revision=LATEST_MODERN,
        )
        assert code(sent) == (400, -32020)
        assert sent.frame.get("id") == said
        assert ("id" in sent.frame) == (said is not None)


@pytest.mark.parametrize(
    ("method", "params", "headers", "expected"),
    [
        ("tools/list", {}, {"mcp_method": None}, (400, -32020)),
        ("tools/list", {}, {"mcp_method": "tools/call"}, (400, -32020)),
        ("tools/list", {}, {"mcp_method": "TOOLS/LIST"}, (400, -32020)),
        ("tools/call", CALL, {"mcp_name": None}, (400, -32020)),
        ("tools/call", CALL, {"mcp_name": "two__echo"}, (400, -32020)),
        ("tools/call", CALL, {"mcp_name": "=?base64?%%%?="}, (400, -32020)),
        ("prompts/get", {"name": "a"}, {"mcp_name": "b"}, (400, -32020)),
        ("resources/read", {"uri": "file:///a"}, {"mcp_name": "file:///b"}, (400, -32020)),
        ("ping", {}, {}, (404, -32601)),
        ("no/such", {}, {}, (404, -32601)),
        ("initialize", {"protocolVersion": LATEST_LEGACY}, {}, (404, -32601)),
        ("initialize", {"protocolVersion": LATEST_LEGACY}, {"mcp_method": None}, (400, -32020)),
    ],
)
@in_virtual_time
async def test_what_is_refused_and_how(method: str, params: Any, headers: Any, expected: tuple[int, int]) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = await desk.modern(3, method, params, **headers)
        assert code(sent) == expected
        assert sent.frame["id"] == 3
        assert gateway.calls == []
        assert desk.endpoint.session_count == 0


@in_virtual_time
async def test_initialize_without_an_envelope_under_a_modern_header_is_no_method() -> None:
    async with open_desk(HttpGateway()) as desk:
        frame = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LATEST_LEGACY}}
        sent = await desk.ask("POST", frame, {"mcp-protocol-version": LATEST_MODERN}, revision=LATEST_MODERN)
        assert code(sent) == (404, -32601)
        assert desk.endpoint.session_count == 0


@pytest.mark.parametrize(
    "meta", [{CLIENT_CAPABILITIES: None}, {CLIENT_CAPABILITIES: 1}, {PROTOCOL_VERSION: 7}], ids=str
)
@in_virtual_time
async def test_a_broken_envelope_is_a_bad_request(meta: Any) -> None:
    async with open_desk(HttpGateway()) as desk:
        assert code(await desk.modern(1, "tools/list", meta=meta)) == (400, -32602)


@in_virtual_time
async def test_an_error_of_the_call_itself_is_an_answer_like_others() -> None:
    gateway = HttpGateway(UnknownItem("tool", "one__echo"))
    async with open_desk(gateway) as desk:
        assert code(await desk.modern(1, "tools/call", CALL)) == (200, -32602)
        assert code(await desk.modern(2, "tools/call", {})) == (200, -32602)


# -- parameters in headers


@pytest.mark.parametrize(
    ("value", "status"), [("eu", 200), ("=?base64?ZXU=?=", 200), (None, 400), ("us", 400), ("=?base64?eu?=", 400)]
)
@in_virtual_time
async def test_a_declared_parameter_is_held_against_its_argument(value: str | None, status: int) -> None:
    gateway = HttpGateway()
    gateway.declared = (REGION,)
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL_TO, mcp_param_region=value, mcp_param_else="not looked at")
        await settled()
        if status == 200:
            gateway.calls[0].reply()
        await sent.done.wait()
        assert sent.status == status
        if status == 400:
            assert code(sent) == (400, -32020)
            assert "Mcp-Param-Region" in sent.frame["error"]["message"]
            assert gateway.calls == []
        assert set(gateway.mirrored_for) == {"one__echo"}


@in_virtual_time
async def test_only_calls_of_tools_with_a_name_are_looked_up() -> None:
    gateway = HttpGateway(UpstreamError("one", "it is down"))
    async with open_desk(gateway) as desk:
        assert code(await desk.modern(1, "tools/call", {"arguments": {}})) == (200, -32603)
        assert code(await desk.modern(1, "prompts/get", {"name": "a"})) == (200, -32603)
        assert gateway.mirrored_for == []


@in_virtual_time
async def test_the_end_does_not_forget_who_waits_for_the_list_of_tools() -> None:
    gateway = HttpGateway()
    gateway.mirroring = trio.Event()
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL_TO)
        await settled()
        began = trio.current_time()
        await desk.endpoint.drain()
        assert trio.current_time() - began == pytest.approx(5.0 - 2.0 - 0.5)
        await sent.done.wait()
        assert code(sent) == (503, -32603)
        assert "stopping" in sent.frame["error"]["message"]


# -- scopes


@in_virtual_time
async def test_each_post_is_a_scope_of_its_own_for_ids() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        ids = [0, "0", 0, "0", 0]
        sents = [desk.start_modern(id, "tools/call", CALL) for id in ids]
        await settled()
        for call in gateway.calls:
            call.reply()
        for sent in sents:
            await sent.done.wait()
        assert [sent.frame["id"] for sent in sents] == ids
        assert all(sent.frame["result"] for sent in sents)


@pytest.mark.parametrize("when", ["before anything was said", "amidst a stream", "while its client does not read"])
@in_virtual_time
async def test_hanging_up_cancels_once_and_at_once(when: str) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL, meta={"progressToken": 1})
        await settled()
        other = desk.start_modern(1, "tools/call", CALL)
        await settled()
        if when != "before anything was said":
            gateway.calls[0].put(progress(1))
            await settled()
        if when == "while its client does not read":
            sent.response.stuck = trio.Event()
            gateway.calls[0].put(progress(2))
            await settled()
        sent.hang_up()
        await settled()
        assert [call.state for call in gateway.calls] == ["cancelled", "open"]
        assert len(desk.service.conversations) == 1
        gateway.calls[1].reply()
        await other.done.wait()
        assert other.frame["result"]


@in_virtual_time
async def test_hanging_up_while_the_tools_are_looked_up_ends_it() -> None:
    gateway = HttpGateway()
    gateway.mirroring = trio.Event()
    async with open_desk(gateway) as desk:
        sent = desk.start_modern(1, "tools/call", CALL_TO)
        await settled()
        sent.hang_up()
        await settled()
        assert desk.service.conversations == []
        assert gateway.calls == []


# -- notifications


@pytest.mark.parametrize("header", [LATEST_MODERN, LATEST_LEGACY, V2025_03_26, None])
@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
    ],
    ids=str,
)
@in_virtual_time
async def test_what_asks_for_nothing_gets_202_and_nothing_else(header: str | None, frame: Any) -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", frame, {"mcp-protocol-version": header})
        assert (sent.status, sent.response.body, sent.response.headers) == (202, b"", {})


@pytest.mark.parametrize(
    ("header", "named", "method"),
    [("2099-01-01", None, None), (LATEST_MODERN, LATEST_LEGACY, None), (LATEST_MODERN, None, "notifications/other")],
)
@in_virtual_time
async def test_a_notification_that_cannot_be_accepted_gets_no_error_but_a_status(
    header: str, named: str | None, method: str | None
) -> None:
    gateway = HttpGateway(passthrough=True)  # which would have relayed it
    meta = {"_meta": {PROTOCOL_VERSION: named}} if named else {}
    frame = {"jsonrpc": "2.0", "method": "notifications/mine", "params": meta}
    async with open_desk(gateway) as desk:
        sent = await desk.ask("POST", frame, {"mcp-protocol-version": header, "mcp-method": method})
        assert sent.status == 400
        assert sent.response.headers["content-type"].startswith("text/plain")


# -- legacy hosts without a session


@pytest.mark.parametrize("header", [None, *LEGACY])
@in_virtual_time
async def test_a_legacy_host_without_a_session_is_served_as_its_header_says(header: str | None) -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
        sent = desk.start("POST", frame, {"mcp-protocol-version": header}, revision=header or V2025_03_26)
        await replying(gateway)
        await sent.done.wait()
        assert (sent.status, sent.response.headers) == (200, {"content-type": "application/json"})
        assert "resultType" not in sent.frame["result"]
        assert gateway.calls[0].request.revision == (header or V2025_03_26)


@in_virtual_time
async def test_a_batch_without_a_session() -> None:
    """Its answers come as one, with the refusals among them, behind what is said meanwhile."""
    gateway = HttpGateway()
    ask = {"jsonrpc": "2.0", "method": "tools/call", "params": CALL | {"_meta": {"progressToken": 1}}}
    batch = [
        {**ask, "id": 1},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**ask, "id": 1},
        {**ask, "id": "1"},
        {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 10, "method": "tools/list", "params": {"_meta": {PROTOCOL_VERSION: LATEST_MODERN}}},
        7,
    ]
    async with open_desk(gateway) as desk:
        sent = desk.start("POST", batch)
        await settled()
        gateway.calls[0].put(progress(1))
        for call in gateway.calls:
            call.reply()
        await sent.done.wait()
        said, answers = sent.frames
        assert said["method"] == "notifications/progress"
        got = sorted(f"{json.dumps(one['id'])} {one.get('error', {}).get('code', 'ok')}" for one in answers)
        # the envelope of the modern one lacks a key, which is -32602
        assert got == ['"1" ok', "1 -32600", "1 ok", "10 -32602", "9 -32600", "null -32600"]


@pytest.mark.parametrize("header", [V2025_06_18, LATEST_LEGACY, LATEST_MODERN])
@in_virtual_time
async def test_no_batch_in_any_other_revision(header: str) -> None:
    async with open_desk(HttpGateway()) as desk:
        batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]
        sent = await desk.ask("POST", batch, {"mcp-protocol-version": header}, revision=header)
        assert code(sent) == (400, -32600)


@in_virtual_time
async def test_a_batch_of_notifications_alone_gets_202() -> None:
    async with open_desk(HttpGateway()) as desk:
        sent = await desk.ask("POST", [{"jsonrpc": "2.0", "method": "initialized"}] * 2)
        assert (sent.status, sent.response.body) == (202, b"")


@in_virtual_time
async def test_a_batch_whose_requests_it_cancels_itself_ends_without_an_answer() -> None:
    gateway = HttpGateway()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with open_desk(gateway) as desk:
        sent = await desk.ask("POST", [call, cancel])
        assert (sent.status, sent.is_stream, sent.frames) == (200, True, [])
        sent = await desk.ask("POST", [call, cancel], {"accept": "application/json"})
        assert (sent.status, sent.response.body) == (202, b"")


@in_virtual_time
async def test_hanging_up_cancels_what_no_session_owns() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        sent = desk.start("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
        await settled()
        sent.hang_up()
        await settled()
        assert gateway.calls[0].state == "cancelled"


# -- the end


async def _drained(desk: Desk) -> None:
    await desk.endpoint.drain()


@in_virtual_time
async def test_at_the_end_nothing_new_is_let_in_and_what_is_owed_gets_its_time() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk, trio.open_nursery() as nursery:
        soon = desk.start_modern(1, "tools/call", CALL)
        await settled()
        old = desk.start("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
        await settled()
        never = desk.start_modern(2, "tools/call", CALL)
        await settled()
        nursery.start_soon(_drained, desk)
        await settled()
        assert code(await desk.modern(3, "server/discover")) == (503, -32603)
        late = await desk.ask("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert late.frame["error"]["code"] == -32603
        assert (await desk.ask("POST", {"jsonrpc": "2.0", "method": "initialized"})).status == 202
        gateway.calls[0].reply()
        gateway.calls[1].reply()
        await soon.done.wait()
        await old.done.wait()
        assert soon.frame["result"]
        assert old.frame["result"]
        await never.done.wait()
        assert never.frame["error"]["code"] == -32603
        assert never.frame["id"] == 2
        assert gateway.calls[2].state == "cancelled"
