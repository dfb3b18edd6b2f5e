"""What a request has to show before its body is read, in tables. No browser can choose its Host and its Origin."""

from __future__ import annotations

import json

import pytest

from mcpx.host.http.access import Access, plan_access
from mcpx.host.http.guard import HEALTH, check, cors
from mcpx.transports.http_server import HttpRequest

TOKEN = "s3cret-t0ken"
OPEN = plan_access(("127.0.0.1", 8000), token=None)
CLOSED = plan_access(("127.0.0.1", 8000), token=TOKEN)
PUBLIC = plan_access(
    ("0.0.0.0", 8000), token=TOKEN, hosts=["mcp.example.com"], origins=["https://app.example", "vscode-webview://1a2b"]
)


def request(method: str = "POST", path: str = "/mcp", **headers: str) -> HttpRequest:
    said = {"host": "127.0.0.1:8000", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpRequest(method, path, "", said, b"", "127.0.0.1")


def status(asked: HttpRequest, access: Access = OPEN) -> int | None:
    answer = check(asked, access)
    if answer is None:
        return None
    if answer.status >= 400:
        assert answer.headers["Content-Type"] == "application/json"
        error = json.loads(answer.body)
        assert error.keys() == {"jsonrpc", "error"}  # no id
        assert TOKEN not in answer.body.decode()
    return answer.status


@pytest.mark.parametrize(
    ("host", "access", "allowed"),
    [
        ("localhost:8000", OPEN, True),
        ("127.0.0.1", OPEN, True),
        ("[::1]:1234", OPEN, True),
        ("evil.example", OPEN, False),
        ("evil.example:8000", OPEN, False),
        ("localhost.evil.example", OPEN, False),
        ("127.0.0.1.evil.example", OPEN, False),
        ("mcp.example.com", OPEN, False),
        ("", OPEN, False),
        ("mcp.example.com", PUBLIC, True),
        ("MCP.example.com:443", PUBLIC, True),
        ("localhost", PUBLIC, True),
        ("0.0.0.0:8000", PUBLIC, False),
        ("192.168.1.5:8000", PUBLIC, False),
    ],
)
def test_host(host: str, access: Access, allowed: bool) -> None:
    asked = request(host=host, authorization=f"Bearer {TOKEN}")
    assert status(asked, access) == (None if allowed else 403)


def test_a_request_without_a_host() -> None:
    assert status(HttpRequest("GET", HEALTH, "", {}, b"", "")) == 403


ORIGINS = [
    ("http://localhost", OPEN, True),
    ("http://localhost:6274", OPEN, True),
    ("https://127.0.0.1:1", OPEN, True),
    ("http://[::1]:8000", OPEN, True),
    ("null", OPEN, False),
    ("", OPEN, False),
    ("http://evil.example", OPEN, False),
    ("http://localhost.evil.example", OPEN, False),
    ("http://evil.example:8000", OPEN, False),
    ("file://localhost", OPEN, False),
    ("ftp://localhost", OPEN, False),
    ("localhost", OPEN, False),
    ("http://localhost/", OPEN, False),
    ("http://localhost, http://evil.example", OPEN, False),
    ("http://evil.example@localhost", OPEN, False),
    ("http://[", OPEN, False),
    ("http://127.0.0.1%evil.example", OPEN, False),
    ("http://127.0.0.1%25.evil.example", OPEN, False),
    ("https://app.example", OPEN, False),
    ("https://app.example", PUBLIC, True),
    ("HTTPS://App.example:443", PUBLIC, True),
    ("http://app.example", PUBLIC, False),
    ("https://app.example:8443", PUBLIC, False),
    ("vscode-webview://1a2b", PUBLIC, True),
    ("vscode-webview://3c4d", PUBLIC, False),
    ("https://mcp.example.com", PUBLIC, True),
]


@pytest.mark.parametrize(("origin", "access", "allowed"), ORIGINS)
@pytest.mark.parametrize(("method", "path"), [("POST", "/mcp"), ("GET", "/ws"), ("GET", HEALTH), ("GET", "/none")])
def test_origin(origin: str, access: Access, allowed: bool, method: str, path: str) -> None:
    asked = request(method, path, origin=origin, authorization=f"Bearer {TOKEN}")
    assert status(asked, access) == (None if allowed else 403)
    assert ("Access-Control-Allow-Origin" in cors(asked, access)) == allowed


def test_a_refusal_says_what_to_do_and_repeats_little() -> None:
    answer = check(request(origin="http://evil\x07.example/" + "x" * 1000), OPEN)
    assert answer is not None
    message = json.loads(answer.body)["error"]["message"]
    assert "--allow-origin" in message
    assert "\x07" not in message
    assert len(message) < 250


@pytest.mark.parametrize(
    ("authorization", "allowed"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"BEARER   {TOKEN}", True),
        (None, False),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        (f"Bearer {TOKEN.upper()}", False),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        (f"Bearer {TOKEN}, Bearer {TOKEN}", False),
        ("Bearer t\xf6ken", False),
        ("Bearer \ud800", False),
    ],
)
@pytest.mark.parametrize(
    "path", ["/mcp", "/sse", "/messages", "/ws", "/v1/status", "/v1/protocol", "/", "/v1/health/x"]
)
def test_token(authorization: str | None, allowed: bool, path: str) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    asked = request("GET", path, **headers)
    assert status(asked, CLOSED) == (None if allowed else 401)
    assert status(asked, OPEN) is None
    if not allowed:
        answer = check(asked, CLOSED)
        assert answer is not None
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_health_needs_no_token() -> None:
    assert status(request("GET", HEALTH), CLOSED) is None


def test_a_token_in_the_query_counts_for_nothing() -> None:
    """Queries stand in logs and histories (2025-11-25 basic/authorization, Access Token Usage)."""
    said = {"host": "localhost"}
    assert status(HttpRequest("GET", "/mcp", f"access_token={TOKEN}", said, b"", ""), CLOSED) == 401


def test_a_preflight_is_answered_without_a_token() -> None:
    asked = request(
        "OPTIONS",
        origin="http://localhost:6274",
        access_control_request_method="POST",
        access_control_request_headers="Authorization, mcp-session-id,Mcp-Param-Region, x-other",
    )
    answer = check(asked, CLOSED)
    assert answer is not None
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:6274"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE"
    assert answer.headers["Access-Control-Allow-Headers"] == "authorization, mcp-session-id, mcp-param-region"
    assert answer.headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"origin": "http://evil.example", "access_control_request_method": "POST"}, 403),
        ({"origin": "null", "access_control_request_method": "POST"}, 403),
        ({"access_control_request_method": "POST"}, 401),  # no browser: a request like any other
        ({"origin": "http://localhost"}, 401),
    ],
)
def test_what_is_no_preflight_of_an_allowed_page(headers: dict[str, str], expected: int) -> None:
    assert status(request("OPTIONS", **headers), CLOSED) == expected


def test_a_page_may_read_that_it_was_refused() -> None:
    answer = check(request(origin="http://localhost:1"), CLOSED)
    assert answer is not None
    assert answer.status == 401
    assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:1"
    assert "Mcp-Session-Id" in answer.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize(("origin", "promised"), [("http://evil.example", True), ("null", False), ("NULL", False)])
def test_no_option_is_promised_to_pages_without_an_origin(origin: str, promised: bool) -> None:
    answer = check(request(origin=origin), OPEN)
    assert answer is not None
    assert answer.status == 403
    assert (b"--allow-origin" in answer.body) is promised


def test_who_is_no_page_gets_no_such_headers() -> None:
    assert cors(request(), OPEN) == {}
