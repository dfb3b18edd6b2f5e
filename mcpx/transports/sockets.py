"""Sockets on either side: a Unix socket that hosts connect to, and the address of a server as a byte stream.

The socket file is a door into everything that the servers can do, so nobody but its owner ever gets through: a socket
that is bound and does not listen refuses every connection, and it listens once its mode is right.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

import trio

from mcpx.errors import ConnectError, McpxError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence

OWNER_ONLY = 0o600  # the mode of the socket file: connecting takes the right to write
BACKLOG = 128  # connections that wait to be accepted
TURN_TRIES = 20  # looks at whether another mcpx is through with claiming a path in the same folder, TURN_PAUSE apart
TURN_PAUSE = 0.05  # seconds; what is waited for takes a thousandth of one
NO_UNIX_SOCKETS = "this system has no Unix sockets"  # none that Python knows of, which is so on Windows

# How servers of other protocols begin their answer to what is none of it, and what to say of it. TLS: an alert, as RFC
# 8446 section 5.1 frames it.
FOREIGN: dict[bytes, str] = {
    b"\x15\x03": "The server speaks TLS, which is not offered for tcp:// and unix://; give it an address without.",
    b"HTTP/": "The server speaks HTTP, not newline-delimited messages; its URL should begin with http://.",
}


# -- the host side


@asynccontextmanager
async def open_unix_listener(path: str) -> AsyncGenerator[trio.SocketListener]:
    """Listen on a Unix socket at ``path``, for this user alone; on leaving the file is removed, if it is still ours.

    A socket file that nobody listens on any more is replaced. Raises ``McpxError`` where somebody does, where the path
    is something else, or where it cannot be used.
    """
    file = _absolute(path)
    claimed, ours = await _claim_in_turn(file)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(claimed))
    try:
        yield listener
    finally:
        # Before the socket is closed: until then its inode's number is nobody else's.
        _remove_ours(file, ours)
        listener.socket.close()


def _absolute(path: str) -> Path:
    """The path as meant from the folder that mcpx is in now."""
    return Path(path).absolute()


def _remove_ours(file: Path, ours: os.stat_result) -> None:
    with suppress(OSError):
        if os.path.samestat(file.lstat(), ours):
            file.unlink()


async def _claim_in_turn(file: Path) -> tuple[socket.socket, os.stat_result]:
    """Claim the path while no other mcpx does: two that replaced one stale file at once would both be content."""
    for _ in range(TURN_TRIES):
        try:
            with _turn(file.parent):
                return _claim(file)
        except BlockingIOError:
            await trio.sleep(TURN_PAUSE)
        except OSError as error:
            raise McpxError(f"{file} cannot be listened on: {_why(error)}.") from None
    raise McpxError(f"{file} cannot be listened on: another program has locked the folder.")


@contextmanager
def _turn(folder: Path) -> Generator[None]:
    """Hold the lock of a folder, which leaves nothing behind. Raises ``BlockingIOError`` while another has it."""
    if sys.platform == "win32":
        raise OSError(errno.EAFNOSUPPORT, NO_UNIX_SOCKETS)
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise McpxError(f"There is no folder {folder} for a socket.") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system without locks: then as well as it goes
        yield
    finally:
        os.close(handle)


def _claim(file: Path) -> tuple[socket.socket, os.stat_result]:
    """A socket that listens at the path, and what its file is. Nothing in here waits."""
    _remove_stale(file)
    claimed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claimed.setblocking(False)
        with suppress(OSError):  # on Linux it gives the file its mode from the first moment; elsewhere it is refused
            os.fchmod(claimed.fileno(), OWNER_ONLY)
        claimed.bind(str(file))
        try:
            if stat.S_IMODE(file.lstat().st_mode) != OWNER_ONLY:
                file.chmod(OWNER_ONLY)
            claimed.listen(BACKLOG)
            return claimed, file.lstat()
        except BaseException:
            file.unlink()
            raise
    except BaseException:
        claimed.close()
        raise


def _remove_stale(file: Path) -> None:
    """Remove a socket file that nobody listens on. Raises ``McpxError`` for anything else that is there."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise McpxError(f"{file} is there already and is no socket; mcpx replaces nothing else.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(file))
        except ConnectionRefusedError:
            file.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return  # it has just gone
        except BlockingIOError:
            pass  # it listens, and has more to do than it can
    raise McpxError(f"Another server listens on {file} already.")


# -- the upstream side


class ServerStream(trio.abc.Stream):
    """The connection to a server, which remembers how it ended. One that cannot be written to any more is over."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._begun = False
        self._foreign: str | None = None
        self._broke: str | None = None

    def describe_end(self) -> str:
        """How it ended, in a sentence for a person."""
        if self._foreign is not None:
            return self._foreign
        if self._broke is not None:
            return f"The connection to the server broke: {self._broke}."
        return "The server closed the connection."

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        with self._noting():
            data = bytes(await self._stream.receive_some(max_bytes))
        if not self._begun:
            self._begun = True
            self._foreign = next((said for head, said in FOREIGN.items() if data.startswith(head)), None)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            with self._noting():
                await self._stream.send_all(data)
        except trio.BrokenResourceError:
            # It reads no more, so no call can be answered: the reader is to find the end behind what came before.
            with suppress(OSError):
                self._stream.socket.shutdown(socket.SHUT_RDWR)
            raise

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()

    @contextmanager
    def _noting(self) -> Generator[None]:
        try:
            yield
        except trio.BrokenResourceError as error:
            if self._broke is None and isinstance(error.__cause__, OSError):
                self._broke = _why(error.__cause__)
            raise


async def connect(url: str) -> ServerStream:
    """Connect to a server at ``unix:///PATH`` or ``tcp://HOST:PORT``. The caller holds the clock.

    Raises ``ConnectError``, which says in a sentence what is wrong.
    """
    scheme = urlsplit(url).scheme
    return ServerStream(await _CONNECT[scheme](url))


async def _connect_unix(url: str) -> trio.SocketStream:
    path = unquote(urlsplit(url).path)
    if not hasattr(socket, "AF_UNIX"):
        raise ConnectError(f"{path} cannot be connected to: {NO_UNIX_SOCKETS}.")
    try:
        return await trio.open_unix_socket(path)
    except FileNotFoundError:
        raise ConnectError(f"There is no socket {path}. Is the server running?") from None
    except ConnectionRefusedError:
        raise ConnectError(f"Nobody listens on the socket {path}. Is the server running?") from None
    except OSError as error:
        raise ConnectError(f"The socket {path} cannot be connected to: {_why(error)}.") from None


async def _connect_tcp(url: str) -> trio.SocketStream:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return await open_tcp(parts.hostname, parts.port)


async def open_tcp(host: str, port: int) -> trio.SocketStream:
    """Connect to a port. Raises ``ConnectError``, which says in a sentence what is wrong."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except socket.gaierror as error:
        raise ConnectError(f"The host name {host!r} cannot be resolved: {_why(error)}.") from None
    except OSError as error:
        raise ConnectError(f"{host_and_port(host, port)} cannot be connected to: {why_all(error)}.") from None
    with suppress(OSError):  # a machine that vanished is noticed at last, though nothing is sent
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return stream


def host_and_port(host: str, port: int) -> str:
    """Both as a URL has them, with the brackets that an IPv6 address needs."""
    return f"{f'[{host}]' if ':' in host else host}:{port}"


_CONNECT: dict[str, Callable[[str], Awaitable[trio.SocketStream]]] = {"unix": _connect_unix, "tcp": _connect_tcp}


def why_all(error: OSError) -> str:
    """Why each address of a host failed: Trio puts one cause behind its own error, or a group of several."""
    cause = error.__cause__
    causes: Sequence[BaseException] = [cause or error]
    if isinstance(cause, BaseExceptionGroup):
        causes = cast("BaseExceptionGroup[BaseException]", cause).exceptions
    codes = dict.fromkeys(one.errno for one in causes if isinstance(one, OSError))
    return ", ".join(os.strerror(code) for code in codes if code is not None) or _why(error)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
