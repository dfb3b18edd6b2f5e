"""A Unix socket that is its owner's alone, and what is said of addresses that lead nowhere. Real sockets."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcpx.errors import ConnectError, McpxError
from mcpx.transports import sockets
from mcpx.transports.sockets import ServerStream, connect, open_unix_listener
from tests.support.running import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short, as that of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="mcpx") as name:
        yield Path(name)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def bound(path: Path, *, listening: bool) -> Iterator[socket.socket]:
    """A socket of somebody else's at a path, whose file stays when it is closed."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        if listening:
            other.listen()
        yield other


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def stale(path: Path) -> None:
    with bound(path, listening=True):
        pass
    assert path.is_socket()


# -- listening


async def test_it_can_be_connected_to_and_leaves_nothing_behind(folder: Path) -> None:
    path = folder / "s"
    async with open_unix_listener(str(path)) as listener, await trio.open_unix_socket(str(path)) as client:
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        async with await listener.accept() as server:
            await server.send_all(b"hello")
            assert await client.receive_some() == b"hello"
    assert names(folder) == []


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
@pytest.mark.parametrize("has_fchmod", [True, False])
def test_nobody_else_could_ever_connect(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mask: int, has_fchmod: bool
) -> None:
    """Whatever the umask is, and where sockets take no mode: it is 0600 before the first connection is possible."""
    path = folder / "s"
    seen: list[int] = []

    def refuse(*_: Any) -> None:
        raise OSError(errno.EINVAL, "no mode for sockets")

    class Watched(socket.socket):
        def listen(self, *backlog: int) -> None:
            seen.append(stat.S_IMODE(path.lstat().st_mode))
            with socket.socket(socket.AF_UNIX) as early, pytest.raises(ConnectionRefusedError):
                early.connect(str(path))
            super().listen(*backlog)

    monkeypatch.setattr(sockets.socket, "socket", Watched)
    if not has_fchmod:
        monkeypatch.setattr(os, "fchmod", refuse)
    with umask(mask):
        claimed, _ = sockets._claim(path)
    claimed.close()
    assert seen == [0o600]


async def test_a_socket_that_somebody_listens_on_is_left_alone(folder: Path) -> None:
    path = folder / "s"
    async with open_unix_listener(str(path)):
        with pytest.raises(McpxError, match=f"Another server listens on {path} already"):
            async with open_unix_listener(str(path)):
                pass
        async with await trio.open_unix_socket(str(path)):
            pass


async def test_so_is_one_whose_backlog_is_full(folder: Path) -> None:
    path = folder / "s"
    with bound(path, listening=False) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.listen(0)
        waiting.setblocking(False)
        waiting.connect(str(path))
        with pytest.raises(McpxError, match="Another server listens"):
            async with open_unix_listener(str(path)):
                pass
        assert path.is_socket()


async def test_a_stale_socket_is_replaced(folder: Path) -> None:
    path = folder / "s"
    stale(path)
    async with open_unix_listener(str(path)), await trio.open_unix_socket(str(path)):
        pass
    assert not path.exists()


@pytest.mark.parametrize("what", ["file", "folder", "link"])
async def test_what_is_no_socket_is_left_alone(folder: Path, what: str) -> None:
    path = folder / "s"
    {
        "file": lambda: path.write_text("mine"),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(folder / "elsewhere"),
    }[what]()
    before = path.lstat()
    with pytest.raises(McpxError, match="is there already and is no socket"):
        async with open_unix_listener(str(path)):
            pass
    assert os.path.samestat(path.lstat(), before)


async def test_a_file_that_has_taken_its_place_is_not_removed(folder: Path) -> None:
    path = folder / "s"
    async with open_unix_listener(str(path)):
        path.unlink()
        stale(path)
    assert path.is_socket()


async def test_a_file_that_is_gone_already_is_no_error(folder: Path) -> None:
    async with open_unix_listener(str(folder / "s")):
        (folder / "s").unlink()
    assert names(folder) == []


async def test_a_relative_path_is_meant_from_where_it_began(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    async with open_unix_listener("s"):
        monkeypatch.chdir("/")
        assert (folder / "s").is_socket()
    assert not (folder / "s").exists()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("nowhere/s", "There is no folder .*/nowhere for a socket"),
        ("s" * 200, "cannot be listened on: AF_UNIX path too long"),
        ("file/s", "cannot be listened on: Not a directory"),
    ],
)
async def test_a_path_that_cannot_be_used(folder: Path, path: str, problem: str) -> None:
    (folder / "file").touch()
    with pytest.raises(McpxError, match=problem):
        async with open_unix_listener(str(folder / path)):
            pass
    assert names(folder) == ["file"]


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Claim a path in a folder, as another mcpx does that starts at the same moment."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


@in_virtual_time
async def test_two_that_start_at_once_take_turns(folder: Path) -> None:
    path = folder / "s"
    with locked(folder) as handle:
        async with trio.open_nursery() as nursery:
            opened = trio.Event()

            async def listen() -> None:
                async with open_unix_listener(str(path)):
                    opened.set()

            nursery.start_soon(listen)
            await trio.sleep(sockets.TURN_PAUSE * 2.5)
            assert not path.exists()
            fcntl.flock(handle, fcntl.LOCK_UN)
            await opened.wait()


@in_virtual_time
async def test_a_folder_that_stays_locked_is_an_error(folder: Path) -> None:
    with locked(folder), pytest.raises(McpxError, match="another program has locked the folder"):
        async with open_unix_listener(str(folder / "s")):
            pass


async def test_a_file_system_without_locks_does_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    async with open_unix_listener(str(folder / "s")), await trio.open_unix_socket(str(folder / "s")):
        pass


# -- connecting


async def test_a_path_may_hold_any_character(folder: Path) -> None:
    async with open_unix_listener(str(folder / "a ?#%")):
        await (await connect(f"unix://{folder}/a%20%3F%23%25")).aclose()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none", r"There is no socket /.*/none\. Is the server running\?"),
        ("stale", r"Nobody listens on the socket /.*/stale\. Is the server running\?"),
        ("file/x", r"The socket /.*/file/x cannot be connected to: Not a directory\."),
        ("s" * 200, r"cannot be connected to: AF_UNIX path too long\."),
    ],
)
async def test_a_unix_socket_that_leads_nowhere(folder: Path, name: str, problem: str) -> None:
    stale(folder / "stale")
    (folder / "file").touch()
    with pytest.raises(ConnectError, match=problem):
        await connect(f"unix://{folder}/{name}")


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost")])
async def test_a_port_that_nobody_listens_on(host: str, shown: str) -> None:
    with socket.socket() as unused:  # bound and not listening: nobody else gets the number meanwhile
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ConnectError, match=rf"^{shown}:{port} cannot be connected to: Connection refused\.$"):
            await connect(f"tcp://{host}:{port}")


@in_virtual_time
async def test_a_host_that_cannot_be_resolved() -> None:
    class Resolver(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *_: Any) -> Any:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    with pytest.raises(ConnectError, match=r"The host name 'nowhere\.example' cannot be resolved: Name or service"):
        await connect("tcp://nowhere.example:80")


@asynccontextmanager
async def connection() -> AsyncIterator[tuple[ServerStream, socket.socket]]:
    """Ours over TCP, and the server's end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ours = await connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        theirs, _ = listener.accept()
    with theirs:
        yield ours, theirs
        await ours.aclose()


async def drained(stream: ServerStream) -> bytes:
    found = b""
    while data := await stream.receive_some():
        found += data
    return found


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "The server closed the connection."),
        (b"{}\n", "The server closed the connection."),
        (b"\x15\x03\x03\x00\x02\x02\x32", "The server speaks TLS, which is not offered for tcp:// and unix://"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "The server speaks HTTP"),
    ],
)
async def test_how_a_connection_ended(said: bytes, problem: str) -> None:
    async with connection() as (ours, theirs):
        theirs.sendall(said)
        theirs.close()
        assert await drained(ours) == said
        assert ours.describe_end().startswith(problem)


async def test_a_connection_that_was_reset() -> None:
    async with connection() as (ours, theirs):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        theirs.close()
        with pytest.raises(trio.BrokenResourceError):
            await ours.receive_some()
        assert ours.describe_end() == "The connection to the server broke: Connection reset by peer."


async def test_a_server_that_reads_no_more_is_over_though_it_still_might_write() -> None:
    """What it had said is still read, and then comes the end, so that calls do not wait for their timeouts."""
    mine, others = socket.socketpair()
    ours = ServerStream(trio.SocketStream(trio.socket.from_stdlib_socket(mine)))
    with others:
        others.sendall(b"last words")
        others.shutdown(socket.SHUT_RD)
        with pytest.raises(trio.BrokenResourceError):
            await ours.send_all(b"x")
        assert await drained(ours) == b"last words"
        assert ours.describe_end() == "The connection to the server broke: Broken pipe."
        await ours.aclose()
