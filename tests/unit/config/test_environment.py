"""What of mcpx's own environment a server is given."""

from __future__ import annotations

import pytest

from mcpx.settings import SAFE_VARIABLES, ServerSettings, server_environment

ENVIRON = {
    **{name: f"its {name}" for name in SAFE_VARIABLES},
    "LC_ALL": "C",
    "LC_TIME": "de_DE",
    "HTTPS_PROXY": "http://me:hush@proxy",
    "GITHUB_TOKEN": "hush",
    "MCPX_TOKEN": "hush",
    "LCX": "no",
}
SAFE = {name: value for name, value in ENVIRON.items() if name in SAFE_VARIABLES or name in ("LC_ALL", "LC_TIME")}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (ServerSettings(name="a"), SAFE),
        (ServerSettings(name="a", env={"A": "1", "HOME": "/x"}), {**SAFE, "A": "1", "HOME": "/x"}),
        (ServerSettings(name="a", inherit_env=()), SAFE),
        (ServerSettings(name="a", inherit_env=("GITHUB_TOKEN", "NOT_SET")), {**SAFE, "GITHUB_TOKEN": "hush"}),
        (ServerSettings(name="a", inherit_env=True, env={"LCX": "yes"}), {**ENVIRON, "LCX": "yes"}),
    ],
)
def test_server_environment(server: ServerSettings, expected: dict[str, str]) -> None:
    assert server_environment(server, ENVIRON) == expected


def test_a_shell_function_is_not_inherited_unasked() -> None:
    environ = {"TERM": "() { :; }", "PATH": "/bin"}
    assert server_environment(ServerSettings(name="a"), environ) == {"PATH": "/bin"}
    assert server_environment(ServerSettings(name="a", inherit_env=("TERM",)), environ) == environ


def test_what_is_not_set_is_not_made_up() -> None:
    assert server_environment(ServerSettings(name="a"), {}) == {}
