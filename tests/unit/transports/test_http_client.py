"""The HTTP client: connections, redirects, TLS, proxies, and what is said where it does not come off."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.transports.http_client import HttpClient, HttpClients
from mcpx.transports.proxies import proxy_for
from tests.support.certificate import make_certificate, server_context
from tests.support.http_up import Asked, Reply, serving
from tests.support.waiting import BUSY, PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SECRET = "very-secret-token"


async def hello(asked: Asked, reply: Reply) -> None:
    await reply.text(200, "hello")


async def endless(asked: Asked, reply: Reply) -> None:
    await reply.events()
    await reply.write(b": one\n\n")
    await reply.hang()


@asynccontextmanager
async def client_for(url: str, headers: dict[str, str] | None = None, **environ: str) -> AsyncIterator[HttpClient]:
    async with HttpClients(environ).lease(url, headers or {}) as client:
        yield client


async def get(client: HttpClient, **more: Any) -> tuple[int, bytes | None]:
    async with client.open_answer("GET", {}, **more) as answer:
        return answer.status, await answer.read(1000)


async def why_not(url: str, headers: dict[str, str] | None = None, **environ: str) -> str:
    with pytest.raises((ConnectError, BrokenAnswer)) as caught:
        async with client_for(url, headers, **environ) as client:
            await get(client)
    assert SECRET not in str(caught.value)
    return str(caught.value)


async def test_connections_are_kept_and_shared() -> None:
    async with serving(hello, audit=False) as up:
        clients = HttpClients({})
        async with clients.lease(up.url, {"A": "b"}) as one, clients.lease(up.url, {"A": "b"}) as other:
            assert one is other
            for _ in range(3):
                assert await get(one) == (200, b"hello")
            async with clients.lease(up.url, {"A": "c"}) as another:
                assert another is not one
                await get(another)
        assert [asked.connection for asked in up.asked] == [1, 1, 1, 2]
        async with clients.lease(up.url, {"A": "b"}) as again:
            await get(again)
        assert up.asked[-1].connection == 3  # the last one to leave has closed it


@pytest.mark.parametrize("how", ["leave", "cancel", "error"])
async def test_an_answer_that_is_left_closes_its_connection_at_once(how: str) -> None:
    async with serving(endless, audit=False) as up, client_for(up.url) as client:
        with trio.move_on_after(0.2 if how == "cancel" else 60):
            try:
                async with client.open_answer("GET", {}) as answer:
                    assert await answer.receive_some() == b": one\n\n"
                    if how == "error":
                        raise KeyError
                    if how == "cancel":
                        await answer.receive_some()
            except KeyError:
                pass
        began = trio.current_time()
        with trio.fail_after(PATIENCE):
            await up.asked[0].gone.wait()
        assert trio.current_time() - began < BUSY


async def test_one_that_is_cancelled_before_its_head_came_does_too() -> None:
    async def silent(asked: Asked, reply: Reply) -> None:
        await reply.hang()

    async with serving(silent, audit=False) as up, client_for(up.url) as client:
        with trio.move_on_after(0.2):
            await get(client)
        with trio.fail_after(PATIENCE):
            await up.asked[0].gone.wait()


async def test_sent_is_called_when_all_was_written() -> None:
    async with serving(hello, audit=False) as up, client_for(up.url) as client:
        calls: list[int] = []
        async with client.open_answer("POST", {}, b"x" * 100_000, sent=lambda: calls.append(1)):
            assert calls == [1]
        assert len(up.asked[0].body) == 100_000


async def test_a_body_over_the_limit() -> None:
    async with (
        serving(hello, audit=False) as up,
        client_for(up.url) as client,
        client.open_answer("GET", {}) as answer,
    ):
        assert await answer.read(4) is None


async def test_what_a_request_says() -> None:
    headers = {"X-Key": "k", "Accept": "text/html", "Host": "other.example"}
    async with serving(hello, audit=False) as up:
        url = up.url.replace("http://", "http://user:p%40ss@") + "?a=b c"
        async with client_for(url, headers) as client, client.open_answer("POST", {"Accept": "*/*"}, b"{}"):
            pass
    [asked] = up.asked
    assert asked.target == "/mcp?a=b%20c"
    assert asked.headers == {
        "host": "other.example",
        "x-key": "k",
        "accept": "*/*",
        "accept-encoding": "identity",
        "authorization": "Basic dXNlcjpwQHNz",
        "content-length": "2",
    }


@pytest.mark.parametrize("name", ["Content-Length", "connection", "Transfer-Encoding"])
async def test_headers_that_are_https_own(name: str) -> None:
    assert f"The header {name} belongs to HTTP itself" in await why_not("http://127.0.0.1:1/", {name: SECRET})


async def test_an_answer_that_is_packed_all_the_same() -> None:
    async def packed(asked: Asked, reply: Reply) -> None:
        await reply.send(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})

    async with serving(packed, audit=False) as up:
        assert "packs its answers (gzip)" in await why_not(up.url)


# -- redirects


def redirecting(status: int, location: str) -> Any:
    async def redirect(asked: Asked, reply: Reply) -> None:
        if asked.target == "/mcp":
            await reply.send(status, headers={"Location": location})
        else:
            await reply.text(200, asked.body.decode() or "there")

    return redirect


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_server_keeps_method_and_body(status: int) -> None:
    async with serving(redirecting(status, "/mcp/"), audit=False) as up, client_for(up.url) as client:
        async with client.open_answer("POST", {}, b"body") as answer:
            assert await answer.read(100) == b"body"
        assert [(asked.method, asked.target) for asked in up.asked] == [("POST", "/mcp"), ("POST", "/mcp/")]


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_one_that_would_make_a_get_of_a_post_is_not_followed(status: int) -> None:
    async with serving(redirecting(status, "/mcp/?x=y"), audit=False) as up, client_for(up.url) as client:
        assert await get(client) == (200, b"there")
        with pytest.raises(ConnectError, match=rf"redirects to /mcp/ with HTTP status {status} .*: give mcpx the add"):
            async with client.open_answer("POST", {}, b"body"):
                pass


@pytest.mark.parametrize("where", ["http://example.com/x?token=abc", "https://127.0.0.1/mcp", "//evil.example/"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {SECRET}"}])
async def test_one_to_elsewhere_is_never_followed(where: str, headers: dict[str, str]) -> None:
    async with serving(redirecting(307, where), audit=False) as up:
        said = await why_not(up.url, headers)
        assert "which is of another origin" in said
        assert "give mcpx the address that is meant" in said
        assert ("told nobody else" in said) is bool(headers)
        assert "token" not in said.replace("told", "")
        assert len(up.asked) == 1


async def test_one_in_a_circle() -> None:
    async with serving(redirecting(307, "/mcp"), audit=False) as up:
        assert "redirects in a circle" in await why_not(up.url)
        assert len(up.asked) == 6


# -- what does not come off


async def test_a_host_that_is_unknown() -> None:
    said = await why_not("http://no-such-host.invalid/", {"Authorization": SECRET})
    assert said.startswith("The host name 'no-such-host.invalid' cannot be resolved: ")


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[str]:
    """A server that says one thing to whoever comes, and hangs up."""

    async def attend(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, attend, 0)
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("scheme", "answer", "said"),
    [
        ("http", b"220 mail.example ESMTP\r\n\r\n", "does not speak HTTP, or not well"),
        ("http", b"\x15\x03\x01\x00\x02\x02\x46", "If it speaks TLS, its URL should begin with https://"),
        ("http", b"", "closed the connection without an answer"),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "broke in the middle of the answer"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS; its URL should begin with http://"),
        ("https", b"", "failed: unexpected eof while reading"),
    ],
)
async def test_a_server_of_something_else(scheme: str, answer: bytes, said: str) -> None:
    async with saying(answer) as where:
        assert said in await why_not(f"{scheme}://{where}")


async def test_a_certificate_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(hello, server_context(certificate), audit=False) as up:
        for url in (up.url, up.url.replace("127.0.0.1", "localhost")):
            async with client_for(url) as client:
                assert await get(client) == (200, b"hello")


async def test_a_certificate_that_is_not(tmp_path: Path) -> None:
    async with serving(hello, server_context(make_certificate(tmp_path)), audit=False) as up:
        said = await why_not(up.url, {"Authorization": SECRET})
        assert f"The certificate of 127.0.0.1:{up.port} is not accepted: self-signed certificate. If it" in said
        assert "SSL_CERT_FILE" in said
        assert up.asked == []


async def test_a_stream_over_tls_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(endless, server_context(certificate), audit=False) as up, client_for(up.url) as client:
        async with client.open_answer("GET", {}) as answer:
            await answer.receive_some()
        with trio.fail_after(PATIENCE):
            await up.asked[0].gone.wait()


# -- proxies


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://example.com:80", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("http://example.com:80", {"HTTP_PROXY": "p:1"}, "http://p:1"),
        ("https://example.com:443", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://example.com:443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://example.com:443", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("https://example.com:443", {"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:1"}, "http://q:1"),
        ("https://127.0.0.1:443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://localhost:443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://[::1]:443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://a.localhost:443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://example.com:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://example.com:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.b, example.com"}, None),
        ("https://api.example.com:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.com"}, None),
        ("https://notexample.com:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com"}, "http://p:1"),
        ("https://example.com:8443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com:443"}, "http://p:1"),
        ("https://example.com:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com:443"}, None),
        ("https://10.1.2.3:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3:443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
    ],
)
def test_which_proxy(url: str, environ: dict[str, str], proxy: str | None) -> None:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    assert proxy_for(scheme, host.strip("[]"), int(port), environ) == proxy


async def test_a_request_through_a_proxy() -> None:
    async with serving(hello, audit=False) as up:
        proxy = f"http://user:{SECRET}@127.0.0.1:{up.port}"
        async with client_for("http://server.example/mcp", HTTP_PROXY=proxy) as client:
            assert await get(client) == (200, b"hello")
        assert up.asked[0].target == "http://server.example/mcp"
        assert up.asked[0].headers["host"] == "server.example"
        assert up.asked[0].headers["proxy-authorization"].startswith("Basic ")


async def test_a_proxy_that_refuses_or_is_not_there() -> None:
    async def refuse(asked: Asked, reply: Reply) -> None:
        await reply.text(407)

    async with serving(refuse, audit=False) as up:
        proxy = f"http://user:{SECRET}@127.0.0.1:{up.port}"
        said = await why_not("https://server.example/mcp", HTTPS_PROXY=proxy)
        assert f"The proxy http://127.0.0.1:{up.port} does not let mcpx through to server.example:443: 407" in said
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        said = await why_not("https://server.example/mcp", HTTPS_PROXY=f"http://127.0.0.1:{port}")
        assert f"The proxy http://127.0.0.1:{port} cannot be connected to: Connection refused." in said
    assert "is of a kind that mcpx does not know" in await why_not("http://server.example/", ALL_PROXY="ftp://p:1")
