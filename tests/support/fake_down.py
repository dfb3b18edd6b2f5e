"""A scripted host: a process (mcpx, or a server directly), spoken to in any revision over its standard streams.

Every line that it writes must be a frame, and is held against the rules of ``audit.py``: see ``Host.audit``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from mcpx.settings import Limits
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION
from mcpx.spec.revisions import is_modern
from tests.support.audit import HostAudit
from tests.support.waiting import BUSY, PATIENCE, Changes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

INFO = {"name": "fake-down", "version": "3.2.1"}
UNSAID: Any = object()
ENOUGH = 8.0  # seconds after which a process that should have ended by itself is killed
# Until when mcpx must have ended. Hosts kill a server about two seconds after EOF, and sooner after a signal.
AFTER_EOF = Limits().exit_budget_eof + BUSY
AFTER_SIGNAL = Limits().exit_budget_signal + BUSY


class Incoming(NamedTuple):
    """One frame that the host received."""

    at: float
    raw: bytes
    frame: dict[str, Any]

    @property
    def method(self) -> str | None:
        return self.frame.get("method")

    @property
    def params(self) -> dict[str, Any]:
        return self.frame.get("params", {})

    @property
    def result(self) -> dict[str, Any]:
        """The result; it is a failure of the test where there is none."""
        assert "result" in self.frame, self.raw[:2000].decode()
        return self.frame["result"]

    @property
    def error(self) -> dict[str, Any]:
        """The error; it is a failure of the test where there is none."""
        assert "error" in self.frame, self.raw[:2000].decode()
        return self.frame["error"]

    @property
    def code(self) -> int:
        return self.error["code"]


class Refusal(NamedTuple):
    """An error as the answer to a question."""

    code: int
    message: str


class Asked:
    """A request that the host sent."""

    def __init__(self, host: Host, key: str, method: str, revision: str | None, token: Any) -> None:
        self.key = key  # its id, as JSON
        self.method = method
        self.revision = revision
        self.token = token
        self.progress: list[Incoming] = []
        self.answer: Incoming | None = None
        self._host = host

    async def wait(self, within: float = PATIENCE) -> Incoming:
        """Its answer."""
        return await self._host.changes.until(lambda: self.answer, f"the answer to {self.method} {self.key}", within)


class Host:
    """The host's end of one connection. ``revision`` is what it speaks: ``None`` before it has said anything."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.changes = Changes()
        self.received: list[Incoming] = []  # every frame, those of a batch one by one
        self.batches: list[list[Incoming]] = []
        self.notifications: list[Incoming] = []
        self.requests: list[Incoming] = []
        self.strays: list[Incoming] = []  # answers to nothing that is in flight
        self.stderr = bytearray()
        self.noise: list[bytes] = []  # lines on stdout that are no frames
        self.revision: str | None = None
        self.capabilities: dict[str, Any] = {}
        self.info: dict[str, Any] | None = INFO
        # By method, what the host answers to questions: a result, a `Refusal`, or what gives one of them by the
        # question's params; `None` leaves it open. In either era.
        self.answers: dict[str, Any] = {}
        self.rounds: list[Incoming] = []  # the results that asked the host for input, of `converse`
        self.eof_at: float | None = None
        self.ended_at: float | None = None
        self.stopped_at: float | None = None  # when the host closed stdin, or sent a signal
        self._audit = HostAudit()
        self._asked: dict[str, list[Asked]] = {}  # in flight, the first asked first
        self._unanswered: list[Incoming] = []  # questions that were not looked at yet
        self._last_id = 0
        self._closed = False

    # -- sending

    async def send_raw(self, data: bytes) -> None:
        """Bytes just as they are, a newline included or not."""
        assert self.process.stdin is not None
        await self.process.stdin.send_all(data)

    async def send(self, frame: Any) -> None:
        await self.send_raw(json.dumps(frame).encode() + b"\n")

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def prepare(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        id: Any = UNSAID,
        revision: Any = UNSAID,
        meta: dict[str, Any] | None = None,
        capabilities: dict[str, Any] | None = None,
        level: str | None = None,
    ) -> tuple[Asked, dict[str, Any]]:
        """A request as a host of ``revision`` says it, and what waits for its answer; nothing is sent yet."""
        revision = self.revision if revision is UNSAID else revision
        if id is UNSAID:
            self._last_id += 1
            id = self._last_id
        envelope: dict[str, Any] = {}
        if revision is not None and is_modern(revision):
            envelope = {
                PROTOCOL_VERSION: revision,
                CLIENT_CAPABILITIES: self.capabilities if capabilities is None else capabilities,
                **({CLIENT_INFO: self.info} if self.info is not None else {}),
                **({LOG_LEVEL: level} if level is not None else {}),
            }
        meta = {**envelope, **(meta or {})}
        if meta:
            params = {**(params or {}), "_meta": meta}
        frame = {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}
        return self.expect(frame, revision), frame

    def expect(self, frame: dict[str, Any], revision: str | None = None) -> Asked:
        """Wait for the answer to a request that the test sends by its own means."""
        key = json.dumps(frame["id"])
        params = frame.get("params")
        token = params.get("_meta", {}).get("progressToken") if isinstance(params, dict) else None
        asked = Asked(self, key, frame["method"], revision, token)
        self._asked.setdefault(key, []).append(asked)
        return asked

    async def start(self, method: str, params: dict[str, Any] | None = None, **how: Any) -> Asked:
        """Send a request; its answer is waited for elsewhere."""
        asked, frame = self.prepare(method, params, **how)
        await self.send(frame)
        return asked

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, within: float = PATIENCE, **how: Any
    ) -> Incoming:
        """Send a request and wait for its answer; see ``prepare`` for the keywords."""
        return await (await self.start(method, params, **how)).wait(within)

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **how: Any) -> Incoming:
        """``tools/call``."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}}, **how)

    async def cancel(self, asked: Asked, reason: str | None = None) -> None:
        params = {"requestId": json.loads(asked.key), **({} if reason is None else {"reason": reason})}
        await self.notify("notifications/cancelled", params)

    # -- being asked

    async def answer(self, question: Incoming, value: Any) -> None:
        """Answer a request of mcpx's."""
        outcome = {"error": value._asdict()} if isinstance(value, Refusal) else {"result": value}
        await self.send({"jsonrpc": "2.0", "id": question.frame["id"], **outcome})

    async def asked(self, method: str, *, count: int = 1, within: float = PATIENCE) -> Incoming:
        """The ``count``-th request of a method that the host was sent, waiting for it."""
        found = await self.changes.until(
            lambda: len(list_ := [one for one in self.requests if one.method == method]) >= count and list_,
            f"the question {method} number {count}",
            within,
        )
        return found[count - 1]

    def answer_to(self, method: str, params: dict[str, Any]) -> Any:
        """What the host answers to a question; ``None`` for nothing."""
        answer = self.answers.get(method)
        return answer(params) if callable(answer) else answer

    async def converse(self, method: str, params: dict[str, Any], *, within: float = PATIENCE, **how: Any) -> Incoming:
        """A request, made again with what the host answers as long as its result asks for input, as hosts of the modern
        era do. Those of the legacy one are asked meanwhile.
        """
        retry: dict[str, Any] = {}
        while True:
            answer = await self.request(method, {**params, **retry}, within=within, **how)
            if answer.frame.get("result", {}).get("resultType") != "input_required":
                return answer
            self.rounds.append(answer)
            retry = self.retry(answer)

    def retry(self, asking: Incoming) -> dict[str, Any]:
        """What the host adds to a request whose result has asked for input."""
        answers = {
            key: value
            for key, question in asking.result.get("inputRequests", {}).items()
            if (value := self.answer_to(question["method"], question.get("params", {}))) is not None
        }
        state = asking.result.get("requestState")
        return {
            **({"inputResponses": answers} if answers else {}),
            **({"requestState": state} if state is not None else {}),
        }

    # -- opening

    async def initialize(self, revision: Any, capabilities: dict[str, Any] | None = None, **how: Any) -> Incoming:
        """A whole handshake that asks for ``revision``; what was agreed on is the host's revision from then on."""
        self.capabilities = self.capabilities if capabilities is None else capabilities
        params = {"protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": self.info}
        answer = await self.request("initialize", params, revision=None, **how)
        if "result" in answer.frame:
            self.revision = answer.result["protocolVersion"]
            await self.notify("notifications/initialized")
        return answer

    async def open(self, revision: str, capabilities: dict[str, Any] | None = None) -> Incoming:
        """Open as a host of that revision does: the handshake, or a discovery."""
        if not is_modern(revision):
            return await self.initialize(revision, capabilities)
        self.revision, self.capabilities = revision, capabilities or {}
        return await self.request("server/discover")

    async def fence(self) -> None:
        """Come back when everything sent so far was read, and what it caused at once was written."""
        modern = self.revision is not None and is_modern(self.revision)
        await self.request("server/discover" if modern else "ping", id=f"fence {len(self.received)}")

    async def all_items(self, method: str, member: str, **how: Any) -> list[dict[str, Any]]:
        """A whole list, page by page."""
        items: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        while True:
            result = (await self.request(method, dict(cursor), **how)).result
            items += result[member]
            if "nextCursor" not in result:
                return items
            cursor = {"cursor": result["nextCursor"]}

    async def names(self, **how: Any) -> list[str]:
        """The names of all tools."""
        return [tool["name"] for tool in await self.all_items("tools/list", "tools", **how)]

    # -- receiving

    async def notified(
        self,
        method: str,
        where: Callable[[Incoming], bool] = lambda _: True,
        *,
        count: int = 1,
        within: float = PATIENCE,
    ) -> Incoming:
        """The ``count``-th notification of a method, waiting for it."""
        found = await self.changes.until(
            lambda: len(list_ := [n for n in self.notifications if n.method == method and where(n)]) >= count and list_,
            f"{method} number {count}",
            within,
        )
        return found[count - 1]

    async def logged(self, text: str, within: float = PATIENCE) -> str:
        """Wait until a text is in the log (stderr); gives the line it is in."""
        await self.changes.until(lambda: text in self.log, f"{text!r} in the log", within)
        return next(line for line in self.log.splitlines() if text in line)

    @property
    def log(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    async def read(self) -> None:
        """Take what the process writes on stdout, until it closes it."""
        assert self.process.stdout is not None
        buffer = bytearray()
        while data := await self.process.stdout.receive_some(1 << 20):
            seen = len(buffer)
            buffer += data
            while (end := buffer.find(b"\n", seen)) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                seen = 0
                self._take(line)
            self.changes.tell()
            await self._answer_questions()
        if buffer:
            self.noise.append(bytes(buffer))
        self.eof_at = time.monotonic()
        self.changes.tell()

    async def read_log(self) -> None:
        """Take what the process writes on stderr, until it closes it."""
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.stderr += data
            self.changes.tell()

    async def _answer_questions(self) -> None:
        while self._unanswered:
            question = self._unanswered.pop(0)
            assert question.method is not None
            if (value := self.answer_to(question.method, question.params)) is not None:
                await self.answer(question, value)

    def _take(self, line: bytes) -> None:
        try:
            value = json.loads(line)
        except ValueError:
            self.noise.append(line)
            return
        frames = value if isinstance(value, list) else [value]
        if not all(isinstance(frame, dict) and frame.get("jsonrpc") == "2.0" for frame in frames) or not frames:
            self.noise.append(line)
            return
        incoming = [Incoming(time.monotonic(), line, frame) for frame in frames]
        if isinstance(value, list):
            self.batches.append(incoming)
        for one in incoming:
            self._sort(one)

    def _sort(self, incoming: Incoming) -> None:
        frame = incoming.frame
        self.received.append(incoming)
        if "method" in frame and "id" in frame:
            self.requests.append(incoming)
            self._unanswered.append(incoming)
            self._audit.request(frame)
        elif "method" in frame:
            self.notifications.append(incoming)
            owner = self._owner(incoming)
            self._audit.notification(frame, owner.revision if owner else None)
        else:
            queue = self._asked.get(json.dumps(frame.get("id")), [])
            asked = queue.pop(0) if queue else None
            self._audit.response(frame, asked)
            if asked is None:
                self.strays.append(incoming)
            else:
                asked.answer = incoming

    def _owner(self, incoming: Incoming) -> Asked | None:
        """The request that a progress notification belongs to, told by its token and the token's type."""
        token = json.dumps(incoming.params.get("progressToken"))
        if incoming.method == "notifications/progress":
            for asked in self._in_flight():
                if json.dumps(asked.token) == token:
                    asked.progress.append(incoming)
                    return asked
        if incoming.method == "notifications/message":
            return next((asked for asked in self._in_flight() if asked.revision and is_modern(asked.revision)), None)
        return None

    def _in_flight(self) -> list[Asked]:
        return [asked for queue in self._asked.values() for asked in queue]

    # -- the end

    async def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.stopped_at = time.monotonic()
        await self.process.stdin.aclose()

    def signal(self, number: int) -> None:
        self.stopped_at = time.monotonic()
        os.kill(self.process.pid, number)

    async def wait(self, within: float = ENOUGH) -> int:
        """Wait until the process has ended and all that it wrote was read; its exit status."""
        with trio.move_on_after(within):
            status = await self.process.wait()
            self.ended_at = self.ended_at or time.monotonic()
            await self.changes.until(lambda: self.eof_at is not None, "the end of its stdout", within)
            return status
        raise AssertionError(f"the process has not ended within {within} s:\n{self.log}")

    async def close(self, within: float = ENOUGH) -> int:
        """Close stdin and wait for the end; its exit status."""
        self._closed = True
        await self.close_stdin()
        return await self.wait(within)

    @property
    def took(self) -> float:
        """Seconds from the host's word to stop to the process's end."""
        assert self.ended_at is not None
        assert self.stopped_at is not None
        return self.ended_at - self.stopped_at

    def audit(self) -> list[str]:
        """What the process did wrong, whatever the test was about."""
        problems = list(self._audit.problems)
        problems += [f"no frame on stdout: {line[:200]!r}" for line in self.noise]
        if "Traceback" in self.log:
            problems.append("a traceback in the log")
        return problems


@asynccontextmanager
async def open_host(command: Sequence[str], *, env: dict[str, str], cwd: Path) -> AsyncIterator[Host]:
    """Start a command and speak to it; on leaving its stdin is closed, and after a while it is killed."""
    process = await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )
    host = Host(process)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.read)
            nursery.start_soon(host.read_log)
            yield host
            if process.returncode is None:
                await host.close()
            nursery.cancel_scope.deadline = trio.current_time() + 1  # a child may hold the pipes open
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with trio.move_on_after(1, shield=True):
                await stream.aclose()


async def gone(pids: Iterable[int], within: float = ENOUGH) -> None:
    """Wait until none of these processes runs; nothing tells of the end of one that is not a child."""
    with trio.move_on_after(within):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110
            await trio.sleep(0.02)
        return
    raise AssertionError(f"still there after {within} s: {[pid for pid in pids if alive(pid)]}")


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")
