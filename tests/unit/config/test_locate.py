"""The folders: where a user's configuration is looked for, where mcpx keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpx.config.locate import candidates, state_folder

CWD = Path("/cwd")


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"HOME": "/h"}, "linux", ["/cwd/mcpx.json", "/h/.config/mcpx/mcpx.json"]),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "linux", ["/cwd/mcpx.json", "/c/mcpx/mcpx.json"]),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "c"}, "linux", ["/cwd/mcpx.json", "/h/.config/mcpx/mcpx.json"]),
        ({"HOME": "/h", "XDG_CONFIG_HOME": ""}, "linux", ["/cwd/mcpx.json", "/h/.config/mcpx/mcpx.json"]),
        (
            {"HOME": "/h"},
            "darwin",
            ["/cwd/mcpx.json", "/h/.config/mcpx/mcpx.json", "/h/Library/Application Support/mcpx/mcpx.json"],
        ),
        ({}, "linux", ["/cwd/mcpx.json"]),
        ({"HOME": "relative"}, "darwin", ["/cwd/mcpx.json"]),
    ],
)
def test_candidates(environ: dict[str, str], platform: str, expected: list[str]) -> None:
    assert [str(path) for path in candidates(environ, CWD, platform)] == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.local/state/mcpx"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/mcpx"),
        ({"HOME": "/h", "XDG_STATE_HOME": "s"}, "/h/.local/state/mcpx"),
        ({"XDG_STATE_HOME": "/s"}, "/s/mcpx"),
        ({}, None),
    ],
)
def test_state_folder(environ: dict[str, str], expected: str | None) -> None:
    assert state_folder(environ) == expected
