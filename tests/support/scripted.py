"""A scripted upstream as a test sees it: what it is told to do, how it is configured, and what it saw.

The server itself is ``fake_up.py``; each of its processes connects to a socket here, tells what it receives and does,
and takes orders while it runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from mcpx.host.listen import LISTEN
from mcpx.spec.revisions import LATEST_LEGACY, LEGACY, MODERN, V2024_11_05
from tests.support.waiting import PATIENCE, Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FAKE = Path(__file__).with_name("fake_up.py")
PROGRAM = [sys.executable, "-S", "-E", str(FAKE)]

TOOL = {"name": "echo", "description": "Says what it was told", "inputSchema": {"type": "object"}}
PROMPT = {"name": "greet", "description": "A greeting", "arguments": [{"name": "who", "required": True}]}
RESOURCE = {"uri": "file:///notes.txt", "name": "notes", "mimeType": "text/plain"}
TEMPLATE = {"uriTemplate": "file:///logs/{day}.txt", "name": "logs", "mimeType": "text/plain"}

# What a server declares that tells of every change.
TELLS_ALL = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}

# What a host may ask an upstream that is called "one", and has these items and completions.
EVERY_REQUEST: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("tools/call", {"name": "one__echo"}),
    ("prompts/get", {"name": "one__greet"}),
    ("resources/read", {"uri": "mcpx://one/file:///notes.txt"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "one__greet"}, "argument": {"name": "who", "value": "a"}},
    ),
]

# What makes a scripted upstream ignore EOF and signals, and what it may start that does so as well.
STUBBORN: dict[str, Any] = {"signals": {"SIGTERM": [], "SIGINT": []}, "onEof": []}
GRANDCHILD = ["sh", "-c", "trap '' TERM INT HUP; sleep 60"]

_MEMBERS = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"}


class Event(NamedTuple):
    """Something that a process of a scripted upstream saw or did; ``at`` is the machine's monotonic clock."""

    at: float
    pid: int
    kind: str
    value: Any


class Received(NamedTuple):
    """One line that a scripted upstream received."""

    at: float
    pid: int
    text: str
    frame: dict[str, Any]


class Scripted:
    """One scripted upstream, over all of its processes.

    ``revisions`` is one revision or several; the era of the server follows from them. Further keywords are keys of the
    script (see ``fake_up.py``); ``entry`` is merged into its configuration. ``wrapper`` makes the command line out of
    the program's.
    """

    def __init__(
        self,
        folder: Path,
        sockets: Path,
        name: str,
        revisions: str | Iterable[str] = LATEST_LEGACY,
        *,
        entry: dict[str, Any] | None = None,
        wrapper: Callable[[list[str]], list[str]] | None = None,
        **script: Any,
    ) -> None:
        self.name = name
        self.revisions = (revisions,) if isinstance(revisions, str) else tuple(revisions)
        self.events: list[Event] = []
        self.changes = Changes()
        self.socket = sockets / f"{len(list(sockets.iterdir()))}"
        self.socket.touch()  # keeps the number taken; replaced by the socket
        self._path = folder / f"{name}.script.json"
        self._entry = entry or {}
        self._wrapper = wrapper or (lambda command: command)
        self._streams: dict[int, trio.SocketStream] = {}
        self._script: dict[str, Any] = {
            "legacy": [revision for revision in LEGACY if revision in self.revisions],
            "modern": [revision for revision in MODERN if revision in self.revisions],
            "info": {"name": f"fake-{name}", "version": "1.2.3"},
            "tools": [TOOL],
            "record": str(self.socket),
            "count": str(folder / f"{name}.starts"),
            **script,
        }
        self._script.setdefault("capabilities", _capabilities(self._script))
        self._write()

    # -- before it starts

    @property
    def command(self) -> list[str]:
        """The command line that starts it."""
        return self._wrapper([*PROGRAM, str(self._path)])

    @property
    def entry(self) -> dict[str, Any]:
        """Its part of a configuration file."""
        command, *args = self.command
        return {"command": command, "args": args, **self._entry}

    def change(self, **script: Any) -> None:
        """Another script from the next start on."""
        self._script.update(script)
        self._write()

    def _write(self) -> None:
        self._path.write_text(json.dumps(self._script))

    # -- while it runs

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Take what its processes tell, until cancelled."""
        self.socket.unlink(missing_ok=True)
        with trio.socket.socket(trio.socket.AF_UNIX) as listener:
            await listener.bind(str(self.socket))
            listener.listen()
            await trio.serve_listeners(self._attend, [trio.SocketListener(listener)], task_status=task_status)

    async def _attend(self, stream: trio.SocketStream) -> None:
        pid, rest = 0, b""
        try:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    event = Event(**json.loads(line))
                    pid = event.pid
                    self._streams[pid] = stream
                    self.events.append(event)
                self.changes.tell()
        except trio.BrokenResourceError:
            pass  # killed: what it had told is here
        self._streams.pop(pid, None)
        self.changes.tell()

    async def release(self, name: str) -> None:
        """Let go on what waits at ``{"hold": name}``, now and later."""
        await self._order({"release": name})

    async def do(self, *steps: dict[str, Any]) -> None:
        """Have every running process go through steps."""
        await self._order({"do": list(steps)})

    async def set(self, **values: Any) -> None:
        """Change keys of the script, in every running process and for those to come."""
        self.change(**values)
        await self._order({"set": values})

    async def _order(self, order: dict[str, Any]) -> None:
        await self.changes.until(lambda: self._streams, f"a process of {self.name}")
        for stream in list(self._streams.values()):
            await stream.send_all(json.dumps(order).encode() + b"\n")

    # -- what it saw

    def seen(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    @property
    def starts(self) -> list[Event]:
        return self.seen("start")

    @property
    def pids(self) -> list[int]:
        """Every process it had, children that it spawned included."""
        return [event.pid for event in self.starts] + [event.value for event in self.seen("spawn")]

    @property
    def running(self) -> int:
        """How many processes are connected now."""
        return len(self._streams)

    def received(self, method: str | None = None, pid: int | None = None) -> list[Received]:
        """The whole lines it received, or those of one method."""
        lines = [
            Received(event.at, event.pid, event.value["text"], json.loads(event.value["text"]))
            for event in self.seen("in")
            if len(event.value["text"].encode("utf-8", "surrogateescape")) == event.value["size"]
        ]
        return [
            line
            for line in lines
            if (method is None or line.frame.get("method") == method) and (pid is None or line.pid == pid)
        ]

    def methods(self, pid: int | None = None) -> list[str]:
        """The methods it received, in order; ``"(answer)"`` for an answer.

        Without those by which it is listened to: when these come among others is for the tests of them to say.
        """
        lines = self.received(pid=pid)
        streams = [line.frame["id"] for line in lines if line.frame.get("method") == LISTEN]
        return [
            line.frame.get("method", "(answer)")
            for line in lines
            if not (streams and (line.frame.get("id") in streams or _cancelled(line.frame) in streams))
        ]

    @property
    def cancelled(self) -> list[Any]:
        """The ids of requests that it was told to forget, but for those by which it is listened to."""
        streams = [line.frame["id"] for line in self.received(LISTEN)]
        return [id for line in self.received() if (id := _cancelled(line.frame)) not in (..., *streams)]

    async def got(self, method: str, count: int = 1, within: float = PATIENCE) -> Received:
        """The ``count``-th message of a method, waiting for it."""
        lines = await self.changes.until(
            lambda: len(found := self.received(method)) >= count and found, f"{method} at {self.name}", within
        )
        return lines[count - 1]

    async def happened(self, kind: str, count: int = 1, within: float = PATIENCE) -> Event:
        """The ``count``-th event of a kind, waiting for it."""
        events = await self.changes.until(
            lambda: len(found := self.seen(kind)) >= count and found, f"{kind} at {self.name}", within
        )
        return events[count - 1]

    async def ended(self, within: float = PATIENCE) -> None:
        """Wait until no process of it is connected: what it saw is complete then."""
        await self.changes.until(lambda: not self._streams, f"the end of {self.name}", within)


def _capabilities(script: dict[str, Any]) -> dict[str, Any]:
    """What a server with these items declares."""
    found: dict[str, Any] = {}
    for key, member in _MEMBERS.items():
        if script.get(key):
            found[member] = {"listChanged": True}
    if script.get("completes") is not None and script["legacy"] != [V2024_11_05]:
        found["completions"] = {}
    return found


def wrapped(command: list[str]) -> list[str]:
    """A shell around the server, as package runners put one, with the server as its child."""
    return ["sh", "-c", f"exec 3<&0; {' '.join(command)} <&3 & wait"]


def _cancelled(frame: dict[str, Any]) -> Any:
    """The request that a frame cancels."""
    return frame["params"]["requestId"] if frame.get("method") == "notifications/cancelled" else ...


def noise(data: bytes) -> str:
    """Bytes as the ``stdout`` step takes them."""
    return data.decode("latin-1")
