"""What passes through whatever the eras: trace context, ``_meta`` keys that are nobody's here, and extensions.

Trace context is ``traceparent``, ``tracestate`` and ``baggage`` (2026-07-28 basic/index, _meta). The reserved keys are
mcpx's own on each hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PREFIX, PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_MODERN, REVISIONS, is_modern
from tests.support.http_front import Front, fronted
from tests.support.http_hosts import http_host, serving_http
from tests.support.scripted import PROMPT, RESOURCE, TOOL

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.scripted import Scripted
    from tests.support.stage import Stage

TRACE: dict[str, Any] = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=a,other=b",
    "baggage": "user=é,n=1",
}
FOREIGN: dict[str, Any] = {"example.org/n": 1.0, "example.org/deep": {"a": [None, {}]}, "plain": True}
ITEMS: dict[str, Any] = {"tools": [TOOL], "prompts": [PROMPT], "resources": [RESOURCE]}
CALLS = [
    ("tools/call", {"name": "one__echo", "arguments": {}}),
    ("prompts/get", {"name": "one__greet", "arguments": {"who": "me"}}),
    ("resources/read", {"uri": "mcpx://one/file:///notes.txt"}),
]
UI = "io.modelcontextprotocol/ui"
RESERVED = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO})


async def use(host: Host, revision: str) -> None:
    await host.open(revision)
    await host.names()
    for method, params in CALLS:
        answer = await host.request(method, params, meta={**TRACE, **FOREIGN, "progressToken": "mine"})
        assert FOREIGN.items() <= answer.result["_meta"].items()
        assert SUBSCRIPTION_ID not in answer.result["_meta"]
    notes = [note.params for note in host.notifications if note.method == "notifications/progress"]
    assert [note["progressToken"] for note in notes] == ["mine"]
    assert notes[0]["_meta"] == FOREIGN


def check(one: Scripted, revision: str) -> None:
    for method, _ in CALLS:
        [line] = one.received(method)
        meta = line.frame["params"]["_meta"]
        assert {key: meta[key] for key in TRACE} == TRACE
        assert {key: meta[key] for key in FOREIGN} == FOREIGN
        others = meta.keys() - TRACE.keys() - FOREIGN.keys()
        assert others == {"progressToken", *(RESERVED if is_modern(revision) else ())}
        assert meta["progressToken"] != "mine"
        assert '"baggage":"user=é,n=1"' in line.text.replace("\\u00e9", "é").replace(", ", ",").replace(": ", ":")


def script(revision: str) -> dict[str, Any]:
    """An upstream whose results and progress bear keys of its own, and one that is not its to say."""
    says = {"_meta": {**FOREIGN, SUBSCRIPTION_ID: 7}}
    progress = {"progress": {"params": {"_meta": FOREIGN}}}
    return {
        **ITEMS,
        "calls": {"echo": [progress, {"result": {"content": [], **says}}]},
        "gets": {"greet": [{"result": {"messages": [], **says}}]},
        "reads": {RESOURCE["uri"]: [{"result": {"contents": [], **says}}]},
    }


@pytest.mark.parametrize("upstream", REVISIONS)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_trace_context_and_foreign_keys_pass(stage: Stage, revision: str, upstream: str) -> None:
    """On pipes, between every two revisions, both ways."""
    one = stage.upstream("one", upstream, **script(upstream))
    async with stage.mcpx(one) as host:
        await use(host, revision)
    check(one, upstream)


@pytest.mark.parametrize("upstream", [REVISIONS[-2], LATEST_MODERN])
@pytest.mark.parametrize("revision", [REVISIONS[-2], LATEST_MODERN])
async def test_trace_context_and_foreign_keys_pass_over_http(stage: Stage, revision: str, upstream: str) -> None:
    """The same by HTTP on both sides."""
    plain = {**script(upstream), "calls": {"echo": [{"result": {"content": [], "_meta": FOREIGN}}]}}
    one = stage.upstream("one", upstream, **plain)
    async with (
        fronted(one, Front) as url,
        serving_http(stage, servers={"one": {"url": url}}) as site,
        http_host(site) as host,
    ):
        await host.open(revision)
        answer = await host.call("one__echo", meta={**TRACE, **FOREIGN})
        assert FOREIGN.items() <= answer.result["_meta"].items()
    meta = one.received("tools/call")[0].frame["params"]["_meta"]
    assert {key: meta[key] for key in (*TRACE, *FOREIGN)} == {**TRACE, **FOREIGN}


async def test_extensions_are_declared_through_in_both_directions(stage: Stage) -> None:
    """Those of the host on each request, those of all servers together; but for tasks, which nobody is served."""
    one = stage.upstream("one", LATEST_MODERN, capabilities={"tools": {}, "extensions": {UI: {"a": 1}, "x/own": {}}})
    two = stage.upstream(
        "two", LATEST_MODERN, capabilities={"tools": {}, "extensions": {UI: {"b": 2}, PREFIX + "tasks": {}, "y/z": {}}}
    )
    declares = {"extensions": {UI: {"mimeTypes": ["text/html"]}, "z/mine": {"n": 1.0}}}
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_MODERN, declares)
        await host.names()
        discovered = await host.request("server/discover")
        assert discovered.result["capabilities"]["extensions"] == {UI: {"a": 1}, "x/own": {}, "y/z": {}}
        await host.call("one__echo")
        await host.call("two__echo")
    for upstream in (one, two):
        told = upstream.received("tools/call")[0].frame["params"]["_meta"][CLIENT_CAPABILITIES]
        assert told == declares
