"""Secrets do not come out."""

from __future__ import annotations

import pytest

from mcpx.config import Redactor, redact_url, secrets_of
from mcpx.settings import ServerSettings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("https://example.com:8443/mcp?key=hush#hush", "https://example.com:8443/mcp?***"),
        ("https://me:hush@example.com/", "https://***@example.com/"),
        ("https://hush@example.com", "https://***@example.com"),
        ("unix:///run/mcp.sock", "unix:///run/mcp.sock"),
    ],
)
def test_redact_url(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_secrets_of() -> None:
    servers = [
        ServerSettings(name="a", command="x", env={"TOKEN": "token-value", "DEBUG": "1"}),
        ServerSettings(
            name="b", url="https://someone:password@h/?query-value", headers={"Authorization": "Bearer header-value"}
        ),
    ]
    assert secrets_of(servers) == {
        "token-value",
        "someone",
        "password",
        "query-value",
        "Bearer header-value",
        "header-value",
    }


def test_redactor_leaves_no_tail() -> None:
    redact = Redactor({"secret", "secret-longer"})
    assert redact("a secret-longer, a secret; a.b") == "a ***, a ***; a.b"
    assert Redactor()("anything") == "anything"
    assert Redactor({"a.c+[x"})("abc a.c+[x") == "abc ***"
