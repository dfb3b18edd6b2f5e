"""Questions for modern hosts: results that ask, retries that answer, and everything that a state is refused for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamGone
from mcpx.spec.codes import URL_ELICITATION_REQUIRED
from mcpx.spec.meta import SERVER_INFO
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_11_25
from mcpx.upstream.call import InputRequired, LogMessage, Progress, Question, Reply, Withdrawn
from tests.unit.host.talk import TEXT, FakeGateway, Talk, open_talk, raw

if TYPE_CHECKING:
    from tests.unit.host.talk import FakeCall

CAPS = "io.modelcontextprotocol/clientCapabilities"
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ACCEPTED = {"action": "accept", "content": {"name": "x"}}
STATE = Raw(b'"\\u0041 \\/ state"')
ECHO = {"name": "one__echo", "arguments": {"x": 1.0}}
REPLY = Reply(TEXT, LATEST_LEGACY, "one")


def question(key: str, revision: str = LATEST_LEGACY, method: str = "elicitation/create", **params: Any) -> Question:
    said = params or (FORM if method == "elicitation/create" else {})
    return Question(key, method, {name: raw(value) for name, value in said.items()}, revision)


def asks(*keys: str, state: Raw | None = STATE) -> InputRequired:
    return InputRequired(tuple(question(key, LATEST_MODERN) for key in keys), state, LATEST_MODERN, "one")


async def call(talk: Talk, id: Any, method: str = "tools/call", params: Any = None, **more: Any) -> Any:
    """The whole answer to a call of a host that can be asked everything; ``more`` is what a retry adds."""
    await begin(talk, id, method, params, **more)
    return await talk.hear()


async def begin(talk: Talk, id: Any, method: str = "tools/call", params: Any = None, **more: Any) -> None:
    await talk.ask(id, method, {**(ECHO if params is None else params), **more}, revision=LATEST_MODERN, **{CAPS: ALL})
    await trio.testing.wait_all_tasks_blocked()


def state_of(answer: Any) -> dict[str, Any]:
    return {"requestState": answer["result"]["requestState"]}


def answered(*keys: str, **more: Any) -> dict[str, Any]:
    return {"inputResponses": {**dict.fromkeys(keys, ACCEPTED), **more}}


def outcomes(call: FakeCall) -> dict[str, Any]:
    assert {revision for _, _, revision in call.answers} <= {LATEST_MODERN}
    return {key: outcome for key, outcome, _ in call.answers}


# -- a modern upstream


async def test_what_a_modern_server_asks_is_passed_on_and_its_state_comes_back_byte_for_byte() -> None:
    gateway = FakeGateway(asks("its key", "another"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        result = first["result"]
        assert result["resultType"] == "input_required"
        assert result["inputRequests"] == {
            key: {"method": "elicitation/create", "params": FORM} for key in ("its key", "another")
        }
        assert result["_meta"][SERVER_INFO]["name"] == "mcpx"
        assert "state" not in result["requestState"]
        gateway.script = (REPLY,)
        last = await call(talk, 2, **state_of(first), **answered("its key"))
        assert last["result"]["resultType"] == "complete"
        one, two = gateway.calls
        assert one.request.takes_input_required
        assert (one.request.resumes, one.request.state) == (None, None)
        assert two.request.takes_input_required
        assert bytes(two.request.state or b"") == bytes(STATE)
        assert {key: json.loads(bytes(value)) for key, value in (two.request.resumes or {}).items()} == {
            "its key": ACCEPTED
        }
        assert two.request.params == one.request.params
        assert gateway.expected == [None, "one"]
        assert len(gateway.parking) == 0


async def test_without_a_state_of_its_own_none_is_given_out() -> None:
    gateway = FakeGateway(asks("k", state=None))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        assert "requestState" not in first["result"]
        gateway.script = (REPLY,)
        await call(talk, 2, **answered("k"))
        assert list(gateway.calls[1].request.resumes or {}) == ["k"]
        assert gateway.calls[1].request.state is None


async def test_a_state_without_questions_is_passed_on() -> None:
    gateway = FakeGateway(asks())
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        assert "inputRequests" not in first["result"]
        gateway.script = (REPLY,)
        await call(talk, 2, **state_of(first))
        assert (gateway.calls[1].request.resumes, bytes(gateway.calls[1].request.state or b"")) == (None, bytes(STATE))


async def test_roots_are_asked_without_params() -> None:
    asked = InputRequired((question("r", LATEST_MODERN, "roots/list"),), None, LATEST_MODERN, "one")
    async with open_talk(FakeGateway(asked)) as talk:
        first = await call(talk, 1)
        assert first["result"]["inputRequests"] == {"r": {"method": "roots/list"}}


async def test_a_server_that_asks_what_was_not_declared_has_given_no_answer() -> None:
    async with open_talk(FakeGateway(asks("k"))) as talk:
        await talk.ask(1, "tools/call", ECHO, revision=LATEST_MODERN, **{CAPS: {"roots": {}}})
        error = (await talk.hear())["error"]
        assert (error["code"], error["data"]["server"]) == (-32603, "one")
        assert "elicitation" in error["message"]


# -- states


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"requestState": "made up"}, "not the one"),
        ({"requestState": 1}, "must be a string"),
        ({"inputResponses": []}, "must be an object"),
        ({"arguments": {"x": 2}}, "not the one"),
        ({"name": "one__other"}, "not the one"),
        ({"method": "prompts/get"}, "not the one"),
    ],
)
@pytest.mark.parametrize("source", ["modern", "legacy"])
async def test_a_state_is_good_for_its_request_alone(source: str, change: dict[str, Any], message: str) -> None:
    gateway = FakeGateway(asks("k") if source == "modern" else question("k"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        change = dict(change)
        method = change.pop("method", "tools/call")
        error = (await call(talk, 2, method, {**ECHO, **state_of(first), **answered("k"), **change}))["error"]
        assert error["code"] == -32602
        assert message in error["message"]
        assert len(gateway.calls) == 1


async def test_a_state_is_good_for_its_caller_alone() -> None:
    gateway = FakeGateway(asks("k"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        text = first["result"]["requestState"]
        bound = gateway.sealer.bind("tools/call", {name: raw(value) for name, value in ECHO.items()}, "another host")
        with pytest.raises(RpcError, match="not the one"):
            gateway.sealer.open(text, bound, 0)


async def test_a_state_expires() -> None:
    gateway = FakeGateway(asks("k"), question_timeout=0.001)
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        await trio.sleep(0.01)
        error = (await call(talk, 2, **state_of(first), **answered("k")))["error"]
        assert error["code"] == -32602
        assert "expired" in error["message"]


# -- a legacy upstream


async def test_a_legacy_servers_call_is_parked_and_the_retry_goes_on_with_it() -> None:
    gateway = FakeGateway(question("a"), question("b", method="roots/list"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        assert first["result"]["inputRequests"] == {
            "a": {"method": "elicitation/create", "params": FORM},
            "b": {"method": "roots/list"},
        }
        [parked] = gateway.calls
        assert parked.state == "open"
        await begin(talk, 2, **state_of(first), **answered("a", b={"roots": []}, unknown={}))
        assert outcomes(parked) == {"a": ACCEPTED, "b": {"roots": []}}
        parked.reply()
        last = await talk.hear()
        assert (last["id"], last["result"]["content"]) == (2, [{"type": "text", "text": "hello"}])
        assert parked.state == "done"
        assert gateway.calls == [parked]


async def test_a_result_that_came_meanwhile_is_the_answer_to_the_retry() -> None:
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        gateway.calls[0].put(Withdrawn("a"), REPLY)
        await trio.testing.wait_all_tasks_blocked()
        last = await call(talk, 2, **state_of(first), **answered("a"))
        assert last["result"]["resultType"] == "complete"
        again = await call(talk, 3, **state_of(first), **answered("a"))
        assert again["error"]["code"] == -32602


async def test_a_question_that_was_withdrawn_before_the_host_heard_of_it_is_none() -> None:
    async with open_talk(FakeGateway(question("a"), Withdrawn("a"), REPLY)) as talk:
        assert (await call(talk, 1))["result"]["resultType"] == "complete"


async def test_a_result_that_came_with_the_question_is_the_answer() -> None:
    async with open_talk(FakeGateway(question("a"), REPLY)) as talk:
        assert (await call(talk, 1))["result"]["resultType"] == "complete"


async def test_what_is_asked_in_short_order_is_asked_together() -> None:
    """As over HTTP each question of a server comes in a message of its own."""
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        await begin(talk, 1)
        gateway.calls[0].put(Progress({"progress": Raw(b"1")}), question("b"))
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(question("c"), Withdrawn("a"))
        first = await talk.hear()
        assert list(first["result"]["inputRequests"]) == ["b", "c"]
        await begin(talk, 2, **state_of(first), **answered("b", "c"))
        gateway.calls[0].put(question("d"))
        await trio.testing.wait_all_tasks_blocked()
        gateway.calls[0].put(question("e"))
        second = await talk.hear()
        assert list(second["result"]["inputRequests"]) == ["d", "e"]


async def test_two_rounds_with_what_was_missed_and_what_is_new() -> None:
    gateway = FakeGateway(question("a"), question("b"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        [parked] = gateway.calls
        second = await call(talk, 2, **state_of(first), **answered("a"))
        assert list(second["result"]["inputRequests"]) == ["b"]
        await begin(talk, 3, **state_of(second), **answered("b"))
        parked.put(question("c"))
        third = await talk.hear()
        assert (third["id"], list(third["result"]["inputRequests"])) == (3, ["c"])
        await begin(talk, 4, **state_of(third), **answered("c"))
        parked.put(REPLY)
        assert (await talk.hear())["id"] == 4
        assert list(outcomes(parked)) == ["a", "b", "c"]


async def test_a_repeat_of_a_retry_gets_the_same_answer() -> None:
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        for id in (2, 3):
            await begin(talk, id, **state_of(first), **answered("a"))
        gateway.calls[0].put(REPLY)
        answers = [await talk.hear(), await talk.hear()]
        assert sorted(one["id"] for one in answers) == [2, 3]
        assert answers[0]["result"] == answers[1]["result"]
        assert len(gateway.calls) == 1


async def test_progress_and_log_messages_go_to_who_makes_the_retry() -> None:
    gateway = FakeGateway(Progress({"progress": Raw(b"1")}), question("a"))
    async with open_talk(gateway) as talk:
        await talk.ask(1, "tools/call", ECHO, revision=LATEST_MODERN, progressToken="one", **{CAPS: ALL})
        assert (await talk.hear())["params"]["progressToken"] == "one"
        first = await talk.hear()
        [parked] = gateway.calls
        message = LogMessage({"level": Raw(b'"error"'), "data": Raw(b"1")})
        parked.put(Progress({"progress": Raw(b"2")}), message)
        await trio.testing.wait_all_tasks_blocked()
        more = {CAPS: ALL, "progressToken": 2, "io.modelcontextprotocol/logLevel": "info"}
        retry = {**ECHO, **state_of(first), **answered("a")}
        await talk.ask(2, "tools/call", retry, revision=LATEST_MODERN, **more)
        await trio.testing.wait_all_tasks_blocked()
        parked.put(Progress({"progress": Raw(b"3")}), REPLY)
        frames = [await talk.hear() for _ in range(4)]
        assert [frame["params"].get("progress") for frame in frames[:3]] == [2, None, 3]
        assert frames[0]["params"]["progressToken"] == 2
        assert frames[1]["method"] == "notifications/message"


@pytest.mark.parametrize("value", [1, [], "x", None])
async def test_an_answer_that_is_no_object_is_the_hosts_mistake_and_can_be_made_good(value: Any) -> None:
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        wrong = await call(talk, 2, **state_of(first), inputResponses={"a": value})
        assert wrong["error"]["code"] == -32602
        await begin(talk, 3, **state_of(first), **answered("a"))
        gateway.calls[0].put(REPLY)
        assert (await talk.hear())["result"]["resultType"] == "complete"


async def test_cancelling_the_retry_cancels_the_call() -> None:
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        await begin(talk, 2, **state_of(first), **answered("a"))
        await talk.notify("notifications/cancelled", {"requestId": 2})
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.calls[0].state == "cancelled"
        assert (await call(talk, 3, **state_of(first), **answered("a")))["error"]["code"] == -32602


async def test_the_host_that_leaves_takes_its_parked_calls_along() -> None:
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        await call(talk, 1)
        assert gateway.calls[0].state == "open"
        talk.channel.close()
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.calls[0].state == "cancelled"


async def test_what_befalls_a_parked_call_is_told_to_the_retry() -> None:
    gateway = FakeGateway(question("a"))
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        gateway.calls[0].put(UpstreamGone("one", "It has gone."))
        await trio.testing.wait_all_tasks_blocked()
        error = (await call(talk, 2, **state_of(first), **answered("a")))["error"]
        assert (error["code"], error["data"]["server"]) == (-32603, "one")


async def test_there_is_room_for_so_many_parked_calls() -> None:
    gateway = FakeGateway(question("a"), max_parked=1)
    async with open_talk(gateway) as talk:
        await call(talk, 1)
        error = (await call(talk, 2))["error"]
        assert (error["code"], "the limit is 1" in error["message"]) == (-32603, True)
        assert gateway.calls[1].state == "cancelled"


async def test_what_the_host_did_not_declare_is_refused_and_the_call_goes_on() -> None:
    gateway = FakeGateway(question("a"), question("b", method="roots/list"))
    async with open_talk(gateway) as talk:
        await talk.ask(1, "tools/call", ECHO, revision=LATEST_MODERN, **{CAPS: {"sampling": {}}})
        await trio.testing.wait_all_tasks_blocked()
        [one] = gateway.calls
        assert outcomes(one)["a"] == {"action": "cancel"}
        assert isinstance(outcomes(one)["b"], RpcError)
        one.put(REPLY)
        assert (await talk.hear())["result"]["resultType"] == "complete"


# -- the error that asks for a visit


def needs_visit(**data: Any) -> RpcError:
    one = {"mode": "url", "message": "Go there", "url": "https://example.org/x", "elicitationId": "e1"}
    return RpcError(
        URL_ELICITATION_REQUIRED, "First", raw({"elicitations": [one]} | data), revision=V2025_11_25, server="one"
    )


async def test_the_error_that_asks_for_a_visit_becomes_a_question() -> None:
    gateway = FakeGateway(needs_visit())
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        params = {"mode": "url", "message": "Go there", "url": "https://example.org/x"}
        assert first["result"]["inputRequests"] == {"e1": {"method": "elicitation/create", "params": params}}
        gateway.script = (REPLY,)
        last = await call(talk, 2, **state_of(first), inputResponses={"e1": {"action": "accept"}})
        assert last["result"]["resultType"] == "complete"
        assert gateway.calls[1].request.resumes is None
        assert gateway.expected[1] == "one"


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}, {}, None])
async def test_a_visit_that_was_not_agreed_to_is_an_error(answer: Any) -> None:
    gateway = FakeGateway(needs_visit())
    async with open_talk(gateway) as talk:
        first = await call(talk, 1)
        more = {} if answer is None else {"inputResponses": {"e1": answer}}
        error = (await call(talk, 2, **state_of(first), **more))["error"]
        assert (error["code"], error["data"]["server"]) == (-32603, "one")
        assert len(gateway.calls) == 1


@pytest.mark.parametrize(
    "elicitations",
    [
        [],
        [{}],
        [{"mode": "form", "elicitationId": "e", "message": "m"}],
        [{"mode": "url"}],
        [{"mode": "url", "elicitationId": "e", "message": "m"}],
        [{"mode": "url", "elicitationId": "e", "url": "https://example.org/x", "message": None}],
        {},
    ],
)
async def test_an_error_that_asks_for_no_visit_stays_one(elicitations: Any) -> None:
    async with open_talk(FakeGateway(needs_visit(elicitations=elicitations))) as talk:
        error = (await call(talk, 1))["error"]
        assert error["code"] == -32603
        assert error["data"]["upstreamCode"] == URL_ELICITATION_REQUIRED


async def test_a_host_that_shows_no_urls_gets_the_error() -> None:
    async with open_talk(FakeGateway(needs_visit())) as talk:
        await talk.ask(1, "tools/call", ECHO, revision=LATEST_MODERN, **{CAPS: {"elicitation": {}}})
        assert (await talk.hear())["error"]["data"]["upstreamCode"] == URL_ELICITATION_REQUIRED


async def test_a_legacy_host_gets_the_error_as_it_is() -> None:
    async with open_talk(FakeGateway(needs_visit())) as talk:
        await talk.shake(V2025_11_25, capabilities=ALL)
        await talk.call(1)
        error = (await talk.hear())["error"]
        assert error["code"] == URL_ELICITATION_REQUIRED
        assert error["data"]["elicitations"][0]["elicitationId"] == "e1"
