"""Questions in the four cells of eras: each kind of question, each answer, by pipes on both sides and by HTTP on both;
and what befalls them: two at once, two rounds, a withdrawal, a host that leaves, another host beside.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2024_11_05, V2025_06_18, is_modern
from tests.support.fake_down import Refusal
from tests.support.http_front import fronted
from tests.support.socket_hosts import connected, serving
from tests.support.ways import WAYS, arriving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.fake_down import Host, Incoming
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

ERAS = (LATEST_LEGACY, LATEST_MODERN)
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
STATE = "a state: ü / \\"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = {"mode": "form", "message": "Who are you?", "requestedSchema": SCHEMA}
VISIT = {"mode": "url", "message": "Go there", "url": "https://example.org/there"}

# What is asked, by kind.
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "form": (ELICIT, FORM),
    "url": (ELICIT, VISIT),
    "sampling": (
        SAMPLE,
        {"messages": [{"role": "user", "content": {"type": "text", "text": "What?"}}], "maxTokens": 7},
    ),
    "roots": (ROOTS, {}),
}
# What the host says to it, by what becomes of the question.
ANSWERS: dict[str, dict[str, Any]] = {
    "form": {
        "accept": {"action": "accept", "content": {"name": "x"}},
        "decline": {"action": "decline"},
        "cancel": {"action": "cancel"},
    },
    "url": {"accept": {"action": "accept"}, "decline": {"action": "decline"}, "cancel": {"action": "cancel"}},
    "sampling": {
        "accept": {"role": "assistant", "content": {"type": "text", "text": "That"}, "model": "m"},
        "decline": Refusal(-1, "The user said no"),
    },
    "roots": {"accept": {"roots": [{"uri": "file:///x", "name": "X"}]}, "decline": Refusal(-32603, "Nowhere")},
}


def question(kind: str, upstream: str, id: str) -> tuple[str, dict[str, Any]]:
    """A question as an upstream of that revision asks it."""
    method, params = ASKED[kind]
    return method, {**params, "elicitationId": f"of {id}"} if kind == "url" and not is_modern(upstream) else params


def step(kind: str, upstream: str, id: str, *, forget: bool = False) -> dict[str, Any]:
    """The step that asks it of a legacy upstream."""
    method, params = question(kind, upstream, id)
    said = {"params": params} if params else {}
    return {"ask": {"id": id, "method": method, **said, **({"forget": True} if forget else {})}}


def round_of(upstream: str, state: str, **kinds: str) -> list[dict[str, Any]]:
    """The steps that ask these of a modern upstream, by key."""
    asked: dict[str, Any] = {}
    for key, kind in kinds.items():
        method, params = question(kind, upstream, key)
        asked[key] = {"method": method, **({"params": params} if params else {})}
    return [{"require": {"questions": asked, "state": state}}]


def asks(upstream: str, id: str, kind: str) -> Any:
    """A call that asks one thing and says what it was answered."""
    if is_modern(upstream):
        return {"times": [round_of(upstream, STATE, **{id: kind}), [{"told": True}]]}
    return [step(kind, upstream, id), {"told": True}]


def script(**calls: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in calls], "calls": calls}


def told(answer: Incoming, upstream: str) -> dict[str, Any]:
    """What the upstream was answered, by id or key."""
    said = json.loads(answer.result["content"][0]["text"])
    if not is_modern(upstream):
        return said
    assert said["state"] in (STATE, "second")
    return said["answers"]


@asynccontextmanager
async def between(stage: Stage, way: str, one: Scripted) -> AsyncIterator[Host]:
    """A host that comes by that way, and an upstream that is reached by the same."""
    async with AsyncExitStack() as stack:
        how: dict[str, Any] = {}
        upstreams: tuple[Scripted, ...] = (one,)
        if way == "http":
            url = await stack.enter_async_context(fronted(one))
            how, upstreams = {"servers": {"one": {"url": url}}}, ()
        host, _ = await stack.enter_async_context(arriving(stage, way, *upstreams, **how))
        yield host


async def call(host: Host, name: str) -> Incoming:
    return await host.converse("tools/call", {"name": f"one__{name}", "arguments": {"a": 1}})


def questions(host: Host) -> list[dict[str, Any]]:
    """What the host was asked so far, in either form."""
    wired = [one.frame for one in host.requests]
    return wired + [one for answer in host.rounds for one in answer.result["inputRequests"].values()]


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_cell(stage: Stage, way: str, revision: str, upstream: str, kind: str) -> None:
    """A host is asked what the upstream asks, and the upstream is told what the host answers."""
    # In the modern era an answer is a result: nothing can be said that is an error.
    answers = {
        name: value
        for name, value in ANSWERS[kind].items()
        if not (isinstance(value, Refusal) and LATEST_MODERN in (revision, upstream))
    }
    one = stage.upstream("one", upstream, **script(**{name: asks(upstream, name, kind) for name in answers}))
    async with between(stage, way, one) as host:
        await host.open(revision, CAPABILITIES)
        for name, value in answers.items():
            host.answers = {ASKED[kind][0]: value}
            expected = value._asdict() if isinstance(value, Refusal) else value
            assert told(await call(host, name), upstream)[name] == expected
            asked = questions(host)[-1]
            assert asked["method"] == ASKED[kind][0]
            params = dict(asked.get("params", {}))
            if kind == "url" and not is_modern(revision):
                named = params.pop("elicitationId")
                assert named == (f"of {name}" if not is_modern(upstream) else named)
                assert named
            assert params == ASKED[kind][1]
        assert len(questions(host)) == len(answers)


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_two_at_once(stage: Stage, way: str, revision: str, upstream: str) -> None:
    both: Any = [
        {"cork": [step("form", upstream, "a", forget=True), step("roots", upstream, "b", forget=True)]},
        {"answered": "a"},
        {"answered": "b"},
        {"told": True},
    ]
    if is_modern(upstream):
        both = {"times": [round_of(upstream, STATE, a="form", b="roots"), [{"told": True}]]}
    one = stage.upstream("one", upstream, **script(both=both))
    async with between(stage, way, one) as host:
        await host.open(revision, CAPABILITIES)
        host.answers = {ELICIT: ANSWERS["form"]["accept"], ROOTS: ANSWERS["roots"]["accept"]}
        assert told(await call(host, "both"), upstream) == {
            "a": ANSWERS["form"]["accept"],
            "b": ANSWERS["roots"]["accept"],
        }
        assert [one["method"] for one in questions(host)] == [ELICIT, ROOTS]


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_two_rounds(stage: Stage, way: str, revision: str, upstream: str) -> None:
    twice: Any = [step("form", upstream, "a"), step("sampling", upstream, "b"), {"told": True}]
    if is_modern(upstream):
        rounds = [round_of(upstream, STATE, a="form"), round_of(upstream, "second", b="sampling"), [{"told": True}]]
        twice = {"times": rounds}
    one = stage.upstream("one", upstream, **script(twice=twice))
    async with between(stage, way, one) as host:
        await host.open(revision, CAPABILITIES)
        host.answers = {ELICIT: ANSWERS["form"]["accept"], SAMPLE: ANSWERS["sampling"]["accept"]}
        answers = told(await call(host, "twice"), upstream)
        assert answers["b"] == ANSWERS["sampling"]["accept"]
        assert [one["method"] for one in questions(host)] == [ELICIT, SAMPLE]
        if is_modern(revision):
            assert len(host.rounds) == 2
            states = [one.result["requestState"] for one in host.rounds]
            assert len(set(states)) == 2


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_withdrawal(stage: Stage, way: str, revision: str) -> None:
    """Only a legacy upstream can withdraw what it has asked."""
    steps = [step("form", LATEST_LEGACY, "a", forget=True), {"hold": "it"}, {"withdraw": "a"}, {"told": True}]
    one = stage.upstream("one", LATEST_LEGACY, **script(withdraws=steps))
    async with between(stage, way, one) as host:
        await host.open(revision, CAPABILITIES)
        params = {"name": "one__withdraws", "arguments": {}}
        if is_modern(revision):
            asking = await host.request("tools/call", params)
            host.answers = {ELICIT: ANSWERS["form"]["accept"]}
            await one.happened("held")  # what it said before is known to the test then
            said = len(one.seen("out"))
            await one.release("it")
            await one.happened("out", said + 2)
            answer = await host.request("tools/call", {**params, **host.retry(asking)})
        else:
            started = await host.start("tools/call", params)
            question = await host.asked(ELICIT)
            await one.release("it")
            note = await host.notified("notifications/cancelled")
            assert note.params["requestId"] == question.frame["id"]
            answer = await started.wait()
            await host.answer(question, ANSWERS["form"]["accept"])  # too late
        assert told(answer, LATEST_LEGACY) == {}


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_a_host_that_leaves(stage: Stage, revision: str, upstream: str) -> None:
    """The question ends with its host, and the next one is asked what is its own."""
    one = stage.upstream("one", upstream, **script(asks=asks(upstream, "a", "form")))
    async with serving(stage, one) as served:
        async with connected(served) as leaves:
            await leaves.open(revision, CAPABILITIES)
            started = await leaves.start("tools/call", {"name": "one__asks", "arguments": {}})
            await (started.wait() if is_modern(revision) else leaves.asked(ELICIT))
        if not is_modern(upstream):
            call = await one.got("tools/call")
            note = await one.got("notifications/cancelled")
            assert note.frame["params"]["requestId"] == call.frame["id"]
        async with connected(served) as stays:
            await stays.open(revision, CAPABILITIES)
            assert (await stays.names()) == ["one__asks"]
            assert questions(stays) == []


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_pain_12_two_hosts_at_once(stage: Stage, revision: str, upstream: str) -> None:
    """Each is asked in its own call, and neither hears anything of the other's."""
    calls = {"asks": asks(upstream, "a", "form"), "waits": [{"hold": "it"}, {"answer": True}]}
    one = stage.upstream("one", upstream, **script(**calls))
    async with serving(stage, one) as served, connected(served) as asked, connected(served) as other:
        for host in (asked, other):
            await host.open(revision, CAPABILITIES)
        waiting = await other.start("tools/call", {"name": "one__waits", "arguments": {}})
        await one.happened("held")
        for _ in range(2):  # again, so that nothing stale of the first time is used
            asked.answers = {ELICIT: ANSWERS["form"]["accept"]}
            assert told(await call(asked, "asks"), upstream)["a"] == ANSWERS["form"]["accept"]
            if is_modern(upstream):
                break
        assert questions(other) == []
        await one.release("it")
        assert (await waiting.wait()).result["content"]
        assert other.requests == []


@pytest.mark.parametrize("revision", [V2025_06_18, LATEST_LEGACY, LATEST_MODERN])
async def test_the_end_of_a_visit_is_told_where_the_revision_knows_of_it(stage: Stage, revision: str) -> None:
    """(2025-11-25 client/elicitation, Completion Notifications.)"""
    over = {"method": "notifications/elicitation/complete", "params": {"elicitationId": "of a"}}
    steps = [step("url", LATEST_LEGACY, "a", forget=True), {"notify": over}, {"answered": "a"}, {"told": True}]
    one = stage.upstream("one", LATEST_LEGACY, **script(visits=steps))
    async with stage.mcpx(one) as host:
        await host.open(revision, CAPABILITIES)
        host.answers = {ELICIT: {"action": "accept"}}
        answer = await call(host, "visits")
        action = "cancel" if revision == V2025_06_18 else "accept"  # forms are all that can be said in that one
        assert told(answer, LATEST_LEGACY) == {"a": {"action": action}}
        await host.fence()
        notes = [note.params for note in host.notifications if note.method == over["method"]]
        assert notes == ([{"elicitationId": "of a"}] if revision == LATEST_LEGACY else [])


@pytest.mark.parametrize("revision", ERAS)
async def test_the_error_that_asks_for_a_visit(stage: Stage, revision: str) -> None:
    """(2025-11-25 client/elicitation, URL Elicitation Required Error.) A modern host is asked, and comes again."""
    visit = {**VISIT, "elicitationId": "e"}
    error = {"code": -32042, "message": "First go there", "data": {"elicitations": [visit]}}
    one = stage.upstream("one", LATEST_LEGACY, **script(visits={"times": [[{"error": error}], [{"answer": True}]]}))
    async with stage.mcpx(one) as host:
        await host.open(revision, CAPABILITIES)
        host.answers = {ELICIT: {"action": "accept"}}
        answer = await call(host, "visits")
        if is_modern(revision):
            assert questions(host) == [{"method": ELICIT, "params": VISIT}]
            assert answer.result["content"][0]["text"] == 'visits {"a": 1}'
        else:
            assert answer.error == error
            assert questions(host) == []


@pytest.mark.parametrize("upstream", ERAS)
@pytest.mark.parametrize("revision", ERAS)
async def test_timeout(stage: Stage, revision: str, upstream: str) -> None:
    """Nobody answers: a legacy host's question is withdrawn and refused, a modern host has come too late."""
    one = stage.upstream("one", upstream, **script(asks=asks(upstream, "a", "form")))
    async with stage.mcpx(one, limits={"questionTimeout": 0.5}) as host:
        await host.open(revision, CAPABILITIES)
        params = {"name": "one__asks", "arguments": {}}
        started = await host.start("tools/call", params)
        if not is_modern(revision):
            question = await host.asked(ELICIT)
            note = await host.notified("notifications/cancelled")
            assert note.params["requestId"] == question.frame["id"]
            assert told(await started.wait(), upstream) == {"a": {"action": "cancel"}}
            return
        asking = await started.wait()
        if not is_modern(upstream):
            call, note = await one.got("tools/call"), await one.got("notifications/cancelled")
            assert note.frame["params"]["requestId"] == call.frame["id"]
        host.answers = {ELICIT: ANSWERS["form"]["accept"]}
        await trio.sleep(0.5)  # the time itself is what is tested
        assert (await host.request("tools/call", {**params, **host.retry(asking)})).code == -32602
        assert len(one.received("tools/call")) == 1


TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": ["r", "b"]}}


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (TITLED, {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]}),
        (SEVERAL, None),
    ],
)
@pytest.mark.parametrize("upstream", ERAS)
async def test_a_choice_as_an_older_host_has_it(stage: Stage, upstream: str, field: Any, said: Any) -> None:
    """Titles of values stand beside them; a choice of several cannot be said: it is refused, and the log says so."""
    params = {"mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {"c": field}}}
    calls: Any = [{"ask": {"id": "a", "method": ELICIT, "params": params}}, {"told": True}]
    if is_modern(upstream):
        asked = [{"require": {"questions": {"a": {"method": ELICIT, "params": params}}, "state": STATE}}]
        calls = {"times": [asked, [{"told": True}]]}
    one = stage.upstream("one", upstream, **script(chooses=calls))
    async with stage.mcpx(one) as host:
        await host.open(V2025_06_18, {"elicitation": {}})
        host.answers = {ELICIT: {"action": "accept", "content": {"c": "b"}}}
        answer = told(await call(host, "chooses"), upstream)["a"]
        if said is None:
            assert answer == {"action": "cancel"}
            assert questions(host) == []
            await host.logged("was refused")
        else:
            assert answer == {"action": "accept", "content": {"c": "b"}}
            [question] = questions(host)
            assert question["params"]["requestedSchema"]["properties"]["c"] == said


ROOTS_STEP = {"ask": {"id": "r", "method": ROOTS, "forget": True}}


@pytest.mark.parametrize("way", WAYS)
async def test_outside_any_call(stage: Stage, way: str) -> None:
    """A legacy host is asked at once, and in a call by the same way."""
    steps = [{"ask": {"id": "s", "method": ROOTS}}, {"told": True}]
    revision = V2024_11_05 if way == "sse" else LATEST_LEGACY
    one = stage.upstream("one", LATEST_LEGACY, **script(asks=steps))
    async with arriving(stage, way, one) as (host, _):
        await host.open(revision, CAPABILITIES)
        host.answers = {ROOTS: ANSWERS["roots"]["accept"]}
        assert await host.names() == ["one__asks"]
        await one.do(ROOTS_STEP)
        await host.asked(ROOTS)
        answer = await one.changes.until(
            lambda: [line for line in one.received() if line.frame.get("id") == "r"], "the answer"
        )
        assert answer[0].frame["result"] == ANSWERS["roots"]["accept"]
        assert told(await call(host, "asks"), LATEST_LEGACY)["s"] == ANSWERS["roots"]["accept"]
        assert len(host.requests) == 2


async def test_what_is_asked_outside_any_call_waits_for_one_of_a_modern_host(stage: Stage) -> None:
    steps = [{"answered": "r"}, {"told": True}]
    one = stage.upstream("one", LATEST_LEGACY, **script(asks=steps))
    async with stage.mcpx(one) as host:
        await host.open(LATEST_MODERN, CAPABILITIES)
        host.answers = {ROOTS: ANSWERS["roots"]["accept"]}
        assert await host.names() == ["one__asks"]
        said = len(one.seen("out"))
        await one.do(ROOTS_STEP)
        await one.happened("out", said + 1)
        assert told(await call(host, "asks"), LATEST_LEGACY)["r"] == ANSWERS["roots"]["accept"]
        assert [question["method"] for question in questions(host)] == [ROOTS]
