"""What a modern server asks: in a result, after which the request is made again with the answers. Virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
from msgspec import Raw

from mcpx.errors import RpcError, UpstreamError, UpstreamTimeout
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.upstream.call import InputRequired, Withdrawn
from mcpx.upstream.session_call import MAX_ROUNDS
from mcpx.wire import frames
from tests.support.running import in_virtual_time
from tests.unit.upstream.asking import (
    ACCEPT,
    CANCEL,
    FORM,
    SAMPLE,
    asker,
    begin,
    field,
    nothing,
    question,
    reply,
    request,
)

if TYPE_CHECKING:
    from tests.unit.upstream.fakes import FakeServer

HOST = asker()
DONE: dict[str, Any] = {"resultType": "complete", "content": []}
WHO: dict[str, Any] = {"method": "elicitation/create", "params": FORM}
THINK: dict[str, Any] = {"method": "sampling/createMessage", "params": SAMPLE}
WHERE: dict[str, Any] = {"method": "roots/list"}


async def modern(server: FakeServer) -> None:
    await server.open_modern(tools={})


def requires(questions: Any = None, state: Any = None) -> dict[str, Any]:
    """An ``input_required``."""
    given = {"inputRequests": questions, "requestState": state}
    return {"resultType": "input_required", **{key: value for key, value in given.items() if value is not None}}


def plain(params: Any) -> Any:
    return json.loads(msgspec.json.encode(params))


@in_virtual_time
async def test_the_request_is_made_again_with_the_answers_and_the_state() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            first = await begin(call, server)
            state = 'opaque \u00e9 " \\u0041'
            server.answer(first, requires({"who": WHO, "where": WHERE}, state))
            who, where = await question(call), await question(call)
            assert (who.method, plain(who.params), who.revision) == ("elicitation/create", FORM, LATEST_MODERN)
            assert (where.method, where.params) == ("roots/list", {})
            roots = {"roots": [{"uri": "file:///a"}]}
            call.answer(where.key, frames.to_raw(roots), LATEST_LEGACY)
            await nothing(server)
            call.answer(who.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            second = await begin(call, server)
            assert second["id"] != first["id"]
            assert second["params"].pop("_meta")["progressToken"] == second["id"]
            assert second["params"] == {
                "name": "echo",
                "inputResponses": {"where": roots, "who": ACCEPT},
                "requestState": state,
            }
            server.answer(second, DONE)
            assert await reply(call) == DONE
        await nothing(server)
        assert session.connection.in_flight == 0


@in_virtual_time
async def test_the_state_goes_back_byte_for_byte_and_none_where_none_was_given() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            first = await begin(call, server)
            spelled = '"\\u00e9\\/\\u0041"'
            written = json.dumps(requires({"who": WHO}, "STATE")).replace('"STATE"', spelled)
            server.channel.send_nowait(f'{{"jsonrpc":"2.0","id":{first["id"]},"result":{written}}}'.encode())
            call.answer((await question(call)).key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            with trio.move_on_after(0.001):
                await call.next()
            [line] = await server.channel.receive()
            assert isinstance(line, bytes)
            assert b'"requestState":' + spelled.encode() in line
            second = json.loads(line)
            server.answer(second, requires({"who": WHO}))
            call.answer((await question(call)).key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            third = await begin(call, server)
            assert "requestState" not in third["params"]
            server.answer(third, DONE)
            assert await reply(call) == DONE


@in_virtual_time
async def test_rounds_are_counted() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            for number in range(1, MAX_ROUNDS):
                server.answer(await begin(call, server), requires({"who": WHO}, str(number)))
                call.answer((await question(call)).key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            server.answer(await begin(call, server), requires({"who": WHO}))
            with pytest.raises(UpstreamError, match=f"{MAX_ROUNDS} times"):
                await call.next()
        await nothing(server)


@in_virtual_time
async def test_the_same_key_in_the_next_round_is_another_question() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires({"who": WHO}))
            first = await question(call)
            call.answer(first.key, frames.to_raw(CANCEL), LATEST_LEGACY)
            again = await begin(call, server)
            assert again["params"]["inputResponses"] == {"who": CANCEL}
            server.answer(again, requires({"who": WHO}))
            second = await question(call)
            call.answer(first.key, frames.to_raw(ACCEPT), LATEST_LEGACY)  # late
            await nothing(server)
            call.answer(second.key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert (await begin(call, server))["params"]["inputResponses"] == {"who": ACCEPT}


@in_virtual_time
async def test_a_state_without_questions_is_tried_again_by_itself() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires(state="later"))
            with trio.move_on_after(0.5):
                await call.next()
            again = await server.take()
            assert again["params"]["requestState"] == "later"
            assert "inputResponses" not in again["params"]
            server.answer(again, DONE)
            assert await reply(call) == DONE


# -- hosts that make the request again themselves


@in_virtual_time
async def test_a_modern_host_gets_the_questions_under_the_servers_own_keys() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST, revision=LATEST_MODERN, takes_input_required=True)) as call:
            server.answer(await begin(call, server), requires({"who": WHO, "think": THINK}, "s"))
            event = await call.next()
            assert isinstance(event, InputRequired)
            assert [(one.key, one.method) for one in event.questions] == [
                ("who", "elicitation/create"),
                ("think", "sampling/createMessage"),
            ]
            assert event.state is not None
            assert bytes(event.state) == b'"s"'
            assert (event.revision, event.server) == (LATEST_MODERN, "fake")
        await nothing(server)
        retry = request(
            HOST,
            revision=LATEST_MODERN,
            takes_input_required=True,
            resumes={"who": frames.to_raw(ACCEPT)},
            state=Raw(b'"\\u0073"'),
        )
        with session.call(retry) as call:
            sent = await begin(call, server)
            assert sent["params"]["inputResponses"] == {"who": ACCEPT}
            assert sent["params"]["requestState"] == "s"
            server.answer(sent, requires(state="t"))
            event = await call.next()
            assert isinstance(event, InputRequired)
            assert event.state is not None
            assert (event.questions, bytes(event.state)) == ((), b'"t"')


@in_virtual_time
async def test_what_a_retry_brings_is_not_for_a_server_that_is_legacy_now() -> None:
    async def legacy(server: FakeServer) -> None:
        await server.open_legacy()

    async with field(legacy) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST, resumes={"who": frames.to_raw(ACCEPT)}, state=Raw(b'"s"'))) as call:
            assert (await begin(call, server))["params"].keys() == {"name", "_meta"}


# -- when there is no answer


@in_virtual_time
async def test_an_error_of_the_host_is_a_cancel_for_elicitation() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires({"who": WHO}))
            call.answer((await question(call)).key, RpcError(-32603, "no user here"), LATEST_LEGACY)
            assert (await begin(call, server))["params"]["inputResponses"] == {"who": CANCEL}


@in_virtual_time
async def test_and_ends_the_call_where_there_is_no_way_to_say_it() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires({"think": THINK, "who": WHO}))
            think, who = await question(call), await question(call)
            call.answer(think.key, RpcError(-1, "User rejected sampling request"), LATEST_LEGACY)
            gone = await call.next()
            assert isinstance(gone, Withdrawn)
            assert gone.key == who.key
            with pytest.raises(UpstreamError, match="User rejected sampling request"):
                await call.next()
        await nothing(server)
        assert session.connection.in_flight == 0


@in_virtual_time
async def test_nobody_waits_for_answers_for_ever() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires({"who": WHO}))
            key = (await question(call)).key
            began = trio.current_time()
            gone = await call.next()
            assert isinstance(gone, Withdrawn)
            assert gone.key == key
            assert trio.current_time() - began == pytest.approx(600, abs=0.1)
            assert (await begin(call, server))["params"]["inputResponses"] == {"who": CANCEL}
            with pytest.raises(UpstreamTimeout):
                await call.next()


@in_virtual_time
async def test_unless_somebody_holds_the_call() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires({"who": WHO}))
            key = (await question(call)).key
            with call.hold(), trio.move_on_after(5000) as scope:
                await call.next()
            assert scope.cancelled_caught
            call.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
            assert (await begin(call, server))["params"]["inputResponses"] == {"who": ACCEPT}


@in_virtual_time
async def test_a_call_that_is_left_between_two_rounds_is_over() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            server.answer(await begin(call, server), requires({"who": WHO}))
            key = (await question(call)).key
        call.answer(key, frames.to_raw(ACCEPT), LATEST_LEGACY)
        await nothing(server)
        assert session.connection.in_flight == 0


# -- results that make no sense


@pytest.mark.parametrize(
    ("method", "result", "why"),
    [
        ("tools/call", requires({}), "put no question"),
        ("tools/call", requires(), "put no question"),
        ("tools/call", requires({"who": WHO}, 5), "no string"),
        ("tools/call", requires([WHO]), "no object"),
        ("tools/call", requires({"who": "you"}), "makes no sense"),
        ("tools/call", requires({"who": {"params": {}}}), "makes no sense"),
        ("tools/call", requires({"who": {"method": "roots/list", "params": []}}), "makes no sense"),
        ("tools/call", requires({"who": {"method": "tools/list"}}), "may not"),
        ("completion/complete", requires({"who": WHO}), "no questions"),
        ("tools/call", {"resultType": "puzzle"}, "unknown type"),
    ],
)
@pytest.mark.parametrize("host_retries", [False, True])
@in_virtual_time
async def test_a_result_that_asks_in_the_wrong_way_is_an_error(
    method: str, result: Any, why: str, host_retries: bool
) -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST, method, takes_input_required=host_retries)) as call:
            server.answer(await begin(call, server), result)
            with pytest.raises(UpstreamError, match=why):
                await call.next()


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ({}, WHO),
        ({"elicitation": {"url": {}}}, WHO),
        ({"elicitation": {}}, THINK),
        ({"sampling": {}}, {**THINK, "params": {**SAMPLE, "tools": []}}),
        ({"elicitation": {}}, WHERE),
    ],
)
@in_virtual_time
async def test_so_is_one_that_asks_what_the_host_did_not_declare(told: Any, asked: Any) -> None:
    host = asker("host", told)
    async with field(modern) as one, one.using(host) as session:
        [server] = one.servers
        with session.call(request(host)) as call:
            sent = await begin(call, server)
            assert sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == told
            server.answer(sent, requires({"it": asked, "where": WHERE} if "roots" in told else {"it": asked}))
            with pytest.raises(UpstreamError, match="may not"):
                await call.next()


@in_virtual_time
async def test_each_request_says_what_its_own_host_declared() -> None:
    other = asker("other", {"roots": {}})
    async with field(modern) as one, one.using(HOST) as session, one.using(other) as same:
        assert same is session
        [server] = one.servers
        with session.call(request(HOST)) as mine, session.call(request(other)) as theirs:
            first, second = await begin(mine, server), await begin(theirs, server)
            server.answer(second, requires({"where": WHERE}))
            server.answer(first, requires({"who": WHO}))
            assert (await question(mine)).method == "elicitation/create"
            assert (await question(theirs)).method == "roots/list"


@in_virtual_time
async def test_a_modern_server_may_send_no_requests() -> None:
    async with field(modern) as one, one.using(HOST) as session:
        [server] = one.servers
        with session.call(request(HOST)) as call:
            await begin(call, server)
            server.say(id=1, method="elicitation/create", params=FORM)
            await nothing(server)
            assert call.next_nowait() is None
