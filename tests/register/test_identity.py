"""LV-15 to LV-18, LV-21 to LV-23: who a peer says it is, in the fields of each revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcpx.spec.meta import CLIENT_INFO, SERVER_INFO
from mcpx.spec.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY,
    RANK,
    REVISIONS,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    is_modern,
)
from tests.support.scripted import EVERY_REQUEST, PROMPT, RESOURCE

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

DATA_ICON = {"src": "data:image/png;base64,AAAA", "mimeType": "image/png"}
HTTPS_ICON = {"src": "https://example.org/icon.png", "sizes": ["48x48"]}
UNSAFE = [{"src": uri} for uri in ("javascript:alert(1)", "http://example.org/i.png", "file:///etc/i.png", "ws://x/")]
INFO = {
    "name": "fake",
    "version": "9",
    "title": "A Fake",
    "description": "It pretends",
    "websiteUrl": "https://example.org/",
    "icons": [DATA_ICON, *UNSAFE, HTTPS_ICON],
}


async def _server_info(host: Host, revision: str) -> dict[str, Any]:
    result = (await host.open(revision)).result
    return result["_meta"][SERVER_INFO] if is_modern(revision) else result["serverInfo"]


async def _infos(stage: Stage, *, passthrough: bool) -> dict[str, dict[str, Any]]:
    """What mcpx says of itself, or of its one upstream, to hosts of every revision."""
    one = stage.upstream("one", info=INFO)
    async with stage.mcpx(one, args=["--passthrough", "one"] if passthrough else []) as host:
        return {revision: await _server_info(host, revision) for revision in REVISIONS}


async def _client_info(stage: Stage, revision: str) -> dict[str, Any]:
    """What an upstream that is pinned to a revision is told of who connects."""
    one = stage.upstream("one", revision, entry={"protocol": revision})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
    return one.received("initialize")[0].frame["params"]["clientInfo"]


def _have(infos: dict[str, dict[str, Any]], field: str) -> list[str]:
    return [revision for revision, info in infos.items() if field in info]


def _since(first: str) -> list[str]:
    return [revision for revision in REVISIONS if RANK[revision] >= RANK[first]]


async def test_lv_15_title_goes_to_revisions_that_have_it(stage: Stage) -> None:
    """mcpx's own title and an upstream's reach hosts from 2025-06-18 on, and upstreams alike."""
    own = await _infos(stage, passthrough=False)
    assert _have(own, "title") == _since(V2025_06_18)
    theirs = await _infos(stage, passthrough=True)
    assert _have(theirs, "title") == _since(V2025_06_18)
    assert theirs[V2025_06_18] == {"name": "fake", "version": "9", "title": "A Fake"}
    assert set(await _client_info(stage, V2025_03_26)) == {"name", "version"}
    assert set(await _client_info(stage, V2025_06_18)) == {"name", "version", "title"}


@pytest.mark.parametrize("passthrough", [False, True])
async def test_lv_16_description_goes_to_revisions_that_have_it(stage: Stage, passthrough: bool) -> None:
    """description from 2025-11-25 on, mcpx's own and an upstream's."""
    infos = await _infos(stage, passthrough=passthrough)
    assert _have(infos, "description") == _since(V2025_11_25)
    assert {info["name"] for info in infos.values()} == ({"fake"} if passthrough else {"mcpx"})


async def test_lv_17_icons_go_to_revisions_that_have_them(stage: Stage) -> None:
    """icons from 2025-11-25 on, without those whose URI is neither https: nor data:."""
    infos = await _infos(stage, passthrough=True)
    assert _have(infos, "icons") == _since(V2025_11_25)
    for revision in _since(V2025_11_25):
        assert infos[revision]["icons"] == [DATA_ICON, HTTPS_ICON]


@pytest.mark.parametrize("passthrough", [False, True])
async def test_lv_18_website_url_goes_to_revisions_that_have_it(stage: Stage, passthrough: bool) -> None:
    """websiteUrl from 2025-11-25 on: an upstream's where it has one, mcpx's own if it has one."""
    infos = await _infos(stage, passthrough=passthrough)
    have = _have(infos, "websiteUrl")
    assert have == (_since(V2025_11_25) if passthrough else [revision for revision in have if RANK[revision] >= 3])


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_21_upstreams_meet_mcpx(stage: Stage, revision: str) -> None:
    """With several upstreams each is told that mcpx connects, whoever asks."""
    one, two = stage.upstream("one", revision), stage.upstream("two", revision)
    async with stage.mcpx(one, two) as host:
        await host.open(LATEST_MODERN)
        await host.names()
        await host.call("one__echo")
    if is_modern(revision):
        told = [line.frame["params"]["_meta"][CLIENT_INFO] for line in one.received() + two.received()]
    else:
        told = [line.frame["params"]["clientInfo"] for line in one.received("initialize") + two.received("initialize")]
    assert {info["name"] for info in told} == {"mcpx"}


@pytest.mark.parametrize("host_revision", [V2025_06_18, LATEST_MODERN])
@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_21_in_pass_through_the_upstream_meets_the_host(
    stage: Stage, revision: str, host_revision: str
) -> None:
    """In pass-through the host's clientInfo is what the upstream is told, on a call in any case."""
    one = stage.upstream("one", revision)
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        await host.open(host_revision)
        await host.call("echo")
    if is_modern(revision):
        told = one.received("tools/call")[0].frame["params"]["_meta"][CLIENT_INFO]
    else:
        told = one.received("initialize")[0].frame["params"]["clientInfo"]
    assert told == host.info


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_lv_22_every_modern_result_says_whose_it_is(stage: Stage, revision: str) -> None:
    """serverInfo is in the metadata of every modern result and of no legacy one, beside the upstream's own metadata."""
    kept = [{"result": {"content": [], "_meta": {"example.org/kept": 1}}}]
    one = stage.upstream("one", revision, prompts=[PROMPT], resources=[RESOURCE], completes={}, calls={"echo": kept})
    async with stage.mcpx(one) as host:
        for host_revision in (LATEST_MODERN, *LEGACY):
            await host.open(host_revision)
            for method, params in EVERY_REQUEST:
                meta = (await host.request(method, params)).result.get("_meta", {})
                if is_modern(host_revision):
                    assert meta[SERVER_INFO]["name"] == "mcpx", method
                else:
                    assert SERVER_INFO not in meta, method
                if method == "tools/call":
                    assert meta["example.org/kept"] == 1


async def test_lv_22_in_pass_through_results_say_the_upstream(stage: Stage) -> None:
    """In pass-through serverInfo in the metadata is the upstream's, of either era."""
    for revision in (LATEST_LEGACY, LATEST_MODERN):
        one = stage.upstream(f"s{revision}", revision, info={"name": "own", "version": "7"})
        async with stage.mcpx(one, args=["--passthrough", one.name]) as host:
            await host.open(LATEST_MODERN)
            assert (await host.call("echo")).result["_meta"][SERVER_INFO] == {"name": "own", "version": "7"}


async def test_lv_23_discover_has_no_identity_at_top_level(stage: Stage) -> None:
    """DiscoverResult carries serverInfo in its metadata and not beside it."""
    async with stage.mcpx(stage.upstream("one")) as host:
        result = (await host.open(LATEST_MODERN)).result
        assert "serverInfo" not in result
        assert result["_meta"][SERVER_INFO]["name"] == "mcpx"


async def test_lv_23_an_upstream_is_read_from_its_metadata(stage: Stage) -> None:
    """The identity of a modern upstream is taken from _meta; one at top level of its answer is not believed."""
    result = {
        "supportedVersions": [LATEST_MODERN],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "false", "version": "0"},
        "_meta": {SERVER_INFO: {"name": "true", "version": "1"}},
    }
    one = stage.upstream("one", LATEST_MODERN, on={"server/discover": [{"result": result}]})
    async with stage.mcpx(one, args=["--passthrough", "one"]) as host:
        assert (await host.initialize(LATEST_LEGACY)).result["serverInfo"] == {"name": "true", "version": "1"}
