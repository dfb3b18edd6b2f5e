"""From a server's settings to an open session with it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio

from mcpx.errors import ConnectError, SpawnError, UpstreamGone, UpstreamStartError
from mcpx.settings import server_environment
from mcpx.transports.crew import open_crew
from mcpx.transports.ladder import ExitPlan
from mcpx.transports.process import open_process
from mcpx.transports.sockets import connect
from mcpx.transports.streams import open_line_channel
from mcpx.transports.watcher import Watcher, open_watcher
from mcpx.upstream.connection import Connection, open_connection
from mcpx.upstream.probe import Agreement, DiedOnProbe, Opener, plan
from mcpx.upstream.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from msgspec import Raw

    from mcpx.settings import Limits, ServerSettings
    from mcpx.transports.channel import Channel
    from mcpx.transports.process import ServerProcess
    from mcpx.transports.sockets import ServerStream
    from mcpx.upstream.call import Asker, News
    from mcpx.upstream.eras import Memory

log = logging.getLogger("mcpx.upstream")

# How long the exit status of a process whose stdout has ended may keep an error message waiting.
STATUS_GRACE = 1.0

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


@asynccontextmanager
async def open_session(
    server: ServerSettings,
    surroundings: Surroundings,
    memory: Memory,
    *,
    asker: Asker,
    tell: Callable[[Asker], Mapping[str, Raw]],
    client_info: Raw,
    heard: Callable[[News], None],
    failing: Callable[[UpstreamStartError], None],
) -> AsyncGenerator[Session]:
    """Start a server, agree on an era with it, and keep the session until left; then end the server by the ladder.

    ``tell`` says what of an asker's capabilities this server is told: a legacy one once, at its handshake, about
    ``asker``; a modern one on every request about whoever makes it.

    Raises ``UpstreamStartError`` where that fails, within ``startTimeout``. A server that dies on the probe is started
    a second time and opened with ``initialize`` (LV-27). ``failing`` is called before a server that opened no session
    is ended, with the error that is raised when it has.
    """
    limits = server.limits
    deadline = trio.current_time() + limits.start_timeout
    opening_plan = plan(server.protocol, memory.value, limits.probe_delay)
    async with AsyncExitStack() as stack:
        while True:
            connection = await stack.enter_async_context(_open_link(server, surroundings, deadline))
            opener = Opener(
                connection,
                opening_plan,
                asker=asker,
                tell=tell,
                client_info=client_info,
                passthrough=server.passthrough,
                late=memory.remember,
            )
            try:
                agreement = await _open_in_time(server, opener, deadline)
                break
            except DiedOnProbe:
                log.info("[%s] ended on being probed; started again and opened with initialize", server.name)
                failure = None
                opening_plan = opening_plan.beginning_with("initialize")
            except UpstreamStartError as error:
                failure = error
                memory.forget()
                failing(error)  # now, and not after the seconds that ending the server may take
            # Out of the nurseries first: raised through them, the error would arrive in a group.
            await stack.aclose()
            if failure is not None:
                raise failure
        memory.remember(agreement.remember)
        yield Session(connection, agreement.form, agreement.identity, limits, heard)


async def _open_in_time(server: ServerSettings, opener: Opener, deadline: float) -> Agreement:
    with trio.move_on_at(deadline):
        try:
            return await opener.open()
        except UpstreamGone as error:
            raise UpstreamStartError(server.name, error.reason) from None
    raise UpstreamStartError(
        server.name,
        f"The server did not open a session within {server.limits.start_timeout:g} s. Raise startTimeout if it needs "
        f"longer{_hint(server)}.",
    )


def _hint(server: ServerSettings) -> str:
    """Why a process may need longer, and the other cause of one that hangs: it misses what a shell would give it."""
    if server.command is None:
        return ""
    download = ", for example to be downloaded first"
    if server.inherit_env is True:
        return download
    return download + '; if it hangs on a proxy or a certificate, let it have their variables with "inheritEnv"'


@asynccontextmanager
async def _open_link(server: ServerSettings, surroundings: Surroundings, deadline: float) -> AsyncGenerator[Connection]:
    """The connection to one run of a server, whatever carries it."""
    if server.builtin is not None:
        if server.builtin not in surroundings.builtins:
            raise UpstreamStartError(server.name, f"There is no built-in server {server.builtin!r} here.")
        async with (
            surroundings.builtins[server.builtin]() as channel,
            open_connection(server.name, channel, _ended_in_process) as connection,
        ):
            yield connection
    elif server.command is not None:
        async with (
            _open_process(server, surroundings) as process,
            open_connection(server.name, process.channel, partial(_describe_end, process)) as connection,
            open_crew() as crew,
        ):
            crew.start_soon(_end_if_lost, process, connection, name=f"end of {server.name}")
            yield connection
    else:
        scheme = urlsplit(server.url or "").scheme
        if scheme not in _SCHEMES:
            served = ", ".join(f"{name}://" for name in _SCHEMES)
            raise UpstreamStartError(
                server.name, f"{scheme}:// servers are not served yet by this version; {served} are, and commands."
            )
        async with _SCHEMES[scheme](server, deadline) as connection:
            yield connection


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
