"""The reference servers behind mcpx: list everything, call something real, read something real."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.revisions import LATEST_LEGACY
from tests.peers.over_http import listening, serving, visit

if TYPE_CHECKING:
    from tests.peers.running import Run

every_host_era = pytest.mark.parametrize("host", ["py2-legacy", "py2-auto"])


def reference(run: Run, name: str, *arguments: str, **env: str) -> dict[str, Any]:
    """A configuration entry of a reference server."""
    program = run.peers.package(f"@modelcontextprotocol/server-{name}", "dist/index.js")
    entry = run.entry([str(run.peers.node), str(program), *arguments])
    entry["env"] |= env
    return entry


def text(result: dict[str, Any]) -> str:
    """The text of a result of one text block."""
    (block,) = result["content"]
    return block["text"]


EVERYTHING = [
    ["tool", "every__echo", {"message": "grüße"}],
    ["tool", "every__get-sum", {"a": 1, "b": 2}],
    ["tool", "every__get-structured-content", {"location": "New York"}],
    ["tool", "every__get-tiny-image", {}],
    ["tool", "every__get-resource-links", {"count": 2}],
    ["tool", "every__trigger-long-running-operation", {"duration": 0.2, "steps": 2}],
    ["resource", "mcpx://every/demo://resource/static/document/features.md"],
    ["resource", "mcpx://every/demo://resource/dynamic/text/1"],
    ["prompt", "every__args-prompt", {"city": "Ulm"}],
]


@pytest.mark.deadline(60)
@every_host_era
async def test_everything(run: Run, host: str) -> None:
    check_everything(await run.host(host, run.mcpx({"every": reference(run, "everything")}), visit=EVERYTHING))


def check_everything(report: dict[str, Any]) -> None:
    """Hold a host's lists, and the results of these calls, against what the server is known for."""
    assert {"every__echo", "every__get-sum", "every__get-annotated-message"} <= set(report["tools"])
    assert all(name.startswith("every__") for name in report["tools"])
    assert "every__simple-prompt" in report["prompts"]
    assert "mcpx://every/demo://resource/static/document/features.md" in report["resources"]
    assert report["templates"] == [
        "mcpx://every/demo://resource/dynamic/text/{resourceId}",
        "mcpx://every/demo://resource/dynamic/blob/{resourceId}",
    ]
    echo, total, weather, image, links, long, document, dynamic, prompt = report["results"]
    assert text(echo) == "Echo: grüße"
    assert text(total) == "The sum of 1 and 2 is 3."
    assert weather["structuredContent"] == json.loads(text(weather))
    assert {"type": "image", "mimeType": "image/png"}.items() <= image["content"][1].items()
    uris = [block["uri"] for block in links["content"] if block["type"] == "resource_link"]
    assert uris
    assert all(uri.startswith("mcpx://every/demo://resource/dynamic/") for uri in uris)
    assert "Long running operation completed" in text(long)
    assert document["contents"][0]["uri"] == EVERYTHING[6][1]
    assert "Features" in document["contents"][0]["text"]
    assert dynamic["contents"][0]["text"].startswith("Resource 1")
    assert "Ulm" in prompt["messages"][0]["content"]["text"]


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("mode", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
async def test_everything_over_http(run: Run, mode: str, path: str) -> None:
    """Its two modes behind every way to use mcpx: ``discover`` and ``check``, a host on stdio, hosts over HTTP."""
    program = run.peers.package("@modelcontextprotocol/server-everything", "dist/index.js")
    announced = [str(run.peers.node), "--import", str(run.programs / "announce.mjs")]  # it logs the port it was given
    with listening(run, [*announced, str(program), mode], PORT="0") as (_, address):
        serve = run.mcpx({"every": {"url": address + path}})
        mcpx, config = serve[:3], serve[4:]
        found = json.loads(await run.run([*mcpx, "discover", "--json", address + path]))
        assert found["serverInfo"]["name"] == "mcp-servers/everything"
        assert (found["era"], found["revision"]) == ("legacy", LATEST_LEGACY)
        assert "1 of 1 servers came up." in await run.run([*mcpx, "check", *config])
        check_everything(await run.host("py2-auto", serve, visit=EVERYTHING))
        assert run.complaints() == []
        async with serving(run, serve) as site:
            for host in ("py2-legacy", "py2-auto"):
                check_everything(await visit(run, host, site, visit=EVERYTHING))
        assert run.complaints() == []


@pytest.mark.deadline(60)
@every_host_era
async def test_filesystem(run: Run, host: str) -> None:
    folder = run.home / "files"
    folder.mkdir()
    file = folder / "notiz.txt"
    visit = [
        ["tool", "files__list_allowed_directories", {}],
        ["tool", "files__write_file", {"path": str(file), "content": "über\n"}],
        ["tool", "files__read_text_file", {"path": str(file)}],
        ["tool", "files__read_text_file", {"path": "/etc/hostname"}],
    ]
    report = await run.host(host, run.mcpx({"files": reference(run, "filesystem", str(folder))}), visit=visit)
    assert "files__directory_tree" in report["tools"]
    assert report["prompts"] == report["resources"] == []
    allowed, written, read, refused = report["results"]
    assert text(allowed) == f"Allowed directories:\n{folder}"
    assert written["isError"] is False
    assert file.read_text() == "über\n"
    assert read["structuredContent"] == {"content": "über\n"}
    assert refused["isError"] is True
    assert "Access denied" in text(refused)


ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


@pytest.mark.deadline(60)
@pytest.mark.parametrize("way", ["pipes", "http"])
@every_host_era
async def test_filesystem_is_told_its_folders_by_the_host(run: Run, host: str, way: str) -> None:
    """Without folders on its command line it asks for roots, right after the handshake, and serves those."""
    folder = run.home / "files"
    folder.mkdir()
    (folder / "notiz.txt").write_text("über\n")
    serve = run.mcpx({"files": reference(run, "filesystem")})
    plan: dict[str, Any] = {
        "answers": {ROOTS: [{"roots": [{"uri": folder.as_uri(), "name": "files"}]}]},
        "visit": [
            ["tool", "files__list_allowed_directories", {}],
            ["tool", "files__list_allowed_directories", {}],
            ["tool", "files__read_text_file", {"path": str(folder / "notiz.txt")}],
            ["tool", "files__read_text_file", {"path": "/etc/hostname"}],
        ],
    }
    if way == "pipes":
        report = await run.host(host, serve, **plan)
    else:
        async with run.clearing(), serving(run, serve) as site:
            report = await visit(run, host, site, **plan)
    assert report["asked"] == [[ROOTS, None]]
    # It looks at what it was told while it already answers the first call that comes after that.
    _, allowed, read, refused = report["results"]
    assert text(allowed) == f"Allowed directories:\n{folder}"
    assert read["structuredContent"] == {"content": "über\n"}
    assert refused["isError"] is True
    assert "Access denied" in text(refused)


# Which of the tools of ``server-everything`` are there by what it was told of its host.
BY_CAPABILITY = {
    ELICIT: {"every__trigger-elicitation-request", "every__trigger-url-elicitation"},
    SAMPLE: {"every__trigger-sampling-request"},
    ROOTS: {"every__get-roots-list"},
}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    ELICIT: [{"action": "accept", "content": {"name": "Ada", "integer": 7}}, {"action": "decline"}],
    SAMPLE: [{"role": "assistant", "model": "oracle-1", "content": {"type": "text", "text": "Paris"}}],
    ROOTS: [{"roots": [{"uri": "file:///srv/one", "name": "one"}]}],
}


@pytest.mark.deadline(60)
@pytest.mark.parametrize("kinds", [[], [ELICIT], [SAMPLE, ROOTS], [ELICIT, SAMPLE, ROOTS]], ids=len)
@every_host_era
async def test_everything_offers_what_its_host_can_be_asked(run: Run, host: str, kinds: list[str]) -> None:
    serve = run.mcpx({"every": reference(run, "everything")})
    report = await run.host(host, serve, visit=[], answers={kind: ANSWERS[kind] for kind in kinds})
    offered = set(report["tools"])
    for kind, tools in BY_CAPABILITY.items():
        assert offered & tools == (tools if kind in kinds else set())


@pytest.mark.deadline(60)
@pytest.mark.parametrize("way", ["pipes", "http"])
@every_host_era
async def test_everything_asks(run: Run, host: str, way: str) -> None:
    serve = run.mcpx({"every": reference(run, "everything")})
    plan: dict[str, Any] = {
        "answers": ANSWERS,
        "visit": [
            ["tool", "every__trigger-elicitation-request", {}],
            ["tool", "every__trigger-elicitation-request", {}],
            ["tool", "every__trigger-sampling-request", {"prompt": "Which capital?", "maxTokens": 50}],
            ["tool", "every__get-roots-list", {}],
        ],
    }
    if way == "pipes":
        report = await run.host(host, serve, **plan)
    else:
        async with run.clearing(), serving(run, serve) as site:
            report = await visit(run, host, site, **plan)
    accepted, declined, sampled, roots = (result["content"] for result in report["results"])
    assert accepted[1]["text"] == "User inputs:\n- Name: Ada\n- Favorite Integer: 7"
    assert "User declined" in declined[0]["text"]
    assert '"Paris"' in sampled[0]["text"]
    assert "file:///srv/one" in roots[0]["text"]
    asked = [method for method, _ in report["asked"]]
    # For roots it asks a third of a second after the handshake, and once more where it does not know them when called.
    assert [asked.count(method) for method in (ELICIT, SAMPLE)] == [2, 1]
    assert asked.count(ROOTS) in (1, 2)


@pytest.mark.deadline(60)
@every_host_era
async def test_memory(run: Run, host: str) -> None:
    """Its graph outlives its process: what one run of mcpx stores, the next one reads."""
    serve = run.mcpx({"memory": reference(run, "memory", MEMORY_FILE_PATH=str(run.home / "graph.jsonl"))})
    entity = {"name": "mcpx", "entityType": "program", "observations": ["written in Python"]}
    stored = await run.host(host, serve, visit=[["tool", "memory__create_entities", {"entities": [entity]}]])
    assert stored["results"][0]["structuredContent"] == {"entities": [entity]}

    uri = "mcpx://memory/memory://knowledge-graph"
    found = await run.host(host, serve, visit=[["tool", "memory__read_graph", {}], ["resource", uri]])
    assert found["resources"] == [uri]
    graph, resource = found["results"]
    assert graph["structuredContent"] == {"entities": [entity], "relations": []}
    assert resource["contents"][0]["uri"] == uri
    assert json.loads(resource["contents"][0]["text"])["entities"] == [entity]
