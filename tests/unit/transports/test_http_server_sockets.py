"""An HTTP server at real addresses: sockets, TLS, and addresses as people write them."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.errors import McpxError
from mcpx.transports.accept import FULL_PAUSE, FULL_TOLD
from mcpx.transports.http_server import (
    HttpRequest,
    HttpResponse,
    is_loopback,
    open_tcp_listeners,
    parse_address,
    server_tls,
    tls_listeners,
)
from tests.support.certificate import make_certificate
from tests.support.running import in_virtual_time
from tests.unit.transports.http_clients import GET, Client, MemoryListener, echo, post, serving

if TYPE_CHECKING:
    from pathlib import Path


async def who(request: HttpRequest, response: HttpResponse) -> None:
    await response.send(200, request.peer.encode())


def port_of(listener: trio.SocketListener) -> int:
    return listener.socket.getsockname()[1]


# -- addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8000", ("::1", 8000)),
        ("[fe80::1%eth0]:65535", ("fe80::1%eth0", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "8000", ":8000", "localhost", "localhost:", "::1:80", "[::1]", "a:65536", "a:-1", "http://a:1", "a:x"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(McpxError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


# -- listening


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_listening_and_who_has_connected(host: str) -> None:
    async with open_tcp_listeners(host, 0) as listeners:
        assert len(listeners) == 1
        port = port_of(listeners[0])
        async with serving(who, listeners=listeners):
            client = Client(await trio.open_tcp_stream(host, port))
            await client.send(GET)
            assert (await client.answer()).body in (b"127.0.0.1", b"::1")
            await client.stream.aclose()
    with pytest.raises(OSError, match="all attempts"):
        await trio.open_tcp_stream(host, port)


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("192.0.2.1", 0, "192.0.2.1:0 cannot be listened on: that is no address of this machine."),
        ("no-such-host.invalid", 1, "'no-such-host.invalid' cannot be resolved"),
        ("x" * 70, 1, "cannot be resolved"),
    ],
)
async def test_what_cannot_be_listened_on(host: str, port: int, said: str) -> None:
    with pytest.raises(McpxError) as caught:
        async with open_tcp_listeners(host, port):
            raise AssertionError("it listens")
    assert said in str(caught.value)


async def test_a_port_that_is_taken() -> None:
    async with open_tcp_listeners("::1", 0) as listeners:
        port = port_of(listeners[0])
        with pytest.raises(McpxError, match=rf"^\[::1\]:{port} cannot be .*: another program listens there already\.$"):
            async with open_tcp_listeners("::1", port):
                raise AssertionError("it listens twice")


# -- sockets


async def test_hanging_up_and_resets_on_a_real_socket() -> None:
    cancelled = trio.Event()

    async def hang(request: HttpRequest, response: HttpResponse) -> None:
        nonlocal cancelled
        await response.open_stream()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with open_tcp_listeners("127.0.0.1", 0) as listeners, serving(hang, listeners=listeners):
        for reset in (False, True):
            cancelled = trio.Event()
            client = Client(await trio.open_tcp_stream("127.0.0.1", port_of(listeners[0])))
            await client.send(GET)
            await client.head()
            if reset:
                client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await client.stream.aclose()
            await cancelled.wait()


async def test_a_client_that_is_refused_amidst_sending_sees_why() -> None:
    async with open_tcp_listeners("127.0.0.1", 0) as listeners, serving(listeners=listeners):
        for _ in range(20):
            client = Client(await trio.open_tcp_stream("127.0.0.1", port_of(listeners[0])))
            await client.send(post(b"x" * 2_000_000))
            assert (await client.answer()).status == 413
            await client.stream.aclose()


async def test_answers_are_not_held_back() -> None:
    delays: list[bool] = []

    class Looking(trio.abc.Listener[Any]):
        async def accept(self) -> trio.SocketStream:
            stream = await listeners[0].accept()
            delays.append(not stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            return stream

        async def aclose(self) -> None:
            await listeners[0].aclose()

    async with open_tcp_listeners("127.0.0.1", 0) as listeners, serving(listeners=[Looking()]):
        client = Client(await trio.open_tcp_stream("127.0.0.1", port_of(listeners[0])))
        await client.send(GET)
        await client.answer()
        await client.stream.aclose()
    assert delays == [False]


class Failing(MemoryListener):
    """A listener that fails in the given ways before it accepts."""

    def __init__(self, *codes: int) -> None:
        super().__init__()
        self.codes = list(codes)

    async def accept(self) -> Any:
        if self.codes:
            await trio.lowlevel.checkpoint()
            code = self.codes.pop(0)
            raise OSError(code, "as it may happen")
        return await super().accept()


@in_virtual_time
async def test_accepting_survives_what_passes(caplog: pytest.LogCaptureFixture) -> None:
    listener = Failing(errno.EMFILE, errno.ECONNABORTED, errno.ENFILE)
    async with serving(listeners=[listener]):
        client = listener.connect()
        await client.send(GET)
        assert (await client.answer()).status == 200
        assert trio.current_time() >= 2 * FULL_PAUSE
    assert [record.message for record in caplog.records] == ["No more hosts can connect for now: as it may happen"]


@in_virtual_time
async def test_no_room_for_long_is_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has the connections may keep them for hours, and there is a try ten times a second."""
    tries = round(2.5 * FULL_TOLD / FULL_PAUSE)
    async with serving(listeners=[Failing(*[errno.EMFILE] * tries)]):
        await trio.sleep(tries * FULL_PAUSE + 1)
    assert [record.message for record in caplog.records] == ["No more hosts can connect for now: as it may happen"] * 3


@in_virtual_time
async def test_a_listener_that_is_broken_ends_the_server() -> None:
    with pytest.RaisesGroup(OSError, flatten_subgroups=True):
        async with serving(listeners=[Failing(errno.EBADF)]):
            await trio.sleep_forever()


# -- TLS


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


async def test_tls(tmp_path: Path) -> None:
    path = make_certificate(tmp_path)
    async with open_tcp_listeners("127.0.0.1", 0) as plain:
        listeners = tls_listeners(plain, server_tls(str(path), str(path)))
        async with serving(who, listeners=listeners) as server:
            stream = await trio.open_ssl_over_tcp_stream(
                "127.0.0.1", port_of(plain[0]), https_compatible=True, ssl_context=trusting(path)
            )
            client = Client(stream)
            for _ in range(2):
                await client.send(GET)
                assert (await client.answer()).body == b"127.0.0.1"
            server.stop.set()
            assert await client.everything() == b""
            await stream.aclose()


async def test_hanging_up_cancels_behind_tls_too(tmp_path: Path) -> None:
    path = make_certificate(tmp_path)
    cancelled = trio.Event()

    async def hang(request: HttpRequest, response: HttpResponse) -> None:
        await response.open_stream()
        await response.write(b"x")
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with open_tcp_listeners("127.0.0.1", 0) as plain:
        listeners = tls_listeners(plain, server_tls(str(path)))
        async with serving(hang, listeners=listeners):
            stream = await trio.open_ssl_over_tcp_stream(
                "127.0.0.1", port_of(plain[0]), https_compatible=True, ssl_context=trusting(path)
            )
            client = Client(stream)
            await client.send(GET)
            await client.head()
            await stream.transport_stream.aclose()
            await cancelled.wait()


async def test_who_fails_at_tls_is_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcpx.http")
    async with open_tcp_listeners("127.0.0.1", 0) as plain:
        listeners = tls_listeners(plain, server_tls(str(make_certificate(tmp_path))))
        async with serving(listeners=listeners, head_time=0.2):
            for said in (GET, b""):
                client = Client(await trio.open_tcp_stream("127.0.0.1", port_of(plain[0])))
                await client.send(said)
                await client.everything()
                await client.stream.aclose()
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "A client failed at TLS",
        "A client did not agree on TLS in time",
    ]
    assert all(record.exc_info is None for record in caplog.records)


async def test_stopping_waits_for_no_handshake(tmp_path: Path) -> None:
    async with open_tcp_listeners("127.0.0.1", 0) as plain:
        listeners = tls_listeners(plain, server_tls(str(make_certificate(tmp_path))))
        async with serving(listeners=listeners, head_time=1000) as server:
            client = Client(await trio.open_tcp_stream("127.0.0.1", port_of(plain[0])))
            await client.send(b"\x16\x03\x01")
            await trio.testing.wait_all_tasks_blocked(0.05)
            server.stop.set()
            await server.ended.wait()
            await client.stream.aclose()


async def test_one_connection_too_many_behind_tls_is_closed(tmp_path: Path) -> None:
    async with open_tcp_listeners("127.0.0.1", 0) as plain:
        listeners = tls_listeners(plain, server_tls(str(make_certificate(tmp_path))))
        async with serving(listeners=listeners, max_connections=1):
            first = await trio.open_tcp_stream("127.0.0.1", port_of(plain[0]))
            second = Client(await trio.open_tcp_stream("127.0.0.1", port_of(plain[0])))
            assert await second.everything() == b""
            await first.aclose()
            await second.stream.aclose()


def test_what_is_wrong_with_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    ours, other = make_certificate(tmp_path), make_certificate(folder)
    text = ours.read_text()
    cut = text.index("-----BEGIN EC")
    (tmp_path / "cert").write_text(text[:cut])
    (tmp_path / "key").write_text(text[cut:])
    (tmp_path / "none").write_text("nothing")
    cases: list[tuple[str, str | None, str]] = [
        ("absent", None, "certificate file .*absent cannot be read: No such file"),
        ("cert", "absent", "key file .*absent cannot be read: No such file"),
        ("cert", str(other), "The key in .* is not that of the certificate"),
        ("cert", None, "There is no usable key in .*cert;"),
        ("cert", "none", "There is no usable key in .*none;"),
        ("none", "key", "There is no certificate in .*none;"),
        ("key", "key", "There is no certificate in .*key;"),
    ]
    for cert, key, said in cases:
        with pytest.raises(McpxError, match=said):
            server_tls(str(tmp_path / cert), None if key is None else str(tmp_path / key))
    server_tls(str(tmp_path / "cert"), str(tmp_path / "key"))


# A key that is good for nothing else, which the word "secret" opens.
ENCRYPTED = """
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhIYxgRpSYpLwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEO1gvBSg+e1NQKokHuYI4esEgZB5
EEyWSQMqBicRkuSwow8DO2kEiMVP0gJrebrz1lir7mzZ8fCpiRlulm5uNu8XXOSV
h3t/otOdcoWHPVnhRE8aQDrYOM9OJm5HfNyMBEgH56ndNkW2n98vYsexH2/Pu/M5
8GM2ysJGYIEKPQf5l8NLRPyhw6+beTQS44tMbm+YxFmmDs47hXLjgXAFu/AMtyM=
"""


def test_a_key_with_a_password(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(
        "-----{0} {2}-----{1}-----{3} {2}-----\n".format("BEGIN", ENCRYPTED, "ENCRYPTED PRIVATE KEY", "END")
    )
    with pytest.raises(McpxError, match=r"key is encrypted; mcpx takes one without a password\."):
        server_tls(str(make_certificate(tmp_path)), str(tmp_path / "key"))


async def test_the_server_under_test_echoes() -> None:
    async with open_tcp_listeners("127.0.0.1", 0) as listeners, serving(echo, listeners=listeners):
        client = Client(await trio.open_tcp_stream("127.0.0.1", port_of(listeners[0])))
        await client.send(post(b"x" * 100_000))
        assert (await client.answer()).body == b"POST /mcp " + b"x" * 100_000
        await client.stream.aclose()
