"""``mcpx listen``: the changes that servers tell of, as they come.

The changes go to stdout and nothing else does; what is to be expected of each server is told on stderr.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import TYPE_CHECKING

import msgspec
import trio

from mcpx.cli.examine import telling_who_is_awaited
from mcpx.cli.log import Level, log_to_stderr
from mcpx.cli.run import run_logged
from mcpx.cli.target import choose
from mcpx.cli.text import plain
from mcpx.config import secrets_of
from mcpx.demo import BUILTINS
from mcpx.errors import McpxError
from mcpx.gateway import open_gateway
from mcpx.host import open_ending
from mcpx.spec.capabilities import promises_changes, takes_subscriptions
from mcpx.spec.lists import LIST_CHANGED
from mcpx.upstream.call import Asker, Change, Interest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpx.gateway.gateway import Gateway
    from mcpx.gateway.watch import Watch
    from mcpx.settings import Settings
    from mcpx.upstream.call import News
    from mcpx.upstream.supervisor import Supervisor
    from mcpx.upstream.target import Builtins

REFUSED = "it was asked to, and has not agreed"


def listen(
    target: str | None,
    command: Sequence[str] | None,
    config: str | None,
    headers: Sequence[str],
    uris: Sequence[str],
    as_json: bool,
    level: Level,
) -> int:
    """Print changes of all servers, or of one, until a signal ends it, and return the exit status.

    Raises ``BrokenPipeError`` where whoever read the output has seen enough.
    """
    settings = choose(target, command, config, headers=headers).settings
    write = Output(sys.stdout.fileno(), sys.stdout.encoding).write
    with log_to_stderr(level, secrets=secrets_of(settings.servers)) as lines:
        return run_logged(listen_to_all, settings, BUILTINS, uris, as_json, write, lines.put, lines=lines)


async def listen_to_all(
    settings: Settings,
    builtins: Builtins,
    uris: Sequence[str],
    as_json: bool,
    write: Callable[[str], Awaitable[None]],
    tell: Callable[[str], None],
) -> None:
    """Start the servers, ``tell`` what of their changes will be heard, and ``write`` each, a line at a time.

    Comes back when a signal has ended it. Raises ``KeyboardInterrupt`` where that was SIGINT.
    """
    asked = Interest(frozenset(LIST_CHANGED), frozenset(uris))
    changes = Changes()
    async with open_ending() as ending, open_gateway(settings, builtins=builtins) as gateway:
        ending.plan_for(gateway)
        with gateway.watch(Asker("the command line"), asked, changes.note, keep=True) as watch:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_print, changes, as_json, write)
                nursery.start_soon(_report, gateway, watch, asked, tell)
                await ending.stop.wait()
                nursery.cancel_scope.cancel()
        ending.drain()
    if ending.number == signal.SIGINT:
        raise KeyboardInterrupt


class Changes:
    """Changes that are to be printed: each once, so that whoever reads slowly costs no more memory than there are
    lists and resources.
    """

    def __init__(self) -> None:
        self._waiting: dict[Change, None] = {}
        self._some = trio.Event()

    def note(self, news: News) -> None:
        """Something has changed. Whatever else is news is none here."""
        if isinstance(news, Change):
            self._waiting[news] = None
            self._some.set()

    async def take(self) -> list[Change]:
        """Wait for changes, and return all that there are, in the order in which they came."""
        await self._some.wait()
        self._some = trio.Event()
        taken, self._waiting = list(self._waiting), {}
        return taken


class Output:
    """Writes text to a descriptor, in a thread, so that whoever does not read it holds up neither servers nor the
    end.
    """

    def __init__(self, fd: int, encoding: str) -> None:
        self._fd = fd
        self._encoding = encoding

    async def write(self, text: str) -> None:
        """Write it all. Raises ``BrokenPipeError`` where nobody will ever read it, and ``McpxError`` where it cannot be
        written for another reason, such as a full disk.
        """
        data = text.encode(self._encoding, "backslashreplace")
        try:
            await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise McpxError(f"The changes cannot be written to stdout: {error.strerror}.") from error

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # whoever started mcpx has made it so
                select.select([], [self._fd], [])


def line(change: Change) -> str:
    """A change in words, for people: one line, whatever a URI holds."""
    words = [change.server, change.kind, *([] if change.uri is None else [change.uri])]
    return " ".join(_one_line(word) for word in words)


def as_object(change: Change) -> str:
    """A change as a JSON object; without ``uri`` it is the list that has changed."""
    members = {"server": change.server, "kind": change.kind}
    return msgspec.json.encode(members if change.uri is None else {**members, "uri": change.uri}).decode()


async def _print(changes: Changes, as_json: bool, write: Callable[[str], Awaitable[None]]) -> None:
    shape = as_object if as_json else line
    while True:
        taken = await changes.take()
        await write("".join(f"{shape(change)}\n" for change in taken))


async def _report(gateway: Gateway, watch: Watch, asked: Interest, tell: Callable[[str], None]) -> None:
    """Tell what will be heard and what will not, once all servers have said so or have failed to start."""
    async with telling_who_is_awaited(tuple(one.name for one in gateway.supervisors), tell):
        await watch.settled()
    for said in expectations(watch, gateway.supervisors, asked):
        tell(f"mcpx: {said}")


def expectations(watch: Watch, supervisors: Sequence[Supervisor], asked: Interest) -> list[str]:
    """What will be heard of each server, what will not, and why; a line for each."""
    lines: list[str] = []
    for supervisor in supervisors:
        name = _one_line(supervisor.name)
        if not _runs(supervisor):
            lines.append(f"{name} is not running, and is listened to as soon as it is")
            continue
        granted = watch.granted_by(supervisor.name)
        heard = [*(kind for kind in LIST_CHANGED if kind in granted.lists), *sorted(granted.uris)]
        lines.append(f"{name} tells of changes of {_one_line(', '.join(heard))}" if heard else f"{name} tells of none")
        declared = supervisor.memory.value.identity.capabilities
        for kind in LIST_CHANGED:
            if kind in asked.lists - granted.lists and kind in declared:
                why = REFUSED if promises_changes(declared[kind]) else "it declares no listChanged for them"
                lines.append(f"{name} does not tell of changes of {kind}: {why}")
    by_name = {one.name: one for one in supervisors}
    for uri in sorted(asked.uris - watch.granted.uris):
        owner = watch.owner(uri)
        lines.append(f"{_one_line(uri)} is not listened to: {_why_not(None if owner is None else by_name[owner])}")
    return lines


def _why_not(owner: Supervisor | None) -> str:
    """Why updates of a resource of this server are not delivered."""
    if owner is None:
        return "no server that runs has it"
    name = _one_line(owner.name)
    if not _runs(owner):
        return f"{name} is not running"
    if not takes_subscriptions(owner.memory.value.identity.capabilities.get("resources")):
        return f"{name} takes no subscriptions to resources"
    return f"{name}: {REFUSED}"


def _runs(supervisor: Supervisor) -> bool:
    return any(one.state == "up" for one in supervisor.status())


def _one_line(text: str) -> str:
    return plain(text).replace("\n", "\\x0a").replace("\t", "\\x09")
