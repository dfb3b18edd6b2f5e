"""One connection: ids, concurrency, cancellation, bounds, bad input, and bugs that end one request only."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import trio
import trio.testing

from mcpx.errors import RpcError
from mcpx.spec.revisions import LATEST_MODERN, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25
from mcpx.transports.channel import Oversize
from mcpx.upstream.call import Reply
from tests.unit.host.talk import TEXT, FakeGateway, open_talk, raw

REPLY = Reply(TEXT, LATEST_MODERN, "one")


def cancelled(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}}


async def test_requests_run_side_by_side() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        first, second = gateway.calls
        second.reply()
        assert (await talk.hear())["id"] == 2
        first.reply()
        assert (await talk.hear())["id"] == 1


@pytest.mark.parametrize(
    "id", ["0", '"0"', "-1", "9007199254740993", '""', '"é"', '"\\u00e9\\n"', "12345678901234567890"]
)
async def test_an_id_is_echoed_as_it_was_written(id: str) -> None:
    async with open_talk(FakeGateway(REPLY)) as talk:
        await talk.write(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id.encode())
        await talk.hear()
        assert talk.heard == [b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id.encode()]


async def test_a_number_and_its_string_are_two_requests() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1)
        await talk.call("1")
        await trio.testing.wait_all_tasks_blocked()
        await talk.say(cancelled("1"))
        await trio.testing.wait_all_tasks_blocked()
        assert [call.state for call in gateway.calls] == ["open", "cancelled"]
        gateway.calls[0].reply()
        assert [frame["id"] for frame in await talk.hear_all()] == [1]


@pytest.mark.parametrize("id", ["null", "1.5", "true", "{}", "[1]"])
async def test_an_id_that_is_none_is_refused(id: str) -> None:
    async with open_talk(FakeGateway(REPLY)) as talk:
        await talk.write(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id.encode())
        frame = await talk.hear()
        assert frame["error"]["code"] == -32600
        assert frame["id"] is None
        await talk.ask(1, "ping")
        assert (await talk.hear())["result"] == {}


async def test_an_id_in_flight_is_refused_and_free_again_afterwards() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(7)
        await talk.call(7)
        frame = await talk.hear()
        assert frame["id"] == 7
        assert frame["error"]["code"] == -32600
        assert len(gateway.calls) == 1
        gateway.calls[0].reply()
        assert "result" in await talk.hear()
        await talk.call(7)
        await trio.testing.wait_all_tasks_blocked()
        assert len(gateway.calls) == 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello", -32700),
        (b'{"jsonrpc":"2.0","id":1,', -32700),
        (b'{"jsonrpc":"2.0","method":"x\xff"}', -32700),
        (b'"text"', -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"1.0","method":"ping"}', -32600),
        (b"[" * 100_000, -32700),
    ],
)
async def test_what_is_no_frame_gets_an_error_and_the_connection_goes_on(line: bytes, code: int) -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.write(line)
        frame = await talk.hear()
        assert frame["error"]["code"] == code
        assert frame["id"] is None
        await talk.ask(1, "ping")
        assert (await talk.hear())["result"] == {}


async def test_a_malformed_request_is_answered_under_its_id() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.write(
            b'{"jsonrpc":"2.0","id":"a","method":7}', b'{"jsonrpc":"2.0","id":5,"method":"ping","result":1}'
        )
        codes = {frame["id"]: frame["error"]["code"] for frame in await talk.hear_all()}
        assert codes == {"a": -32600, 5: -32600}


@pytest.mark.parametrize(
    ("revision", "says_null"),
    [(V2024_11_05, True), (V2025_03_26, True), (V2025_06_18, True), (V2025_11_25, False), (LATEST_MODERN, False)],
)
async def test_an_unknown_id_is_left_out_where_the_schema_lets_it(revision: str, says_null: bool) -> None:
    async with open_talk(FakeGateway()) as talk:
        if revision == LATEST_MODERN:
            await talk.ask(1, "server/discover", revision=revision)
            await talk.hear()
        else:
            await talk.shake(revision)
        await talk.write(b"noise")
        frame = await talk.hear()
        assert ("id" in frame) == says_null
        assert frame.get("id") is None


async def test_responses_and_notifications_are_never_answered() -> None:
    async with open_talk(FakeGateway()) as talk:
        await talk.say(
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
            {"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "method": "initialized"},
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
            {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "x"}},
            {"jsonrpc": "2.0", "method": "no/such"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}},
            cancelled(99),
        )
        assert await talk.hear_all() == []


async def test_a_cancelled_request_is_cancelled_upstream_and_never_answered() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        await talk.say(cancelled(1), cancelled(1))
        await trio.testing.wait_all_tasks_blocked()
        assert [call.state for call in gateway.calls] == ["cancelled", "open"]
        gateway.calls[0].reply()
        gateway.calls[1].reply()
        assert [frame["id"] for frame in await talk.hear_all()] == [2]
        await talk.call(1)
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[2].reply()
        assert (await talk.hear())["id"] == 1


async def test_requests_that_come_together_go_on_in_their_order() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        for id in range(20):
            await talk.ask(id, "tools/call", {"name": str(id)})
        await trio.testing.wait_all_tasks_blocked()
        assert [call.request.params["name"] for call in gateway.calls] == [raw(str(id)) for id in range(20)]
        for call in gateway.calls:
            call.reply()


async def test_a_cancellation_that_comes_together_with_its_request_finds_it() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1)
        await talk.say(cancelled(1))
        await talk.ask(2, "ping")
        assert [frame["id"] for frame in await talk.hear_all()] == [2]
        assert [call.state for call in gateway.calls] == ["cancelled"]


async def test_an_initialize_is_not_cancelled() -> None:
    gateway = FakeGateway()
    release = trio.Event()
    identity = gateway.identity

    async def slow(asker: Any) -> Any:
        await release.wait()
        return await identity(asker)

    gateway.identity = slow  # type: ignore[method-assign]
    async with open_talk(gateway) as talk:
        await talk.ask(1, "initialize", {"protocolVersion": V2025_11_25})
        await talk.say(cancelled(1))
        assert await talk.hear_all() == []
        release.set()
        assert (await talk.hear())["result"]["protocolVersion"] == V2025_11_25


async def test_too_many_requests_are_refused_and_cancellations_still_get_through() -> None:
    gateway = FakeGateway(max_in_flight=2)
    async with open_talk(gateway) as talk:
        for id in (1, 2, 3):
            await talk.call(id)
        frame = await talk.hear()
        assert frame["id"] == 3
        assert frame["error"]["code"] == -32603
        assert "2" in frame["error"]["message"]
        await talk.say(cancelled(1))
        await trio.testing.wait_all_tasks_blocked()
        await talk.call(4)
        await trio.testing.wait_all_tasks_blocked()
        assert [call.state for call in gateway.calls] == ["cancelled", "open", "open"]
        assert await talk.hear_all() == []


async def test_requests_that_were_cancelled_make_room_for_what_comes_right_behind() -> None:
    """All in one read, so that the cancelled ones have had no turn to end when the next request is looked at."""
    gateway = FakeGateway(max_in_flight=3)
    async with open_talk(gateway) as talk:
        for id in range(3):
            await talk.call(id)
        await trio.testing.wait_all_tasks_blocked()
        for id in range(3):
            await talk.say(cancelled(id))
        for id in range(3, 7):
            await talk.call(id)
        frames = await talk.hear_all()
        assert [frame["id"] for frame in frames] == [6]  # which is one too many
        assert [call.state for call in gateway.calls] == ["cancelled"] * 3 + ["open"] * 3


async def test_a_batch_that_cancels_its_own_requests_holds_nothing_up() -> None:
    gateway = FakeGateway(max_in_flight=2)
    async with open_talk(gateway) as talk:
        await talk.shake(V2025_03_26)
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "one__echo"}}
        members = [*({"id": id} | call for id in (1, 2)), *map(cancelled, (1, 2)), {"id": 3} | call]
        await talk.say(members)
        await talk.call(4)
        await trio.testing.wait_all_tasks_blocked()
        assert [call.state for call in gateway.calls if call.state != "cancelled"] == ["open"]
        frames = await talk.hear_all()
        assert [[one["id"] for one in frame] for frame in frames] == [[3]]


async def test_a_host_that_does_not_read_is_still_read_and_costs_bounded_memory() -> None:
    """Answers wait for it, each with its request still in flight; a cancellation gets through and ends the waiting."""
    gateway = FakeGateway(REPLY, max_in_flight=3)
    async with open_talk(gateway, listens=False, max_pending=10) as talk:
        for id in range(4):
            await talk.call(id)
        await trio.testing.wait_all_tasks_blocked()
        assert len(gateway.calls) == 4
        for id in range(4, 7):
            await talk.call(id)  # the first answer went into the pipe; two are refused, but cannot be told yet
        await trio.testing.wait_all_tasks_blocked()
        served = len(gateway.calls)
        assert served == 4
        await talk.say(cancelled(1))
        await trio.testing.wait_all_tasks_blocked()
        await talk.call(8)
        await trio.testing.wait_all_tasks_blocked()
        assert len(gateway.calls) == served + 1
        heard = await talk.catch_up()
        assert sorted(frame["id"] for frame in heard) == [0, 2, 3, 4, 5, 6, 8]
        assert sorted(frame["id"] for frame in heard if "error" in frame) == [4, 5, 6]


async def test_of_an_idle_host_no_message_is_held() -> None:
    """Its last one may be large, and it may never say anything again."""
    async with open_talk(FakeGateway()) as talk:
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 100_000}}).encode()
        held = sys.getrefcount(line)
        await talk.write(line)
        assert (await talk.hear())["id"] == 1
        await trio.testing.wait_all_tasks_blocked()
        assert sys.getrefcount(line) == held


async def test_a_bug_ends_its_own_request_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(ZeroDivisionError("a secret of the house"))
        frame = await talk.hear()
        assert frame == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}
        assert "ZeroDivisionError" in caplog.text
        assert gateway.calls[0].state == "done"
        gateway.calls[1].reply()
        assert "result" in await talk.hear()


async def test_a_group_answers_with_what_it_holds() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        await talk.call(1)
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(ExceptionGroup("all", [ExceptionGroup("inner", [RpcError(-5, "five")])]))
        assert (await talk.hear())["error"] == {"code": -5, "message": "five"}


async def test_a_failure_while_being_cancelled_is_no_answer() -> None:
    gateway = FakeGateway()

    async def fails(asker: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("on the way out")

    gateway.identity = fails  # type: ignore[method-assign]
    async with open_talk(gateway) as talk:
        await talk.ask(1, "server/discover")
        await trio.testing.wait_all_tasks_blocked()
        await talk.say(cancelled(1))
        assert await talk.hear_all() == []
        await talk.ask(2, "ping")
        assert (await talk.hear())["id"] == 2


async def test_an_oversize_request_gets_an_error_where_it_is_known_whose_it_is() -> None:
    gateway = FakeGateway(max_frame=4096)
    async with open_talk(gateway) as talk:
        whole = b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"a":"' + b"x" * 9000 + b'"}}'
        await _send_oversize(talk, whole)
        frame = await talk.hear()
        assert frame["id"] == "big"
        assert frame["error"]["code"] == -32600
        assert str(len(whole)) in frame["error"]["message"]
        await talk.ask(1, "ping")
        assert (await talk.hear())["id"] == 1


async def test_an_oversize_response_is_passed_over() -> None:
    async with open_talk(FakeGateway(max_frame=4096)) as talk:
        await _send_oversize(talk, b'{"jsonrpc":"2.0","id":1,"result":{"a":"' + b"x" * 9000 + b'"}}')
        await talk.ask(1, "ping")
        assert (await talk.hear())["id"] == 1


async def test_an_oversize_message_of_nobody_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    gateway = FakeGateway(max_frame=4096)
    async with open_talk(gateway) as talk:
        await _send_oversize(talk, b"x" * 9000)
        frame = await talk.hear()
        assert frame["id"] is None
        assert "9000" in frame["error"]["message"]
        await talk.ended.wait()
        assert "9000" in caplog.text


async def _send_oversize(talk: Any, message: bytes) -> None:
    """Memory channels have no framing, so the message comes as what a framer leaves of it."""
    outbox = talk.channel._outbox
    outbox.put_nowait(Oversize(len(message), message[:4096], message[-4096:]))
    await trio.testing.wait_all_tasks_blocked()
