"""Questions over HTTP: on which stream a legacy host is asked, and rounds of modern ones across POSTs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from msgspec import Raw

from mcpx.spec.meta import CLIENT_CAPABILITIES
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_11_25
from mcpx.upstream.call import InputRequired, Question, Reply, Unasked, Withdrawn
from tests.unit.host.http.desk import CALL, Desk, HttpGateway, open_desk, settled
from tests.unit.host.talk import TEXT

if TYPE_CHECKING:
    from tests.unit.host.http.desk import Client, Sent

FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ACCEPTED = {"action": "accept", "content": {}}
CAPS = {"elicitation": {}, "roots": {}}
REPLY = Reply(TEXT, LATEST_LEGACY, "one")


def question(key: str = "k") -> Question:
    said = {name: Raw(json.dumps(value).encode()) for name, value in FORM.items()}
    return Question(key, "elicitation/create", said, LATEST_LEGACY)


def asked(sent: Sent) -> list[Any]:
    """The questions on a stream so far."""
    return [frame for frame in sent.frames if frame.get("method") == "elicitation/create"]


async def answer(client: Client, id: Any) -> int:
    """The status of what answers a question."""
    sent = client.post({"jsonrpc": "2.0", "id": id, "result": ACCEPTED})
    await sent.done.wait()
    await settled()
    return sent.status


async def test_a_legacy_host_is_asked_on_the_stream_of_the_call_and_answers_by_another_post() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_11_25, capabilities=CAPS)
        standing = client.get()
        other = client.call(1)
        await settled()
        sent = client.call(2)
        await settled()
        gateway.calls[1].put(question())
        await settled()
        [one] = asked(sent)
        assert (asked(other), asked(standing)) == ([], [])
        assert await answer(client, one["id"]) == 202
        assert gateway.calls[1].answers == [("k", ACCEPTED, LATEST_LEGACY)]
        assert await answer(client, one["id"]) == 202  # once more, which answers nothing
        assert len(gateway.calls[1].answers) == 1
        for call in gateway.calls:
            call.reply()
        await sent.done.wait()
        await other.done.wait()
        assert sent.frames[-1]["id"] == 2


async def test_another_session_cannot_answer() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_11_25, capabilities=CAPS)
        stranger = await desk.open(V2025_11_25, capabilities=CAPS)
        sent = client.call(1)
        await settled()
        gateway.calls[0].put(question())
        await settled()
        [one] = asked(sent)
        assert await answer(stranger, one["id"]) == 202
        assert gateway.calls[0].answers == []
        gateway.calls[0].reply()
        await sent.done.wait()


async def test_a_question_is_withdrawn_on_its_own_stream() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_11_25, capabilities=CAPS)
        sent = client.call(1)
        await settled()
        gateway.calls[0].put(question(), Withdrawn("k"))
        await settled()
        [one] = asked(sent)
        [note] = [frame for frame in sent.frames if frame.get("method") == "notifications/cancelled"]
        assert note["params"]["requestId"] == one["id"]
        gateway.calls[0].reply()
        await sent.done.wait()


async def test_a_client_that_comes_back_for_the_stream_finds_the_question() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_11_25, capabilities=CAPS)
        sent = client.call(1)
        await settled()
        gateway.calls[0].put(question("a"))
        await settled()
        [first] = asked(sent)
        last = sent.ids[-1]
        sent.hang_up()
        gateway.calls[0].put(question("b"))
        await settled()
        back = client.resume(last)
        await settled()
        [second] = asked(back)
        for one in (second, first):
            assert await answer(client, one["id"]) == 202
        assert [key for key, _, _ in gateway.calls[0].answers] == ["b", "a"]
        gateway.calls[0].reply()
        await back.done.wait()


async def test_the_end_of_the_session_is_the_end_of_its_questions() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_11_25, capabilities=CAPS)
        client.call(1)
        await settled()
        gateway.calls[0].put(question())
        await settled()
        await client.delete()
        await settled()
        assert gateway.calls[0].state == "cancelled"


def outside(host: str, answers: list[Any]) -> Unasked:
    over = trio.Event()

    def settle(outcome: Any, revision: str) -> None:
        answers.append(outcome)
        over.set()

    return Unasked("one", host, question(), settle, over)


async def test_between_calls_a_host_is_asked_on_its_standing_stream_and_without_one_not_at_all() -> None:
    gateway = HttpGateway()
    async with open_desk(gateway) as desk:
        client = await desk.open(V2025_11_25, capabilities=CAPS)
        host = client.session.conversation.host
        answers: list[Any] = []
        assert not gateway.desks.ask(outside(host, answers))
        standing = client.get()
        await settled()
        assert gateway.desks.ask(outside(host, answers))
        await settled()
        [one] = asked(standing)
        assert await answer(client, one["id"]) == 202
        assert [json.loads(bytes(outcome)) for outcome in answers] == [ACCEPTED]


async def test_a_legacy_host_without_a_session_is_asked_nothing() -> None:
    gateway = HttpGateway(question(), REPLY)
    async with open_desk(gateway) as desk:
        sent = await desk.ask("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
        assert sent.frame["result"]["content"]
        assert [outcome for _, outcome, _ in gateway.calls[0].answers] == [{"action": "cancel"}]


# -- modern hosts


async def modern(desk: Desk, id: int, more: Any = None, **headers: Any) -> Sent:
    sent = start(desk, id, more, **headers)
    await sent.done.wait()
    return sent


def start(desk: Desk, id: int, more: Any = None, **headers: Any) -> Sent:
    params = {**CALL, **(more or {})}
    return desk.start_modern(id, "tools/call", params, meta={CLIENT_CAPABILITIES: CAPS}, **headers)


def retry(sent: Sent, key: str = "k") -> dict[str, Any]:
    return {"requestState": sent.frame["result"]["requestState"], "inputResponses": {key: ACCEPTED}}


async def test_a_parked_call_outlives_its_post_and_another_one_goes_on_with_it() -> None:
    gateway = HttpGateway(question())
    async with open_desk(gateway) as desk:
        first = await modern(desk, 1)
        assert first.status == 200
        assert first.frame["result"]["inputRequests"] == {"k": {"method": "elicitation/create", "params": FORM}}
        await settled()
        [call] = gateway.calls
        assert call.state == "open"
        assert not call.request.asker.lasting
        second = start(desk, 1, retry(first))
        await settled()
        assert call.answers == [("k", ACCEPTED, LATEST_MODERN)]
        call.reply()
        await second.done.wait()
        assert second.frame["result"]["resultType"] == "complete"


async def test_hanging_up_the_retry_cancels_the_call() -> None:
    gateway = HttpGateway(question())
    async with open_desk(gateway) as desk:
        first = await modern(desk, 1)
        second = start(desk, 2, retry(first))
        await settled()
        second.hang_up()
        await settled()
        assert gateway.calls[0].state == "cancelled"
        third = await modern(desk, 3, retry(first))
        assert (third.status, third.frame["error"]["code"]) == (200, -32602)


async def test_a_client_that_lost_the_connection_may_repeat_the_retry_before_that_shows() -> None:
    gateway = HttpGateway(question())
    async with open_desk(gateway) as desk:
        first = await modern(desk, 1)
        lost, again = start(desk, 2, retry(first)), start(desk, 3, retry(first))
        await settled()
        lost.hang_up()
        await settled()
        assert gateway.calls[0].state == "open"
        gateway.calls[0].reply()
        await again.done.wait()
        assert again.frame["result"]["resultType"] == "complete"


@pytest.mark.parametrize("source", ["modern", "legacy"])
async def test_whoever_shows_other_credentials_cannot_use_a_state(source: str) -> None:
    required = InputRequired((question(),), Raw(b'"s"'), LATEST_MODERN, "one")
    gateway = HttpGateway(required if source == "modern" else question())
    async with open_desk(gateway) as desk:
        first = await modern(desk, 1, authorization="Bearer one")
        for other in (None, "Bearer two"):
            refused = await modern(desk, 2, retry(first), authorization=other)
            assert refused.frame["error"]["code"] == -32602
        gateway.script = (REPLY,)
        good = start(desk, 3, retry(first), authorization="Bearer one")
        await settled()
        gateway.calls[-1].put(REPLY)
        await good.done.wait()
        assert good.frame["result"]["resultType"] == "complete"
