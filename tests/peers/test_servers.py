"""The reference servers behind mcpx: list everything, call something real, read something real."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

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


@pytest.mark.deadline(60)
@every_host_era
async def test_everything(run: Run, host: str) -> None:
    visit = [
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
    report = await run.host(host, run.mcpx({"every": reference(run, "everything")}), visit=visit)

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
    assert document["contents"][0]["uri"] == visit[6][1]
    assert "Features" in document["contents"][0]["text"]
    assert dynamic["contents"][0]["text"].startswith("Resource 1")
    assert "Ulm" in prompt["messages"][0]["content"]["text"]


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
