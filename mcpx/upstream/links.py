"""What carries the messages of a server: a process, a socket, a WebSocket, HTTP, or a channel in this process."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import trio

from mcpx.errors import ConnectError, SpawnError, UpstreamStartError
from mcpx.settings import server_environment
from mcpx.transports.crew import open_crew
from mcpx.transports.ladder import ExitPlan
from mcpx.transports.process import open_process
from mcpx.transports.sockets import connect
from mcpx.transports.streams import open_line_channel
from mcpx.transports.watcher import open_watcher
from mcpx.upstream.connection import Connection, open_connection
from mcpx.upstream.mirrored import Mirrored

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from msgspec import Raw

    from mcpx.settings import Limits, ServerSettings
    from mcpx.transports.channel import Channel
    from mcpx.transports.http_client import HttpClients
    from mcpx.transports.process import ServerProcess
    from mcpx.transports.sockets import ServerStream
    from mcpx.transports.watcher import Watcher

log = logging.getLogger("mcpx.upstream")

# How long the exit status of a process whose stdout has ended may keep an error message waiting.
STATUS_GRACE = 1.0

HTTP = frozenset({"http", "https"})

Builtins = dict[str, "Callable[[], AbstractAsyncContextManager[Channel]]"]


class Surroundings:
    """What every start shares: the watcher, the plan for mcpx's own end, the in-process servers."""

    def __init__(
        self,
        *,
        watcher: Watcher | None,
        exit_plan: ExitPlan,
        builtins: Builtins,
        client_info: Raw,
        environ: Mapping[str, str],
    ) -> None:
        self.watcher = watcher
        self.exit_plan = exit_plan
        self.builtins = builtins
        self.client_info = client_info
        self.environ = environ
        self._http: HttpClients | None = None

    @property
    def http(self) -> HttpClients:
        """The clients of servers at HTTP URLs, which their instances share."""
        if self._http is None:
            from mcpx.transports.http_client import HttpClients  # late: it takes its time to load, and few need it

            self._http = HttpClients(self.environ)
        return self._http


@asynccontextmanager
async def open_surroundings(
    limits: Limits, *, builtins: Builtins, client_info: Raw, environ: Mapping[str, str]
) -> AsyncGenerator[Surroundings]:
    """Open what servers are started in; enter it around everything that starts any.

    ``builtins`` opens in-process servers by the name that ``ServerSettings.builtin`` gives, ``client_info`` is what
    mcpx calls itself towards servers, ``environ`` where their variables come from.
    """
    async with open_watcher(limits) as watcher:
        yield Surroundings(
            watcher=watcher, exit_plan=ExitPlan(), builtins=builtins, client_info=client_info, environ=environ
        )


def is_http(server: ServerSettings) -> bool:
    """Whether a server is reached over HTTP."""
    return server.command is None and server.builtin is None and urlsplit(server.url or "").scheme in HTTP


class Link(NamedTuple):
    """A connection, and what only the way it is carried brings with it."""

    connection: Connection
    mirrored: Mirrored | None = None  # over HTTP: what of a tool's parameters the headers repeat


class NoSseServer(UpstreamStartError):
    """There is a server, but none of HTTP+SSE. ``status`` is that of its answer to being asked for the stream, where
    that is what is wrong.
    """

    def __init__(self, server: str, reason: str, status: int | None) -> None:
        super().__init__(server, reason)
        self.status = status


@asynccontextmanager
async def open_link(
    server: ServerSettings, surroundings: Surroundings, deadline: float, *, sse: bool
) -> AsyncGenerator[Link]:
    """The connection to one run of a server, whatever carries it. ``sse`` says that HTTP is to be HTTP+SSE.

    Raises ``UpstreamStartError``, and ``NoSseServer`` where the server is to be one of HTTP+SSE and is none.
    """
    if server.builtin is not None:
        if server.builtin not in surroundings.builtins:
            raise UpstreamStartError(server.name, f"There is no built-in server {server.builtin!r} here.")
        async with (
            surroundings.builtins[server.builtin]() as channel,
            open_connection(server.name, channel, _ended_in_process) as connection,
        ):
            yield Link(connection)
    elif server.command is not None:
        async with (
            _open_process(server, surroundings) as process,
            open_connection(server.name, process.channel, partial(_describe_end, process)) as connection,
            open_crew() as crew,
        ):
            crew.start_soon(_end_if_lost, process, connection, name=f"end of {server.name}")
            yield Link(connection)
    else:
        scheme = urlsplit(server.url or "").scheme
        if scheme in HTTP:
            async with (_open_sse if sse else _open_http)(server, surroundings, deadline) as link:
                yield link
        elif scheme in _SCHEMES:
            async with _SCHEMES[scheme](server, deadline) as connection:
                yield Link(connection)
        else:
            served = ", ".join(f"{name}://" for name in (*sorted(HTTP), *_SCHEMES))
            raise UpstreamStartError(server.name, f"There are no servers at {scheme}://; {served} are known.")


@asynccontextmanager
async def _open_socket(server: ServerSettings, deadline: float) -> AsyncGenerator[Connection]:
    """Newline-delimited messages over a socket that the server listens on."""
    assert server.url is not None
    stream: ServerStream | None = None
    try:
        with trio.move_on_at(deadline):
            stream = await connect(server.url)
    except ConnectError as error:
        raise UpstreamStartError(server.name, str(error)) from None
    if stream is None:
        raise UpstreamStartError(
            server.name, f"The server could not be connected to within {server.limits.start_timeout:g} s."
        )

    async def describe_end() -> str:
        return stream.describe_end()

    async with (
        open_line_channel(stream, stream, max_frame=server.limits.max_frame) as channel,
        open_connection(server.name, channel, describe_end) as connection,
    ):
        yield connection


@asynccontextmanager
async def _open_websocket(server: ServerSettings, deadline: float) -> AsyncGenerator[Connection]:
    """One message a frame over a WebSocket that the server serves."""
    from mcpx.transports.websocket import open_websocket  # late: it takes its time to load, and few servers need it

    assert server.url is not None
    async with AsyncExitStack() as stack:
        try:
            channel = await stack.enter_async_context(
                open_websocket(server.url, server.headers, deadline=deadline, max_frame=server.limits.max_frame)
            )
        except ConnectError as error:
            raise UpstreamStartError(server.name, str(error)) from None

        async def describe_end() -> str:
            return channel.describe_end()

        yield await stack.enter_async_context(open_connection(server.name, channel, describe_end))


@asynccontextmanager
async def _open_http(server: ServerSettings, surroundings: Surroundings, deadline: float) -> AsyncGenerator[Link]:
    """A POST for each message. Nothing is connected yet: the first request will."""
    from mcpx.upstream.http import open_http_channel

    assert server.url is not None
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(surroundings.http.lease(server.url, server.headers))
        except ConnectError as error:
            raise UpstreamStartError(server.name, str(error)) from None
        mirrored = Mirrored(server.name)
        channel = await stack.enter_async_context(open_http_channel(server.name, client, mirrored, server.limits))

        async def describe_end() -> str:
            return channel.describe_end()

        yield Link(await stack.enter_async_context(open_connection(server.name, channel, describe_end)), mirrored)


@asynccontextmanager
async def _open_sse(server: ServerSettings, surroundings: Surroundings, deadline: float) -> AsyncGenerator[Link]:
    """A POST for each message, and a stream on which all answers come."""
    from mcpx.upstream.http_sse import NoEventStream, open_sse_channel

    assert server.url is not None
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(surroundings.http.lease(server.url, server.headers))
            channel = await stack.enter_async_context(open_sse_channel(server.name, client, server.limits, deadline))
        except NoEventStream as error:
            raise NoSseServer(server.name, str(error), error.status) from None
        except ConnectError as error:
            raise UpstreamStartError(server.name, str(error)) from None

        async def describe_end() -> str:
            return channel.describe_end()

        yield Link(await stack.enter_async_context(open_connection(server.name, channel, describe_end)))


# What carries the messages of a server at a URL, by the scheme of that.
_SCHEMES: dict[str, Callable[[ServerSettings, float], AbstractAsyncContextManager[Connection]]] = {
    "unix": _open_socket,
    "tcp": _open_socket,
    "ws": _open_websocket,
    "wss": _open_websocket,
}


@asynccontextmanager
async def _open_process(server: ServerSettings, surroundings: Surroundings) -> AsyncGenerator[ServerProcess]:
    assert server.command is not None
    async with AsyncExitStack() as stack:
        try:
            process = await stack.enter_async_context(
                open_process(
                    [server.command, *server.args],
                    name=server.name,
                    env=server_environment(server, surroundings.environ),
                    cwd=server.cwd,
                    limits=server.limits,
                    exit_plan=surroundings.exit_plan,
                    watcher=surroundings.watcher,
                    on_stderr=lambda line: log.info("[%s] %s", server.name, line),
                )
            )
        except SpawnError as error:
            raise UpstreamStartError(server.name, str(error)) from None
        yield process


async def _end_if_lost(process: ServerProcess, connection: Connection) -> None:
    """End the connection to a server that is lost while its stdout stays open: some process that it started may hold
    that, or it has closed its stdin alone. What it said before is still taken.
    """
    await process.wait_lost()
    with trio.move_on_after(STATUS_GRACE):
        await connection.closed.wait()
    if not connection.closed.is_set():
        connection.end(await _describe_end(process))


async def _describe_end(process: ServerProcess) -> str:
    """How a server's process ended, or why it is as good as ended, with its last words."""
    status: int | None = None
    with trio.move_on_after(STATUS_GRACE):
        status = await process.wait()
    if status is None:
        how = f"The server closed its {'input' if process.closed_stdin else 'output'}"
    elif status < 0:
        how = f"The server was ended by signal {-status}"
    else:
        how = f"The server exited with status {status}"
    words = process.last_words().strip()
    return f"{how}. Its last words on stderr: {words}" if words else f"{how} and wrote nothing to stderr."


async def _ended_in_process() -> str:
    return "The built-in server ended."
