"""``roots`` in the configuration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpx.config.load import load
from mcpx.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

SERVER = {"command": "python"}


def loaded(tmp_path: Path, document: dict[str, Any], **environ: str) -> Any:
    file = tmp_path / "mcpx.json"
    file.write_text(json.dumps(document))
    return load(str(file), {"HOME": "/home/me", **environ}, tmp_path)


def test_a_servers_own_come_before_the_files(tmp_path: Path) -> None:
    one = {**SERVER, "roots": ["file:///own"]}
    document = {"mcpServers": {"one": one, "two": SERVER, "three": {**SERVER, "roots": []}}, "roots": ["file:///all"]}
    servers = loaded(tmp_path, document).settings.servers
    assert [server.roots for server in servers] == [("file:///own",), ("file:///all",), ()]


def test_paths_become_uris_from_the_files_folder(tmp_path: Path) -> None:
    roots = ["src", "../a b", ".", "/abs/x", "${HOME}/é", "file:///as%20it/is", "C:"]
    [server] = loaded(tmp_path, {"mcpServers": {"one": SERVER}, "roots": roots}).settings.servers
    assert server.roots == (
        f"file://{tmp_path}/src",
        f"file://{tmp_path.parent}/a%20b",
        f"file://{tmp_path}",
        "file:///abs/x",
        "file:///home/me/%C3%A9",
        "file:///as%20it/is",
        f"file://{tmp_path}/C%3A",
    )


@pytest.mark.parametrize(
    ("roots", "problem"),
    [
        ("/one", "must be a list of strings"),
        ([5], "must be a string"),
        ([""], "is empty"),
        (["https://example.org/x"], "not https:"),
        (["file://host/x"], "three slashes"),
        (["file:/x"], "three slashes"),
        (["${NOWHERE}/x"], "NOWHERE"),
    ],
)
@pytest.mark.parametrize("within", [True, False])
def test_what_is_no_root_is_a_mistake(tmp_path: Path, within: bool, roots: Any, problem: str) -> None:
    one = {**SERVER, "roots": roots} if within else SERVER
    document = {"mcpServers": {"one": one}, **({} if within else {"roots": roots})}
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, document)
    assert problem in str(caught.value)
    assert "roots" in str(caught.value)


def test_a_tilde_is_a_name_and_likely_a_mistake(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"mcpServers": {"one": SERVER}, "roots": ["~/project"]})
    assert any("${HOME}" in warning for warning in found.warnings)
