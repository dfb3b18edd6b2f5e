"""Who may come in by HTTP, as a command line says it."""

from __future__ import annotations

import pytest

from mcpx.errors import ConfigError
from mcpx.host.http.access import LOOPBACK, check_token, host_of, is_wildcard, normal_origin, plan_access

LOCAL = ("127.0.0.1", 8000)


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8000", "localhost"),
        ("localhost.:8000", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("127.0.0.1:", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:8000", "::1"),
        ("[0:0::1]:8000", "::1"),
        ("mcp.example.com", "mcp.example.com"),
        ("", None),
        (":8000", None),
        ("::1", None),
        ("[127.0.0.1]", None),
        ("[]", None),
        ("localhost:x", None),
        ("localhost:1:2", None),
        ("user@localhost", None),
        ("localhost, evil.example", None),
        ("localhost/../evil", None),
        ("localhost evil.example", None),
        ("localhost\\@evil.example", None),
        ("[fe80::1%eth0]:1", "fe80::1"),
        ("127.0.0.1%evil.example", None),
        ("127.0.0.1%25.evil.example", None),
        ("local%68ost", None),
    ],
)
def test_the_host_of_a_header(header: str, host: str | None) -> None:
    assert host_of(header) == host


@pytest.mark.parametrize(
    ("origin", "normal"),
    [
        ("http://localhost", "http://localhost"),
        ("HTTP://LocalHost:80", "http://localhost"),
        ("https://app.example:443", "https://app.example"),
        ("https://app.example:4443", "https://app.example:4443"),
        ("http://app.example:443", "http://app.example:443"),
        ("vscode-webview://1a2b", "vscode-webview://1a2b"),
    ],
)
def test_the_spelling_of_an_origin(origin: str, normal: str) -> None:
    assert normal_origin(origin) == normal


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0::0"])
def test_an_address_that_stands_for_all_is_no_name(host: str) -> None:
    assert is_wildcard(host)
    assert plan_access((host, 8000), token="x").hosts == LOOPBACK


def test_what_is_served_is_a_name() -> None:
    assert plan_access(LOCAL, token=None).hosts == LOOPBACK
    assert plan_access(("127.0.0.2", 1), token=None).hosts == LOOPBACK | {"127.0.0.2"}
    assert plan_access(("Box.Lan", 1), token="x").hosts == LOOPBACK | {"box.lan"}
    assert plan_access(("2001:DB8:0::1", 1), token="x").hosts == LOOPBACK | {"2001:db8::1"}


def test_names_and_origins_that_are_added() -> None:
    access = plan_access(
        LOCAL,
        token=None,
        hosts=["MCP.example.com", "10.0.0.1", "[::2]", "::3"],
        origins=["https://App.example", "http://x.example:80", "vscode-webview://1a2b"],
    )
    assert access.hosts == LOOPBACK | {"mcp.example.com", "10.0.0.1", "::2", "::3"}
    assert access.origins == {"https://app.example", "http://x.example", "vscode-webview://1a2b"}


@pytest.mark.parametrize("host", ["", "a.example:80", "*", "*.example", "http://a.example", "a b", "a/b", "[::1]:80"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(ConfigError, match="--allow-host needs a host name"):
        plan_access(LOCAL, token=None, hosts=[host])


@pytest.mark.parametrize(
    "origin",
    ["", "null", "*", "app.example", "https://app.example/", "https://app.example/x", "https://*.example", "https://",
     "https://u@app.example", "https://[", "https://app.example?x", "https://app.example#x"],
)  # fmt: skip
def test_what_is_no_origin(origin: str) -> None:
    with pytest.raises(ConfigError, match="--allow-origin needs an origin"):
        plan_access(LOCAL, token=None, origins=[origin])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "192.168.1.5", "box.lan", "127.0.0.1.example", "*"])
def test_where_others_could_come_a_token_is_needed(host: str) -> None:
    with pytest.raises(ConfigError, match="needs a token"):
        plan_access((host, 8000), token=None)
    assert plan_access((host, 8000), token="x").token == "x"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_this_machine_alone_needs_none(host: str) -> None:
    assert plan_access((host, 8000), token=None).token is None


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_access(("0.0.0.0", 1), token=None, hosts=["*", "x y"], origins=["null"])
    assert len(caught.value.problems) == 4


def test_a_token_is_taken_without_what_is_around_it() -> None:
    assert check_token(" s3cret-t0ken\r\n", "file") == "s3cret-t0ken"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no token"),
        (" \n", "holds no token"),
        ("1234567", "less than 8"),
        ("two words", "no spaces"),
        ("one\ntwo three", "no spaces"),
        ("t\u00f6kent\u00f6ken", "letters, digits"),
        ("abcdefg\0b", "letters, digits"),
    ],
)
def test_a_token_that_no_header_could_carry(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        check_token(text, "the file")
    assert "the file" in str(caught.value)
    assert not text.strip() or text not in str(caught.value)
