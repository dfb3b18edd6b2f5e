"""Roots out of the configuration: told to servers for hosts that declare none, and answered for them. Virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from msgspec import Raw

from mcpx.settings import Limits, ServerSettings
from mcpx.spec.meta import CLIENT_CAPABILITIES
from mcpx.upstream.call import Asker, InputRequired, Question
from mcpx.upstream.roots import answer_rest, answer_some, roots_result
from mcpx.upstream.supervisor import Supervisor
from mcpx.wire.frames import to_raw
from tests.support.running import in_virtual_time
from tests.unit.upstream.asking import DONE, FORM, asker, begin, nothing, reply, request
from tests.unit.upstream.fakes import FakeServer, surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.upstream.session import Session

PROJECT = "file:///home/me/project"
ANSWER = {"roots": [{"uri": PROJECT}]}
CHANGED = "notifications/roots/list_changed"
PLAIN = Asker("plain")
WITH_ROOTS = asker("rooted", {"roots": {"listChanged": True}})


class Field:
    def __init__(self) -> None:
        self.servers: list[FakeServer] = []
        self.unasked: list[Any] = []
        self.supervisor: Supervisor

    def take(self, unasked: Any) -> bool:
        self.unasked.append(unasked)
        return True

    @asynccontextmanager
    async def using(self, who: Asker) -> AsyncGenerator[tuple[Session, FakeServer]]:
        """A session that a host uses, and its server."""
        instance = await self.supervisor.lease(who)
        assert instance.session is not None
        await trio.testing.wait_all_tasks_blocked()
        try:
            yield instance.session, self.servers[-1]
        finally:
            self.supervisor.release(instance)


@asynccontextmanager
async def field(era: str, roots: tuple[str, ...] = (PROJECT,), *, scope: Any = "host") -> AsyncGenerator[Field]:
    found = Field()

    async def script(server: FakeServer) -> None:
        await (server.open_modern(tools={}) if era == "modern" else server.open_legacy())
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        found.supervisor = Supervisor(
            ServerSettings(name="fake", builtin="demo", limits=Limits(), scope=scope, roots=roots),
            surroundings(script, found.servers),
            None,
            nursery,
            heard=lambda *news: None,
            came_up=lambda supervisor: None,
            unasked=found.take,
        )
        yield found
        nursery.cancel_scope.cancel()


def declared(server: FakeServer) -> Any:
    """What a legacy server was told at its handshake."""
    return next(frame for frame in server.seen if frame.get("method") == "initialize")["params"]["capabilities"]


# -- legacy servers


@pytest.mark.parametrize("scope", ["host", "shared", "call"])
@in_virtual_time
async def test_a_legacy_server_is_told_of_them_and_answered(scope: Any) -> None:
    async with field("legacy", scope=scope) as one, one.using(PLAIN) as (_, server):
        assert declared(server) == {"roots": {}}
        server.say(id="r", method="roots/list")
        answer = await server.take()
        assert (answer["id"], answer["result"]) == ("r", ANSWER)
    assert one.unasked == []


@in_virtual_time
async def test_hosts_without_roots_share_an_instance() -> None:
    """It can ask none of them anything."""
    async with field("legacy") as one, one.using(PLAIN), one.using(Asker("other")):
        assert len(one.servers) == 1


@in_virtual_time
async def test_a_host_that_declares_roots_is_asked_itself() -> None:
    async with field("legacy") as one, one.using(WITH_ROOTS) as (_, server):
        assert declared(server) == {"roots": {"listChanged": True}}
        server.say(id="r", method="roots/list")
        await nothing(server)
        assert [one.question.method for one in one.unasked] == ["roots/list"]


@in_virtual_time
async def test_a_shared_instance_is_told_of_no_hosts_roots() -> None:
    async with field("legacy", scope="shared") as one, one.using(WITH_ROOTS) as (_, server):
        assert declared(server) == {"roots": {}}
        server.say(id="r", method="roots/list")
        assert (await server.take())["result"] == ANSWER


@in_virtual_time
async def test_without_any_the_server_is_told_of_none_and_refused() -> None:
    async with field("legacy", ()) as one, one.using(PLAIN) as (_, server):
        assert declared(server) == {}
        server.say(id="r", method="roots/list")
        assert (await server.take())["error"]["code"] == -32601


# -- modern servers


def asked(**questions: Any) -> dict[str, Any]:
    """A result that asks."""
    return {"resultType": "input_required", "inputRequests": questions, "requestState": "its é state"}


ROOTS: dict[str, Any] = {"method": "roots/list"}
FORM_ASKED: dict[str, Any] = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}


@pytest.mark.parametrize("takes", [True, False])
@in_virtual_time
async def test_a_modern_server_that_asks_for_nothing_else_is_answered_at_once(takes: bool) -> None:
    async with field("modern") as one, one.using(PLAIN) as (session, server):
        with session.call(request(PLAIN, takes_input_required=takes)) as call:
            first = await begin(call, server)
            assert first["params"]["_meta"][CLIENT_CAPABILITIES] == {"roots": {}}
            server.answer(first, asked(where=ROOTS))
            again = await begin(call, server)
            assert again["params"]["inputResponses"] == {"where": ANSWER}
            assert again["params"]["requestState"] == "its é state"
            assert again["id"] != first["id"]
            server.answer(again, {**DONE, "resultType": "complete"})
            assert (await reply(call))["content"] == []


@in_virtual_time
async def test_with_other_questions_a_host_that_retries_itself_is_left_those() -> None:
    who = asker("h", {"elicitation": {"form": {}}})
    async with field("modern") as one, one.using(who) as (session, server):
        with session.call(request(who, takes_input_required=True)) as call:
            server.answer(await begin(call, server), asked(where=ROOTS, who=FORM_ASKED))
            required = await call.next()
            assert isinstance(required, InputRequired)
            assert [one.key for one in required.questions] == ["who"]
        given = {"who": to_raw({"action": "decline"})}
        retry = request(who, takes_input_required=True, resumes=given, state=required.state)
        with session.call(retry) as call:
            again = await begin(call, server)
            assert again["params"]["inputResponses"] == {"who": {"action": "decline"}, "where": ANSWER}
            assert again["params"]["requestState"] == "its é state"


@in_virtual_time
async def test_with_other_questions_a_host_that_is_asked_is_asked_those() -> None:
    who = asker("h", {"elicitation": {"form": {}}})
    async with field("modern") as one, one.using(who) as (session, server):
        with session.call(request(who)) as call:
            server.answer(await begin(call, server), asked(where=ROOTS, who=FORM_ASKED))
            question = await call.next()
            assert isinstance(question, Question)
            assert question.method == "elicitation/create"
            call.answer(question.key, to_raw({"action": "cancel"}), "2025-11-25")
            again = await begin(call, server)
            assert again["params"]["inputResponses"] == {"who": {"action": "cancel"}, "where": ANSWER}


@pytest.mark.parametrize("state", [None, b'"\\u00e9 "', b'"mcpx.roots:{}"', b'"mcpx.roots:no json"', b'""'])
def test_the_servers_own_state_comes_back_byte_for_byte(state: bytes | None) -> None:
    """Whatever it looks like."""
    written = None if state is None else Raw(state)
    for method in ("roots/list", "elicitation/create"):
        required = answer_some(InputRequired((Question("k", method, {}, "2026-07-28"),), written, "2026-07-28", "one"))
        roots = roots_result([PROJECT])
        answers, given_back = answer_rest({"j": Raw(b"{}")}, required.state, roots)
        assert given_back == written
        assert answers == {"j": Raw(b"{}"), **({"k": roots} if method == "roots/list" else {})}


# -- changes of a host's roots


@in_virtual_time
async def test_a_legacy_server_hears_of_changes_where_the_host_has_promised_that() -> None:
    async with field("legacy") as one:
        async with one.using(WITH_ROOTS) as (_, server):
            one.supervisor.roots_changed(WITH_ROOTS)
            assert (await server.take())["method"] == CHANGED
            one.supervisor.roots_changed(PLAIN)
            one.supervisor.roots_changed(asker("other", {"roots": {"listChanged": True}}))
            await nothing(server)
        quiet = asker("quiet", {"roots": {}})
        async with one.using(quiet) as (_, server):
            one.supervisor.roots_changed(quiet)
            await nothing(server)
        async with one.using(PLAIN) as (_, server):
            one.supervisor.roots_changed(PLAIN)  # it has declared none: what is configured stays as it is
            await nothing(server)


@in_virtual_time
async def test_a_modern_server_hears_of_no_changes() -> None:
    async with field("modern") as one, one.using(WITH_ROOTS) as (_, server):
        one.supervisor.roots_changed(WITH_ROOTS)
        await nothing(server)
