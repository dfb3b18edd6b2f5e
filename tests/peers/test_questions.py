"""Real hosts that answer what real servers ask, with mcpx between: each pair of eras, on pipes and over HTTP.

The servers on the SDKs 1.x ask by requests, those on the SDKs 2.x in results to a host of their own era; so do the
hosts hear of it. Neither side sees that the other does it in another way.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.over_http import HTTP_HOSTS, listening, serving, visit
from tests.peers.running import HOSTS, MODERN_HOSTS, SERVERS, Run
from tests.peers.town import Town

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.peers.environments import Peers

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
TOOLS = {"ask_name": ELICIT, "ask_model": SAMPLE, "ask_roots": ROOTS}
ROOT = "file:///srv/%C3%BCber%20uns"
REFUSAL = "User rejected sampling request"
# What a host answers: the first time that it is asked, it agrees, and then not.
ANSWERS: dict[str, list[dict[str, Any]]] = {
    ELICIT: [{"action": "accept", "content": {"name": "Ada Łovelace"}}, {"action": "decline"}],
    SAMPLE: [
        {
            "role": "assistant",
            "model": "oracle-1",
            "content": {"type": "text", "text": "Paris"},
            "stopReason": "endTurn",
        },
        {"error": {"code": -1, "message": REFUSAL}},
    ],
    ROOTS: [{"roots": [{"uri": ROOT, "name": "ours"}]}, {"roots": []}],
}
SAID = ["accept Ada Łovelace", "oracle-1: Paris", ROOT]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, peers: Peers, programs: Path) -> Iterator[Town]:
    """Every server over HTTP, offering the tools that ask."""
    house = Run(tmp_path_factory.mktemp("asking"), peers, programs)
    with ExitStack() as stack:
        addresses = {
            name: stack.enter_context(listening(house, house.http_server(name), PEER_ASKS="1"))[1] for name in SERVERS
        }
        yield Town(addresses, house)


def calls(*servers: str) -> list[list[Any]]:
    """Two calls of each tool that asks, of one server after the other."""
    return [[f"{server}__{tool}", {}] for server in servers for _ in range(2) for tool in TOOLS]


def check(report: dict[str, Any]) -> None:
    """Each question reached its host, once, and each answer the server that asked."""
    said, asked = _rounds(report["said"]), _rounds(report["asked"])
    assert len(said) == len(asked)
    for willing, unwilling in zip(said[::2], said[1::2], strict=True):
        assert [one["message"] for one in willing] == SAID
        name, model, roots = unwilling
        assert name["message"] == "decline"
        assert REFUSAL in model["message"]  # an error of the call, or, of a server whose tool failed of it, a result
        assert model.get("isError", True)
        assert roots["message"] == ""
    for questions in asked:
        assert [method for method, _ in questions] == list(TOOLS.values())
        (_, form), (_, prompt), _ = questions
        assert form["message"] == "What is your name?"
        assert form["requestedSchema"]["properties"]["name"]["type"] == "string"
        assert form["requestedSchema"]["required"] == ["name"]
        [message] = prompt["messages"]
        assert message["content"]["text"] == "What is the capital of France?"
        assert prompt["maxTokens"] == 50


def _rounds(entries: list[Any]) -> list[list[Any]]:
    return [entries[start : start + len(TOOLS)] for start in range(0, len(entries), len(TOOLS))]


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", HOSTS)
async def test_on_pipes(run: Run, host: str) -> None:
    entries = {server: run.entry(run.server(server)) for server in SERVERS}
    for entry in entries.values():
        entry["env"]["PEER_ASKS"] = "1"
    check(await run.host(host, run.mcpx(entries), do="call", calls=calls(*SERVERS), answers=ANSWERS))
    assert run.complaints() == []


# The SDK 1.x for Python asks for roots without a word of which call it is for. Of a server that all hosts without a
# connection have in common, it is then anybody's; see test_what_belongs_to_no_call_is_asked_of_nobody.
NAMELESS = "py1"
NO_CONNECTION = [name for name, (host, _) in HTTP_HOSTS.items() if host in MODERN_HOSTS]


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", HTTP_HOSTS)
async def test_over_http(run: Run, asking: Town, host: str) -> None:
    servers = [server for server in SERVERS if server != NAMELESS or host not in NO_CONNECTION]
    async with run.clearing(), serving(run, run.mcpx(asking.entries(*servers))) as site:
        check(await visit(run, host, site, do="call", calls=calls(*servers), answers=ANSWERS))
    assert run.complaints() == []


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", ["py1", "ts2-legacy"])
async def test_by_sse(run: Run, asking: Town, host: str) -> None:
    """All that a server of HTTP+SSE asks comes on the one stream of its host."""
    ways = ["py1-sse", "py2-sse", "ts1-32-sse", "ts1-22-sse"]
    async with run.clearing(), serving(run, run.mcpx(asking.entries(*ways))) as site:
        check(await visit(run, host, site, do="call", calls=calls(*ways), answers=ANSWERS))
    assert run.complaints() == []


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", ["py2-modern", "ts2-auto"])
async def test_what_belongs_to_no_call_is_asked_of_nobody(run: Run, asking: Town, host: str) -> None:
    async with run.clearing(), serving(run, run.mcpx(asking.entries(NAMELESS))) as site:
        report = await visit(run, host, site, do="call", calls=calls(NAMELESS)[:3], answers=ANSWERS)
    name, model, roots = report["said"]
    assert [name["message"], model["message"]] == SAID[:2]
    assert roots["isError"]
    assert "It is not certain which request this belongs to" in roots["message"]
    assert [method for method, _ in report["asked"]] == [ELICIT, SAMPLE]


@pytest.mark.deadline(60)
@pytest.mark.parametrize("host", ["py2-legacy", "py2-auto", "ts1-32", "ts2-modern"])
async def test_a_host_that_declares_nothing_is_asked_nothing(run: Run, host: str) -> None:
    """What the servers then say is their own: that this cannot be asked."""
    entries = {server: run.entry(run.server(server)) for server in ("py2", "ts1-32")}
    for entry in entries.values():
        entry["env"]["PEER_ASKS"] = "1"
    report = await run.host(host, run.mcpx(entries), do="call", calls=calls(*entries), answers={})
    assert report["asked"] == []
    assert [one.get("isError", True) for one in report["said"]] == [True] * len(report["said"])


@pytest.mark.deadline(60)
@pytest.mark.parametrize("answers", [ANSWERS, {}], ids=["asked", "not asked"])
@pytest.mark.parametrize("host", ["py2-modern", "ts2-auto"])
async def test_calls_in_a_row_meet_one_process(run: Run, host: str, answers: dict[str, Any]) -> None:
    """A host without a connection is one of many, and what it did before is still there: a browser, a database."""
    servers = ("py1", "ts1-32")
    entries = {server: run.entry(run.server(server)) for server in servers}
    for entry in entries.values():
        entry["env"]["PEER_ASKS"] = "1"
    counts = [[f"{server}__count", {}] for server in servers for _ in range(10)]
    async with run.clearing(), serving(run, run.mcpx(entries)) as site:
        report = await visit(run, host, site, do="call", calls=counts, answers=answers)
    assert [one["message"] for one in report["said"]] == 2 * [str(number) for number in range(1, 11)]
    assert len(run.recorded("started")) == len(servers)
