"""What happens in every cell of the matrix, whatever carries it: a host uses everything that an upstream offers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcpx.spec.revisions import LATEST_MODERN, RANK, V2025_06_18, is_modern
from tests.matrix import content
from tests.matrix.content import said

if TYPE_CHECKING:
    from tests.support.fake_down import Host, Incoming
    from tests.support.scripted import Scripted

PREFIX = "mcpx://one/"
OF_THE_ERA = {"resultType", "ttlMs", "cacheScope"}  # what modern results have beside the payload


async def use_everything(peer: Host, host: str, upstream: str) -> None:
    """A host of one revision opens, lists, calls, reads, gets, fails and completes, in front of an upstream of another.

    The upstream is called "one", and goes by ``content.script``.
    """
    await peer.open(host)
    await _lists(peer, host, upstream)
    await _calls(peer, host, upstream)
    await _reads_and_prompts(peer, host, upstream)
    await _fails(peer, host)
    await _completes(peer, host)


def check_arrived(one: Scripted, host: str, upstream: str) -> None:
    """What the upstream saw of it."""
    arrived = one.received("tools/call")[0].frame["params"]
    assert arrived["name"] == "plain"
    assert arrived["_meta"]["example.org/asked"] == [1, None]
    assert '"arguments":{"n":1.0,"big":12345678901234567890}' in one.received("tools/call")[0].text.replace(" ", "")
    completion, of_template = (line.frame["params"] for line in one.received("completion/complete"))
    assert completion["ref"] == {"type": "ref/prompt", "name": "greet"}
    assert of_template["ref"] == {"type": "ref/resource", "uri": "file:///logs/{day}.txt"}
    knows_context = min(RANK[host], RANK[upstream]) >= RANK[V2025_06_18]
    assert completion.get("context") == ({"arguments": {"other": "x"}} if knows_context else None)


def _payload(answer: Incoming, revision: str) -> dict[str, Any]:
    """A result without what its era adds."""
    result = dict(answer.result)
    if is_modern(revision):
        meta = {key: value for key, value in result.get("_meta", {}).items() if "modelcontextprotocol" not in key}
        result = {key: value for key, value in result.items() if key not in OF_THE_ERA | {"_meta"}}
        return {**result, **({"_meta": meta} if meta else {})}
    return result


def _public(item: dict[str, Any]) -> dict[str, Any]:
    """An item under the name or URI that hosts see."""
    if "uri" in item:
        return {**item, "uri": PREFIX + item["uri"]}
    if "uriTemplate" in item:
        return {**item, "uriTemplate": PREFIX + item["uriTemplate"]}
    return {**item, "name": f"one__{item['name']}"}


async def _lists(peer: Host, host: str, upstream: str) -> None:
    for method, member, items in [
        ("tools/list", "tools", content.TOOLS),
        ("prompts/list", "prompts", content.PROMPTS),
        ("resources/list", "resources", content.RESOURCES),
        ("resources/templates/list", "resourceTemplates", content.TEMPLATES),
    ]:
        expected = [_public(said(item, host, upstream)) for item in items]
        assert await peer.all_items(method, member) == expected


async def _calls(peer: Host, host: str, upstream: str) -> None:
    both = min(host, upstream, key=RANK.__getitem__)
    asked, frame = peer.prepare("tools/call", {"name": "one__plain"}, meta={"example.org/asked": [1, None]})
    text = json.dumps(frame)[:-2] + ', "arguments": {"n": 1.0, "big": 12345678901234567890}}}'
    await peer.send_raw(text.encode() + b"\n")
    assert _payload(await asked.wait(), host) == {
        "content": [{"type": "text", "text": 'plain {"n": 1.0, "big": 12345678901234567890}'}]
    }

    structured = _payload(await peer.call("one__structured"), host)
    assert structured.pop("_meta") == content.META
    if RANK[upstream] < RANK[V2025_06_18]:
        assert structured == {"content": []}
    elif RANK[host] >= RANK[V2025_06_18]:
        assert structured == {"content": [], "structuredContent": {"a": 1}}
    else:
        assert structured == {"content": [{"type": "text", "text": '{"a": 1}'}]}

    listed = _payload(await peer.call("one__listed"), host)
    if both == LATEST_MODERN:
        assert listed == {"content": [], "structuredContent": [1, 2]}
    else:
        assert listed == {"content": [{"type": "text", "text": "[1, 2]"}] if is_modern(upstream) else []}

    blocks = _payload(await peer.call("one__blocks"), host)
    assert blocks.pop("x-own") == "kept"
    _same_blocks(blocks["content"], host, upstream)

    failing = _payload(await peer.call("one__failing"), host)
    assert failing == {"content": [{"type": "text", "text": "no"}], "isError": True}


def _same_blocks(blocks: list[dict[str, Any]], host: str, upstream: str) -> None:
    """Each content block as the host's revision has it, or in words where it has none."""
    sent = said(content.BLOCKS, upstream)
    assert len(blocks) == len(sent)
    for block, original in zip(blocks, said(content.BLOCKS, upstream), strict=True):
        kind = original["type"]
        if RANK[host] < RANK[content.BLOCK_SINCE[kind]]:
            assert block["type"] == "text"
            assert [words for words in content.REPLACED[kind] if words not in block["text"]] == []
            continue
        source = next(one for one in said(content.BLOCKS, LATEST_MODERN) if one["type"] == kind)
        expected = said(_unsaid(kind), host, upstream)
        if "uri" in source:
            expected = {**expected, "uri": PREFIX + source["uri"]}
        if "resource" in source:
            resource = {**expected["resource"], "uri": PREFIX + source["resource"]["uri"]}
            expected = {**expected, "resource": resource}
        assert block == expected


def _unsaid(kind: str) -> Any:
    blocks = {"text": content.TEXT, "image": content.IMAGE, "audio": content.AUDIO, "resource": content.EMBEDDED}
    return {**blocks, "resource_link": content.LINK}[kind]


async def _reads_and_prompts(peer: Host, host: str, upstream: str) -> None:
    read = _payload(await peer.request("resources/read", {"uri": PREFIX + "file:///notes.txt"}), host)
    assert read == {"contents": [{**one, "uri": PREFIX + one["uri"]} for one in content.CONTENTS]}
    expanded = PREFIX + "file:///logs/monday.txt"
    by_template = _payload(await peer.request("resources/read", {"uri": expanded}), host)
    assert by_template["contents"][0]["uri"] == expanded
    assert by_template["contents"][0]["text"] == "content of file:///logs/monday.txt"
    prompt = _payload(await peer.request("prompts/get", {"name": "one__greet", "arguments": {"who": "me"}}), host)
    assert prompt["description"] == "hello"
    assert prompt["_meta"] == content.META
    assert {message["role"] for message in prompt["messages"]} == {"user"}
    _same_blocks([message["content"] for message in prompt["messages"]], host, upstream)


async def _fails(peer: Host, host: str) -> None:
    assert (await peer.call("one__broken")).error == {
        "code": 1234,
        "message": "broken",
        "data": {"why": [1.0, None]},
    }
    for method, params in [
        ("tools/call", {"name": "one__nothing"}),
        ("tools/call", {"name": "nobody__plain"}),
        ("prompts/get", {"name": "one__nothing"}),
    ]:
        assert (await peer.request(method, params)).code == -32602
    for uri in (PREFIX + "other:/there", "mcpx://nobody/file:///notes.txt", "other:/there"):
        missing = await peer.request("resources/read", {"uri": uri})
        assert missing.code == (-32602 if is_modern(host) else -32002)


async def _completes(peer: Host, host: str) -> None:
    argument = {"name": "who", "value": "a"}
    of_prompt = {
        "ref": {"type": "ref/prompt", "name": "one__greet"},
        "argument": argument,
        **({"context": {"arguments": {"other": "x"}}} if RANK[host] >= RANK[V2025_06_18] else {}),
    }
    of_template = {"ref": {"type": "ref/resource", "uri": PREFIX + "file:///logs/{day}.txt"}, "argument": argument}
    for params in (of_prompt, of_template):
        result = (await peer.request("completion/complete", params)).result
        assert result["completion"] == {"values": ["a1", "a2"], "total": 2, "hasMore": False}
