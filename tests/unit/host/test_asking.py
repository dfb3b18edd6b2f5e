"""Questions for legacy hosts: asked while the call runs, or between calls; answered, refused, withdrawn, left open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import RpcError
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
)
from mcpx.upstream.call import Question, Unasked, Withdrawn
from tests.support.running import in_virtual_time
from tests.unit.host.talk import FakeGateway, Talk, open_talk, raw

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.host.talk import FakeCall

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
VISIT = {"mode": "url", "message": "There", "url": "https://example.org/x"}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hm"}}], "maxTokens": 5}
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
PUT_AWAY = {"action": "cancel"}
ACCEPTED = {"action": "accept", "content": {"name": "x"}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "so"}, "model": "m"}


def question(params: dict[str, Any], key: str = "k", method: str = "elicitation/create", **how: Any) -> Question:
    said = {name: raw(value) for name, value in params.items()}
    return Question(key, method, said, how.get("revision", LATEST_LEGACY))


async def answer(talk: Talk, id: Any, **outcome: Any) -> None:
    await talk.say({"jsonrpc": "2.0", "id": id, **outcome})
    await trio.testing.wait_all_tasks_blocked()


async def under_way(talk: Talk, gateway: FakeGateway, revision: str = LATEST_LEGACY, **caps: Any) -> FakeCall:
    """A call of a host that has declared all, or these."""
    await talk.shake(revision, capabilities=caps or ALL)
    await talk.call(1)
    await trio.testing.wait_all_tasks_blocked()
    return gateway.calls[-1]


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("elicitation/create", FORM, ACCEPTED),
        ("elicitation/create", FORM, {"action": "decline"}),
        ("elicitation/create", FORM, PUT_AWAY),
        ("elicitation/create", {**VISIT, "elicitationId": "the server's"}, {"action": "accept"}),
        ("sampling/createMessage", SAMPLE, SAMPLED),
        ("roots/list", {}, {"roots": [{"uri": "file:///x"}]}),
    ],
)
async def test_what_is_asked_is_a_request_and_its_answer_goes_to_the_call(
    method: str, params: dict[str, Any], said: dict[str, Any]
) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(params, method=method))
        asked = await talk.hear()
        assert (asked["method"], asked["id"]) == (method, "mcpx-1")
        assert asked.get("params", {}) == params
        await answer(talk, asked["id"], result=said)
        assert call.answers == [("k", said, LATEST_LEGACY)]
        call.reply()
        assert (await talk.hear())["id"] == 1


async def test_an_error_is_an_answer() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(SAMPLE, method="sampling/createMessage"))
        asked = await talk.hear()
        await answer(talk, asked["id"], error={"code": -1, "message": "The user said no", "data": {"why": 1}})
        [(_, error, _)] = call.answers
        assert (error.code, error.message, bytes(error.data)) == (-1, "The user said no", b'{"why": 1}')
        assert error.revision == LATEST_LEGACY
        call.reply()


async def test_two_that_are_open_at_once_are_two_and_answered_in_any_order() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM, "a"), question({}, "b", "roots/list"))
        first, second = await talk.hear(), await talk.hear()
        assert first["id"] != second["id"]
        await answer(talk, second["id"], result={"roots": []})
        await answer(talk, first["id"], result=ACCEPTED)
        assert [key for key, _, _ in call.answers] == ["b", "a"]
        call.reply()


async def test_questions_of_two_calls_are_told_apart() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        one = await under_way(talk, gateway)
        await talk.call(2)
        await trio.testing.wait_all_tasks_blocked()
        two = gateway.calls[-1]
        one.put(question(FORM))
        first = await talk.hear()
        two.put(question(FORM))
        second = await talk.hear()
        await answer(talk, second["id"], result={"action": "decline"})
        await answer(talk, first["id"], result=ACCEPTED)
        assert one.answers == [("k", ACCEPTED, LATEST_LEGACY)]
        assert two.answers == [("k", {"action": "decline"}, LATEST_LEGACY)]
        one.reply()
        two.reply()


async def test_what_the_server_withdraws_is_withdrawn_and_a_late_answer_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = FakeGateway()
    with caplog.at_level("INFO", "mcpx.host"):
        async with open_talk(gateway) as talk:
            call = await under_way(talk, gateway)
            call.put(question(FORM))
            asked = await talk.hear()
            call.put(Withdrawn("k"), Withdrawn("nothing"))
            note = await talk.hear()
            assert (note["method"], note["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
            await answer(talk, asked["id"], result=ACCEPTED)
            assert call.answers == []
            call.reply()
    assert "ignored 1 responses" in caplog.text


async def test_an_answered_question_is_not_withdrawn() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM))
        await answer(talk, (await talk.hear())["id"], result=ACCEPTED)
        call.put(Withdrawn("k"))
        call.reply()
        assert [frame.get("id") for frame in await talk.hear_all()] == [1]


@pytest.mark.parametrize("how", ["cancelled", "answered"])
async def test_what_is_open_when_the_call_is_over_is_withdrawn(how: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM))
        asked = await talk.hear()
        if how == "cancelled":
            await talk.notify("notifications/cancelled", {"requestId": 1})
        else:
            call.reply()
        frames = await talk.hear_all()
        withdrawn = [frame["params"]["requestId"] for frame in frames if "method" in frame]
        assert withdrawn == [asked["id"]]
        assert call.state == ("cancelled" if how == "cancelled" else "done")


async def test_a_host_that_leaves_leaves_no_call_behind() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM))
        await talk.hear()
    assert call.state == "cancelled"


@pytest.mark.parametrize(
    ("revision", "caps", "method", "params", "source"),
    [
        (V2025_11_25, {"sampling": {}}, "elicitation/create", FORM, LATEST_LEGACY),
        (V2025_11_25, {"elicitation": {"url": {}}}, "elicitation/create", FORM, LATEST_LEGACY),
        (V2025_11_25, {"elicitation": {}}, "elicitation/create", VISIT, LATEST_MODERN),
        (V2025_11_25, {"sampling": {}}, "sampling/createMessage", {**SAMPLE, "tools": []}, LATEST_LEGACY),
        (V2025_06_18, {"elicitation": {"url": {}}}, "elicitation/create", VISIT, LATEST_MODERN),
        (V2025_03_26, {"elicitation": {}}, "elicitation/create", FORM, LATEST_LEGACY),
        (V2024_11_05, {"roots": {}}, "sampling/createMessage", SAMPLE, V2024_11_05),
    ],
)
async def test_what_a_host_cannot_be_asked_is_refused_and_the_call_goes_on(
    revision: str, caps: Any, method: str, params: Any, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway, revision, **caps)
        call.put(question(params, method=method, revision=source))
        await trio.testing.wait_all_tasks_blocked()
        [(key, outcome, _)] = call.answers
        assert key == "k"
        assert outcome == PUT_AWAY if method == "elicitation/create" else isinstance(outcome, RpcError)
        call.reply()
        assert (await talk.hear())["id"] == 1
    assert "was refused" in caplog.text


async def test_a_visit_to_a_url_is_named_where_the_server_has_not_done_so() -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(*(question(VISIT, key, revision=LATEST_MODERN) for key in "ab"))
        names = [(await talk.hear())["params"]["elicitationId"] for _ in range(2)]
        assert len(set(names)) == 2
        call.reply()


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_question_is_said_as_the_hosts_revision_has_it(revision: str) -> None:
    """Each frame is held against its revision's schema by ``Talk``."""
    both = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway, revision)
        call.put(question({**SAMPLE, "messages": [both]}, method="sampling/createMessage", revision=LATEST_MODERN))
        asked = await talk.hear()
        assert len(asked["params"]["messages"]) == (1 if revision == V2025_11_25 else 2)
        call.reply()


async def test_a_modern_request_that_may_not_ask_asks_nothing() -> None:
    gateway = FakeGateway(question(FORM))
    async with open_talk(gateway) as talk:
        params = {"ref": {"type": "ref/prompt", "name": "one__x"}, "argument": {"name": "a", "value": "b"}}
        await talk.ask(
            1,
            "completion/complete",
            params,
            revision=LATEST_MODERN,
            **{"io.modelcontextprotocol/clientCapabilities": ALL},
        )
        await trio.testing.wait_all_tasks_blocked()
        [call] = gateway.calls
        assert call.answers == [("k", PUT_AWAY, LATEST_MODERN)]
        call.reply(raw({"completion": {"values": []}}))
        assert (await talk.hear())["result"]["completion"] == {"values": []}


@pytest.mark.parametrize("id", ["1", '"1"', '"mcpx-9"', '"mcpx-1x"', "null", "1.5"])
async def test_an_answer_to_nothing_that_is_asked_is_ignored(id: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM))
        await talk.hear()
        await talk.write(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id.encode())
        await trio.testing.wait_all_tasks_blocked()
        assert call.answers == []
        call.reply()


@pytest.mark.parametrize(
    "answer",
    [
        '{"jsonrpc":"2.0","id":"mcpx-1"}',
        '{"jsonrpc":"2.0","id":"mcpx-1","result":{"action":"accept"},"error":{"code":1,"message":"no"}}',
        '{"jsonrpc":"1.0","id":"mcpx-1","result":{"action":"accept"}}',
        '{"jsonrpc":"2.0","id":"mcpx-1","result":{"action":"accept","content":{"n":NaN}}}',
        '{"jsonrpc":"2.0","result":{"action":"accept","content":{"n":1,}},"id":"mcpx-1"}',
    ],
)
async def test_an_answer_that_cannot_be_read_is_none_and_nobody_waits_for_another(answer: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM))
        await talk.hear()
        await talk.write(answer.encode())
        assert (await talk.hear())["error"]["code"] in (-32600, -32700)
        await trio.testing.wait_all_tasks_blocked()
        assert call.answers == [("k", PUT_AWAY, LATEST_LEGACY)]
        call.reply()
        assert (await talk.hear())["id"] == 1


@pytest.mark.parametrize(
    "request_", ['{"jsonrpc":"2.0","id":"mcpx-1","method":7}', '{"jsonrpc":"2.0","id":1,"method":"ping",}', "NaN", "{}"]
)
async def test_what_cannot_be_read_and_is_no_answer_answers_nothing(request_: str) -> None:
    gateway = FakeGateway()
    async with open_talk(gateway) as talk:
        call = await under_way(talk, gateway)
        call.put(question(FORM))
        await talk.hear()
        await talk.write(request_.encode())
        assert (await talk.hear())["error"]["code"] in (-32600, -32700)
        await trio.testing.wait_all_tasks_blocked()
        assert call.answers == []
        call.reply()


# -- outside any call


class Outside:
    """Asks outside any call."""

    def __init__(self, gateway: FakeGateway) -> None:
        self.gateway = gateway
        self.answers: list[Any] = []

    def ask(self, asked: Question, host: str = "test") -> Unasked:
        over = trio.Event()

        def settle(outcome: Raw | RpcError, revision: str) -> None:
            self.answers.append(outcome if isinstance(outcome, RpcError) else json.loads(bytes(outcome)))
            over.set()

        self.unasked = Unasked("one", host, asked, settle, over)
        self.taken = self.gateway.desks.ask(self.unasked)
        return self.unasked


async def outside(play: Callable[[Talk, Outside], Any], *, shaken: bool = True, **limits: Any) -> None:
    gateway = FakeGateway(**limits)
    async with open_talk(gateway) as talk:
        if shaken:
            await talk.shake(LATEST_LEGACY, capabilities={"roots": {}, "elicitation": {}})
        await play(talk, Outside(gateway))


async def test_a_legacy_host_is_asked_at_once_outside_any_call() -> None:
    async def play(talk: Talk, outside: Outside) -> None:
        outside.ask(question({}, method="roots/list"))
        assert outside.taken
        asked = await talk.hear()
        await answer(talk, asked["id"], result={"roots": []})
        assert outside.answers == [{"roots": []}]

    await outside(play)


async def test_a_question_for_another_host_or_one_without_a_handshake_is_not_taken() -> None:
    async def play(talk: Talk, outside: Outside) -> None:
        for host in ("test", "another"):
            outside.ask(question({}, method="roots/list"), host)
            assert not outside.taken
        assert await talk.hear_all() == []

    await outside(play, shaken=False)


async def test_what_was_not_declared_is_refused_outside_any_call_too() -> None:
    async def play(talk: Talk, outside: Outside) -> None:
        outside.ask(question(SAMPLE, method="sampling/createMessage"))
        assert outside.taken
        assert isinstance(outside.answers[0], RpcError)
        assert await talk.hear_all() == []

    await outside(play)


async def test_one_that_is_over_is_withdrawn_outside_any_call_too() -> None:
    async def play(talk: Talk, outside: Outside) -> None:
        outside.ask(question(FORM)).over.set()
        asked, note = await talk.hear(), await talk.hear()
        assert note["params"]["requestId"] == asked["id"]
        await answer(talk, asked["id"], result=ACCEPTED)
        assert outside.answers == []

    await outside(play)


@in_virtual_time
async def test_nobody_waits_for_ever_outside_any_call() -> None:
    async def play(talk: Talk, outside: Outside) -> None:
        outside.ask(question(FORM))
        asked = await talk.hear()
        await trio.sleep(6)
        note = await talk.hear()
        assert note["params"]["requestId"] == asked["id"]
        assert outside.answers == [PUT_AWAY]

    await outside(play, question_timeout=5)


async def test_a_host_that_leaves_answers_nothing_outside_any_call() -> None:
    asked: list[Outside] = []

    async def play(talk: Talk, outside: Outside) -> None:
        asked.append(outside)
        outside.ask(question(FORM))
        await talk.hear()

    await outside(play)
    assert asked[0].answers == [PUT_AWAY]


async def test_an_answer_over_the_limit_is_none() -> None:
    from mcpx.host.desk import Desk

    settled: list[Any] = []
    desk = Desk("h", lambda: LATEST_LEGACY)
    id, _ = desk.ask("sampling/createMessage", {}, settled.append)
    assert not desk.refuse(None, "too big")
    assert not desk.refuse(Raw(b'"another"'), "too big")
    assert desk.refuse(Raw(json.dumps(id).encode()), "too big")
    assert isinstance(settled[0], RpcError)
    assert len(desk) == 0


@pytest.mark.deadline(120)
async def test_pain_10_ten_thousand_cancelled_calls_leave_no_question_behind() -> None:
    gateway = FakeGateway(question(FORM))
    async with open_talk(gateway) as talk:
        await talk.shake(LATEST_LEGACY, capabilities=ALL)
        for start in range(0, 10_000, 500):
            for id in range(start, start + 500):
                await talk.call(id)
            asked = [frame["id"] for frame in await talk.hear_all()]
            assert len(asked) == 500
            for id in range(start, start + 500):
                await talk.notify("notifications/cancelled", {"requestId": id})
            withdrawn = [frame["params"]["requestId"] for frame in await talk.hear_all()]
            assert sorted(withdrawn) == sorted(asked)
            assert {call.state for call in gateway.calls} == {"cancelled"}
            gateway.calls.clear()
        [conversation] = talk.service.conversations
        assert (conversation.in_flight, conversation.asked) == (0, 0)
