"""What a WebSocket handshake says, and what is made of answers that are none."""

from __future__ import annotations

import pytest

from mcpx.errors import ConnectError
from mcpx.transports.handshake import is_refusal, opening, why_refused


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "host_header", "target"),
    [
        ("ws://example.org", "example.org", 80, False, "example.org", "/"),
        ("ws://example.org:80/mcp", "example.org", 80, False, "example.org", "/mcp"),
        ("wss://example.org/a/b?c=d&e", "example.org", 443, True, "example.org", "/a/b?c=d&e"),
        ("wss://Example.org:80/", "example.org", 80, True, "example.org:80", "/"),
        ("ws://[::1]:7000/mcp", "::1", 7000, False, "[::1]:7000", "/mcp"),
        ("ws://[fe80::1%eth0]/", "fe80::1%eth0", 80, False, "[fe80::1]", "/"),
        ("ws://münchen.example:81/ö x?ü=[1]", "xn--mnchen-3ya.example", 81, False, "xn--mnchen-3ya.example:81",
         "/%C3%B6%20x?%C3%BC=%5B1%5D"),
        ("ws://h/%20?a=%2F", "h", 80, False, "h", "/%20?a=%2F"),
    ],
)  # fmt: skip
def test_what_an_address_becomes(url: str, host: str, port: int, tls: bool, host_header: str, target: str) -> None:
    made = opening(url, {})
    assert (made.host, made.port, made.tls, made.host_header, made.target) == (host, port, tls, host_header, target)
    assert made.headers == []


@pytest.mark.parametrize("name", ["a..example", f"{'a' * 64}.example"])
def test_a_host_name_that_is_none(name: str) -> None:
    with pytest.raises(ConnectError, match=f"^'{name}' is not a valid host name"):
        opening(f"ws://{name}/", {})


def test_headers_go_with_it() -> None:
    made = opening("ws://h/", {"Authorization": " Bearer s3cret-s3cret ", "X-Name": "é", "HOST": "other.example"})
    assert made.headers == [(b"Authorization", b"Bearer s3cret-s3cret"), (b"X-Name", "é".encode())]
    assert made.host_header == "other.example"
    assert made.host == "h"


@pytest.mark.parametrize("name", ["Sec-WebSocket-Key", "sec-websocket-protocol", "Connection", "UPGRADE"])
def test_what_the_handshake_says_itself_cannot_be_given(name: str) -> None:
    with pytest.raises(ConnectError, match=f"^The header {name} belongs to the WebSocket handshake") as caught:
        opening("ws://h/", {name: "s3cret"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("control", ["\x01", "\x7f", "\x1f"])
@pytest.mark.parametrize("name", ["X-Token", "Host"])
def test_a_value_that_http_has_no_room_for(name: str, control: str) -> None:
    with pytest.raises(ConnectError, match=f"header {name} holds a control character") as caught:
        opening("ws://h/", {name: f"s3cret{control}x"})
    assert "s3cret" not in str(caught.value)


def test_a_user_and_password_become_a_header() -> None:
    assert opening("ws://us%40er:pass@h/", {}).headers == [(b"Authorization", b"Basic dXNAZXI6cGFzcw==")]
    assert opening("ws://user@h/", {}).headers == [(b"Authorization", b"Basic dXNlcjo=")]
    assert opening("ws://user:pass@h/", {"authorization": "mine"}).headers == [(b"authorization", b"mine")]


def test_what_is_secret_the_longest_first() -> None:
    made = opening("ws://h/?token=abcdef", {"Authorization": "Bearer 0123456", "X-Short": "1"})
    assert made.secrets == ("Bearer 0123456", "token=abcdef", "0123456")


@pytest.mark.parametrize(
    ("head", "refused"),
    [
        (b"", False),
        (b"HTTP/1.1 40", False),
        (b"HTTP/1.1 101 Switching", False),
        (b"HTTP/1.1 103 Early Hints", False),
        (b"HTTP/1.1 200 OK", True),
        (b"HTTP/1.0 401\r\n", True),
        (b"HTT", False),
        (b"HTP", True),
        (b"hello, you", True),
    ],
)
def test_a_refusal_is_seen_by_its_first_line(head: bytes, refused: bool) -> None:
    assert is_refusal(head) is refused


@pytest.mark.parametrize(
    ("head", "broke", "said"),
    [
        (
            b"HTTP/1.1 401 \r\n",
            None,
            "The server refused the WebSocket handshake with HTTP status 401 (Unauthorized). Give it a token: "
            '"headers": {"Authorization": "Bearer ..."} in the configuration, '
            'or --header "Authorization: Bearer ..." beside a URL on the command line.',
        ),
        (
            b"HTTP/1.1 404 ",
            None,
            "The server refused the WebSocket handshake with HTTP status 404 (Not Found). "
            "Is the path of the URL right?",
        ),
        (
            b"HTTP/1.1 405 ",
            None,
            "The server refused the WebSocket handshake with HTTP status 405 (Method Not Allowed). There may be no "
            "WebSocket at this URL; that of a server which speaks HTTP begins with http:// or https://.",
        ),
        (b"HTTP/1.1 599 ", None, "The server refused the WebSocket handshake with HTTP status 599."),
        (
            b"HTTP/1.1 500 ",
            "reset",
            "The server refused the WebSocket handshake with HTTP status 500 (Internal Server Error).",
        ),
        (
            b"HTTP/1.1 200 OK\r\n",
            None,
            "The server answered as to any HTTP request, with 200 (OK): there is no WebSocket at this URL.",
        ),
        (
            b"HTTP/1.1 307 \r\n",
            None,
            "The server redirects elsewhere, with HTTP status 307 (Temporary Redirect), which mcpx does not follow: "
            "give it the address that is meant.",
        ),
        (b"HTTP/1.1 101 S", None, "The server's answer to the WebSocket handshake is not a valid one."),
        (b"\x15\x03\x01\x00\x02", None, "The server speaks TLS; its URL should begin with wss://."),
        (b"220 mail.example ESMTP\r\n", None, "The server does not speak WebSocket, nor any HTTP."),
        (b"", "reset", "The connection broke during the WebSocket handshake: reset."),
        (b"", None, "The server closed the connection during the WebSocket handshake."),
    ],
)
def test_why_there_is_no_websocket(head: bytes, broke: str | None, said: str) -> None:
    assert why_refused(head, broke) == said
