"""Kinds 9, 10, 11 and 13: whose answer it is, who is told of the end, and what arrives unchanged."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05, V2025_06_18
from tests.support.fake_down import AFTER_EOF
from tests.support.scripted import TOOL
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

ERAS = [LATEST_LEGACY, LATEST_MODERN]
TOOLS = [TOOL, {**TOOL, "name": "never"}, {**TOOL, "name": "busy"}, {**TOOL, "name": "held"}]
HELD = [{"hold": "gate"}, {"answer": True}]


def _called(upstream: Scripted) -> list[Any]:
    """The ids of the calls that it received."""
    return [line.frame["id"] for line in upstream.received("tools/call")]


@pytest.mark.parametrize("spelling", ["string", "float"])
async def test_pain_09_an_upstream_may_spell_ids_oddly(stage: Stage, spelling: str) -> None:
    """Replies whose id is "7" or 7.0 instead of 7 reach who asked, from the first answer on."""
    one = stage.upstream("one", spell=spelling)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        assert await host.names() == ["one__echo"]
        for ident in (0, "0", -1, 2**53 + 1, "", "é"):
            text = (await host.call("one__echo", {"i": ident}, id=ident)).result["content"][0]["text"]
            assert json.loads(text.removeprefix("echo ")) == {"i": ident}


@pytest.mark.parametrize("host_revision", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_pain_10_a_cancel_reaches_its_upstream_once(stage: Stage, revision: str, host_revision: str) -> None:
    """The one upstream is told at once, once, with its own id; the other nothing; the host gets no answer."""
    one = stage.upstream("one", revision, tools=TOOLS, calls={"never": []})
    two = stage.upstream("two", revision, tools=TOOLS, calls={"never": []})
    async with stage.mcpx(one, two) as host:
        await host.open(host_revision)
        await host.names()
        kept = await host.start("tools/call", {"name": "two__never"}, id="kept")
        cancelled = await host.start("tools/call", {"name": "one__never"}, id="away")
        await one.got("tools/call")
        await two.got("tools/call")
        await host.cancel(cancelled, "changed my mind")
        await one.changes.until(lambda: one.cancelled, "the cancellation")
        await host.cancel(cancelled)
        await host.notify("notifications/cancelled", {"requestId": "nobody's"})
        assert (await host.call("one__echo")).result["content"]
        assert kept.answer is None
        assert two.cancelled == []
    assert cancelled.answer is None
    assert one.cancelled == _called(one)[:1]


async def test_pain_10_a_late_answer_is_dropped(stage: Stage) -> None:
    """An upstream that answers what was cancelled disturbs nobody, and the id may be used again by the host."""
    one = stage.upstream("one", tools=TOOLS, calls={"held": HELD}, ignoreCancelled=True)
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        held = await host.start("tools/call", {"name": "one__held"}, id="x")
        await one.happened("held")
        await host.cancel(held)
        await one.got("notifications/cancelled")
        again = await host.start("tools/call", {"name": "one__echo", "arguments": {"second": True}}, id="x")
        answer = await host.changes.until(lambda: again.answer or held.answer, "the answer to the second call")
        assert answer.result["content"][0]["text"] == 'echo {"second": true}'
        await one.release("gate")
        assert (await host.call("one__echo")).result["content"]
    assert len([frame for frame in host.received if frame.frame.get("id") == "x"]) == 1


async def test_pain_10_initialize_is_never_cancelled(stage: Stage) -> None:
    """A host that cancels a handshake, its own or by an id not in flight, changes nothing; neither does mcpx."""
    one = stage.upstream("one", on={"initialize": [{"hold": "gate"}, {"answer": True}]})
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        params = {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": host.info}
        opening = await host.start("initialize", params, revision=None)
        await one.happened("held")
        await host.cancel(opening)
        await one.release("gate")
        assert (await opening.wait()).result["protocolVersion"] == LATEST_LEGACY
        assert (await host.request("tools/list")).result["tools"]
    assert one.cancelled == []


async def test_pain_10_a_timeout_is_told_to_both_sides(stage: Stage) -> None:
    """A call over its idle limit is an error for the host and one cancel for the upstream."""
    one = stage.upstream("one", tools=TOOLS, calls={"never": []}, entry={"limits": {"callTimeout": {"idle": 1.5}}})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        error = (await host.call("one__never")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"
        assert "1.5" in error["data"]["reason"]
        await one.got("notifications/cancelled")
        assert (await host.call("one__echo")).result["content"]
    assert one.cancelled == _called(one)[:1]


async def test_pain_10_a_host_that_leaves_is_told_upstream(stage: Stage) -> None:
    """At stdin EOF each call that is still open is cancelled upstream, once, before the upstream sees EOF."""
    one = stage.upstream("one", tools=TOOLS, calls={"never": []})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        for _ in range(3):
            await host.start("tools/call", {"name": "one__never"})
        await one.got("tools/call", 3)
        await host.close()
        assert host.took < AFTER_EOF
    assert sorted(one.cancelled) == sorted(_called(one))
    assert one.seen("eof")[0].at >= one.received("notifications/cancelled")[-1].at


async def test_pain_10_a_cancel_overtakes_what_is_queued(stage: Stage) -> None:
    """With many calls in flight one cancel is not behind them: it arrives while all of them still run."""
    one = stage.upstream("one", tools=TOOLS, calls={"held": HELD})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        calls = [await host.start("tools/call", {"name": "one__held"}) for _ in range(50)]
        await one.happened("held", 50)
        await host.cancel(calls[7])
        await one.got("notifications/cancelled")
        assert not any(call.answer for call in calls)
        await one.release("gate")
        for number, call in enumerate(calls):
            if number != 7:
                await call.wait()
        assert calls[7].answer is None
    assert one.cancelled == [_called(one)[7]]


@pytest.mark.parametrize("revision", ERAS)
async def test_pain_11_progress_reaches_its_request_with_its_token(stage: Stage, revision: str) -> None:
    """Tokens 1 and "1", and long ones, come back on their own calls in their own type; upstream they are mcpx's."""
    one = stage.upstream("one", revision, tools=TOOLS, calls={"busy": [{"progress": {"times": 3, "total": 3}}, *HELD]})
    tokens = [1, "1", "t" * 300, 2**60, ""]
    async with stage.mcpx(one) as host:
        await host.open(V2025_06_18)
        await host.names()
        calls = [
            await host.start("tools/call", {"name": "one__busy"}, meta={"progressToken": token}) for token in tokens
        ]
        await one.happened("held", len(tokens))
        await one.release("gate")
        for call in calls:
            await call.wait()
            assert [note.params["progress"] for note in call.progress] == [1, 2, 3]
            assert {note.params["total"] for note in call.progress} == {3}
    upstream = [line.frame["params"]["_meta"]["progressToken"] for line in one.received("tools/call")]
    assert len({json.dumps(token) for token in upstream}) == len(tokens)


async def test_pain_11_no_token_no_progress_but_the_timer_knows(stage: Stage) -> None:
    """A host that asked for no progress gets none; still progress keeps its call from timing out."""
    idle = 1.2
    busy = [{"progress": {"times": 10, "every": 0.15}}, {"answer": True}]
    limits = {"callTimeout": {"idle": idle}}
    one = stage.upstream("one", tools=TOOLS, calls={"busy": busy}, entry={"limits": limits})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        started = time.monotonic()
        assert (await host.call("one__busy")).result["content"]
        assert time.monotonic() - started > idle
        assert host.notifications == []


async def test_pain_11_progress_has_a_hard_limit(stage: Stage) -> None:
    """A call that reports progress for ever ends at the total limit, with an error and a cancel."""
    busy = [{"progress": {"times": 1000, "every": 0.05}}]
    limits = {"callTimeout": {"idle": 1.4, "total": 1.5}}
    one = stage.upstream("one", tools=TOOLS, calls={"busy": busy}, entry={"limits": limits})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        started = time.monotonic()
        assert "1.5" in (await host.call("one__busy", meta={"progressToken": "p"})).error["data"]["reason"]
        assert 1.4 < time.monotonic() - started < 1.5 + BUSY
        await one.got("notifications/cancelled")


async def test_pain_11_progress_after_the_end_is_discarded(stage: Stage) -> None:
    """Progress that comes after the answer, after a cancel, or with a token of nobody, reaches no host."""
    after = [{"answer": True}, {"progress": {"times": 3}}]
    stray = {"notify": {"method": "notifications/progress", "params": {"progressToken": 99_999, "progress": 1}}}
    one = stage.upstream(
        "one",
        tools=TOOLS,
        calls={"busy": [stray, *after], "held": [{"hold": "gate"}, {"progress": {"times": 3}}]},
        ignoreCancelled=True,
    )
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        await host.call("one__busy", meta={"progressToken": "p"})
        held = await host.start("tools/call", {"name": "one__held"}, meta={"progressToken": "q"})
        await one.happened("held")
        await host.cancel(held)
        await one.got("notifications/cancelled")
        await one.release("gate")
        await host.call("one__echo")
    assert host.notifications == []


RESULT = (
    '{"content":[{"type":"text","text":"\\u00e9é","annotations":{"priority":1.0},"z":null}],"b":1,"a":1.0,"e":1E5,'
    '"big":12345678901234567890,"small":1.10,"structuredContent":{"n":-0.0,"deep":[{"x":[]}]},"isError":false,'
    '"_meta":{"z":1,"a":null}}'
)
ARGUMENTS = '{"z":1.0,"big":12345678901234567890,"nested":{"b":[1e2,null,{}]},"a":"\\u00e9"}'


@pytest.mark.parametrize("revision", [LATEST_LEGACY, V2025_06_18])
async def test_pain_13_json_passes_as_it_was_written(stage: Stage, revision: str) -> None:
    """Between peers of one revision key order, number spelling, unknown fields, nulls and escapes stay, both ways."""
    tool = {**TOOL, "outputSchema": {"type": "object", "required": ["not there"]}}  # wrong, and not ours to judge
    one = stage.upstream("one", revision, tools=[tool], calls={"echo": [{"raw": RESULT}]})
    async with stage.mcpx(one) as host:
        await host.open(revision)
        await host.names()
        asked = host.expect({"id": 77, "method": "tools/call"}, revision)
        await host.send_raw(
            f'{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{{"name":"one__echo","x-own":1.50,'
            f'"arguments":{ARGUMENTS},"_meta":{{"traceparent":"00-a","example.org/n":1.0}}}}}}\n'.encode()
        )
        assert (await asked.wait()).raw == f'{{"jsonrpc":"2.0","id":77,"result":{RESULT}}}'.encode()
    sent = one.received("tools/call")[0].text
    assert f'"arguments":{ARGUMENTS}' in sent
    assert '"x-own":1.50' in sent
    assert '"traceparent":"00-a"' in sent
    assert '"example.org/n":1.0' in sent


async def test_pain_13_a_modern_result_keeps_its_own_too(stage: Stage) -> None:
    """Between modern peers all that mcpx puts in is its own metadata; the rest is the upstream's, to the letter."""
    raw = RESULT[:-1].replace('"_meta":{"z":1,"a":null}', '"_meta":{"z":1.0,"a":null}') + ',"resultType":"complete"}'
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": [{"raw": raw}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        answer = await host.call("one__echo")
        head, tail = raw.split('"_meta":')
        assert head.encode() in answer.raw
        assert b'"z":1.0,"a":null' in answer.raw
        assert tail.partition("},")[2].encode() in answer.raw


async def test_pain_13_nothing_is_added_for_an_old_host(stage: Stage) -> None:
    """No nulls, no empty fields: an old host gets what the upstream said and not a key more."""
    one = stage.upstream("one", LATEST_MODERN, calls={"echo": [{"result": {"content": []}}]})
    async with stage.mcpx(one) as host:
        await host.open(V2024_11_05)
        await host.names()
        assert (await host.call("one__echo")).raw.endswith(b'"result":{"content":[]}}')


async def test_pain_13_errors_keep_code_message_and_data(stage: Stage) -> None:
    """An upstream's own error passes with its data as it was written."""
    error = '{"code":-31999,"message":"né","data":{"b":1.0,"a":[null]}}'
    one = stage.upstream("one", calls={"echo": [{"error": error}]})
    async with stage.mcpx(one) as host:
        for revision in (LATEST_LEGACY, LATEST_MODERN):
            await host.open(revision)
            await host.names()
            assert b'"code":-31999' in (answer := await host.call("one__echo")).raw
            assert answer.error["message"] == "né"
            assert b'"data":{"b":1.0,"a":[null]}' in answer.raw
