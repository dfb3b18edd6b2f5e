"""A conversation with the host edge: frames in, frames out, with a gateway behind it that does what the test says."""

from __future__ import annotations

import json
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Self

import trio
import trio.testing
from msgspec import Raw

from mcpx.errors import RpcError
from mcpx.gateway.gateway import Page, Part
from mcpx.gateway.parking import Parking
from mcpx.gateway.questions import Desks
from mcpx.gateway.sealing import Sealer
from mcpx.gateway.uris import ancestors
from mcpx.host.connection import serve_channel
from mcpx.host.listen import LISTEN
from mcpx.host.service import Service
from mcpx.settings import Limits, Settings
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_MODERN, V2024_11_05, is_modern
from mcpx.transports.ladder import ExitPlan
from mcpx.transports.memory import MemoryChannel, memory_channel_pair
from mcpx.upstream.call import (
    Asker,
    Change,
    Event,
    Identity,
    InputRequired,
    Interest,
    LogMessage,
    News,
    Remark,
    Reply,
    Request,
)
from tests.support.schemas import validate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType

CAPABILITIES = {
    "tools": Raw(b'{"listChanged":true}'),
    "prompts": Raw(b'{"listChanged":true}'),
    "resources": Raw(b'{"listChanged":true,"subscribe":true}'),
    "completions": Raw(b"{}"),
    "logging": Raw(b"{}"),
}
TEXT = Raw(b'{"content":[{"type":"text","text":"hello"}]}')


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


class FakeCall:
    """A ``Call`` whose events the test puts in."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.state = "new"  # then "open", and in the end "done" or "cancelled"
        self.server = "one"
        self.answers: list[tuple[str, Any, str]] = []  # key, outcome (an error as it is, a result decoded), revision
        self.answered = trio.Event()
        self._events: deque[Event | BaseException] = deque()
        self._wake = trio.Event()
        self._heed: Callable[[], None] | None = None
        self.begins = True
        self.begin_error: Exception | None = None

    def put(self, *events: Event | BaseException) -> None:
        self._events.extend(events)
        self._wake.set()
        if self._heed is not None and events:
            self._heed()

    def reply(self, payload: Raw = TEXT, revision: str = LATEST_MODERN) -> None:
        self.put(Reply(payload, revision, "one"))

    def __enter__(self) -> Self:
        self.state = "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._heed = None
        if self.state == "open":
            self.state = "cancelled"

    def begin_nowait(self, heed: Callable[[], None]) -> bool:
        if self.begin_error is not None:
            raise self.begin_error
        if self._events or not self.begins:
            return False
        self.state = "open"
        self._heed = heed
        return True

    def unread(self, event: Event | RpcError) -> None:
        self._events.appendleft(event)

    async def next(self) -> Event:
        self._heed = None
        while not self._events:
            self._wake = trio.Event()
            await self._wake.wait()
        return self._pop()

    def next_nowait(self) -> Event | None:
        return self._pop() if self._events else None

    def answer(self, key: str, outcome: Raw | RpcError, revision: str) -> None:
        self.answers.append((key, outcome if isinstance(outcome, RpcError) else json.loads(bytes(outcome)), revision))
        self.answered.set()

    @contextmanager
    def hold(self) -> Iterator[None]:
        yield

    def _pop(self) -> Event:
        event = self._events.popleft()
        if isinstance(event, (BaseException, Reply, InputRequired)):
            self.state = "done"
        if isinstance(event, BaseException):
            raise event
        return event


class FakeWatch:
    """A watch whose servers agree to what the gateway ``delivers``, once it is ``settling``."""

    def __init__(
        self, gateway: FakeGateway, asker: Asker, wanted: Interest, notify: Callable[[News], None], keep: bool
    ) -> None:
        self.asker = asker
        self.wanted = wanted
        self.notify = notify
        self.keep = keep
        self._gateway = gateway

    def change(self, interest: Interest) -> None:
        self.wanted = interest

    async def settled(self, uris: Any = None) -> None:
        await self._gateway.settling.wait()

    @property
    def granted(self) -> Interest:
        return self._gateway.delivers(self.wanted)

    def grants(self, uri: str) -> bool:
        return uri in self.granted.uris

    def reaches(self, uri: str) -> bool:
        return any(outer in self.wanted.uris for outer in (uri, *ancestors(uri)))


class FakeGateway:
    """What ``serve_channel`` needs of a gateway. ``script`` is put into each call as it is opened."""

    def __init__(self, *script: Event | BaseException, passthrough: bool = False, **limits: Any) -> None:
        self.settings = Settings(limits=Limits(**limits))
        self.exit_plan = ExitPlan()
        self.passthrough = passthrough
        self.said = Identity(None, CAPABILITIES, "Be kind.")
        self.identity_error: Exception | None = None
        self.script = script
        self.begins = True  # whether its calls can be sent without being waited for
        self.begin_error: Exception | None = None  # what sending them so comes to
        self.calls: list[FakeCall] = []
        self.expected: list[str | None] = []  # the servers that these must be for
        self.sealer = Sealer(b"a key of the test")
        self.open(None)
        self.parts: list[Part] = []
        self.next_cursor: str | None = None
        self.listed: list[tuple[str, Asker, str | None]] = []
        self.watching: list[FakeWatch] = []
        self.delivers: Callable[[Interest], Interest] = lambda wanted: wanted
        self.levels: dict[str, str] = {}  # that hosts have set, by host
        self.settling = trio.Event()  # until then no server has agreed to anything
        self.settling.set()

    def identity_nowait(self) -> Identity | None:
        return self.said if self.identity_error is None else None

    async def identity(self, asker: Asker) -> Identity:
        if self.identity_error is not None:
            raise self.identity_error
        return self.said

    def open(self, nursery: Any) -> None:
        """Whatever needs tasks has them in there, as a gateway's own are; until then nothing may need any."""
        limits = self.settings.limits
        self.parking = Parking(nursery, limits.max_parked, limits.question_timeout)
        self.desks = Desks(nursery, limits.question_timeout)

    def exchange(self, request: Request, *, expected: str | None = None) -> FakeCall:
        call = FakeCall(request)
        call.begins, call.begin_error = self.begins, self.begin_error
        self.expected.append(expected)
        call.put(*self.script)
        self.calls.append(call)
        return call

    async def list(self, kind: str, asker: Asker, cursor: str | None) -> Page:
        self.listed.append((kind, asker, cursor))
        return Page(self.parts, self.next_cursor, 1500, "public")

    @contextmanager
    def watch(
        self, asker: Asker, interest: Interest, notify: Callable[[News], None], *, keep: bool
    ) -> Iterator[FakeWatch]:
        watch = FakeWatch(self, asker, interest, notify, keep)
        self.watching.append(watch)
        try:
            yield watch
        finally:
            self.watching.remove(watch)

    def set_level(self, asker: Asker, level: str | None) -> None:
        self.levels.pop(asker.host, None)
        if level is not None:
            self.levels[asker.host] = level

    def remark(self, message: LogMessage, host: str = "test") -> None:
        """A log message that belongs to no call, for one host."""
        for watch in self.watching:
            if watch.asker.host == host:
                watch.notify(Remark("one", host, message))

    def change(self, *changes: Change) -> None:
        """Say these to whoever wants to hear of them."""
        for change in changes:
            for watch in self.watching:
                wanted = change.kind in watch.wanted.lists if change.uri is None else watch.reaches(change.uri)
                if wanted:
                    watch.notify(change)


class Talk:
    """The host's end. ``heard`` is every frame that came, as it was written; ``hear`` waits for the next one."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel
        self.heard: list[bytes] = []
        self.stop = trio.Event()
        self.service: Service  # that serves it, where ``open_talk`` does
        self.ended = trio.Event()
        self.asked: dict[str, tuple[str, str | None]] = {}
        self._revision: str | None = None  # of the last handshake
        self._next = 0
        self._more = trio.Event()

    async def write(self, *lines: bytes) -> None:
        """Lines as they are."""
        for line in lines:
            await self.channel.send(line)

    async def say(self, *frames: Any) -> None:
        await self.write(*(self._note(frame) for frame in frames))

    async def ask(self, id: Any, method: str, params: Any = None, *, revision: str | None = None, **meta: Any) -> None:
        """A request: modern with a modern ``revision``, otherwise without any envelope. ``meta`` joins ``_meta``."""
        params = dict(params or {})
        if revision is not None and is_modern(revision):
            meta = {
                PROTOCOL_VERSION: revision,
                CLIENT_CAPABILITIES: {},
                CLIENT_INFO: {"name": "h", "version": "1"},
            } | meta
        if meta:
            params["_meta"] = meta
        await self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def notify(self, method: str, params: Any = None) -> None:
        await self.say({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def call(self, id: Any, revision: str | None = None, **meta: Any) -> None:
        await self.ask(id, "tools/call", {"name": "one__echo", "arguments": {"x": 1.0}}, revision=revision, **meta)

    async def shake(self, revision: str, **params: Any) -> Any:
        """A whole handshake; the result of ``initialize``."""
        said = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}} | params
        await self.ask("shake", "initialize", said)
        answer = await self.hear()
        await self.notify("notifications/initialized")
        await trio.testing.wait_all_tasks_blocked()
        return answer["result"]

    async def hear(self) -> Any:
        """The next frame (or batch) that was not heard yet."""
        while self._next == len(self.heard):
            self._more = trio.Event()
            await self._more.wait()
        self._next += 1
        return json.loads(self.heard[self._next - 1])

    async def hear_all(self) -> list[Any]:
        """All frames that come until nothing moves any more."""
        await trio.testing.wait_all_tasks_blocked()
        frames = [json.loads(line) for line in self.heard[self._next :]]
        self._next = len(self.heard)
        return frames

    async def catch_up(self) -> list[Any]:
        """The same, for a host that did not read so far."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listen)
            frames = await self.hear_all()
            nursery.cancel_scope.cancel()
        return frames

    async def listen(self) -> None:
        """Take what comes, for as long as something does."""
        while messages := await self.channel.receive():
            for message in messages:
                assert isinstance(message, bytes)
                self.heard.append(message)
                value = json.loads(message)
                for frame in value if isinstance(value, list) else [value]:
                    self._check(frame)
            self._more.set()

    def _note(self, value: Any) -> bytes:
        for frame in value if isinstance(value, list) else [value]:
            if isinstance(frame, dict) and "id" in frame and "method" in frame:
                meta = frame["params"].get("_meta", {}) if isinstance(frame.get("params"), dict) else {}
                version = meta.get(PROTOCOL_VERSION)
                revision = LATEST_MODERN if version is not None else self._revision
                self.asked.setdefault(json.dumps(frame["id"]), (frame["method"], revision))
        return json.dumps(value, ensure_ascii=False).encode()

    def _check(self, frame: dict[str, Any]) -> None:
        """Hold a frame against the schema of its revision; one that is for nobody has none."""
        if "method" in frame:
            revision = self._revision or next((one for _, one in self.asked.values() if one), V2024_11_05)
            tagged = SUBSCRIPTION_ID in frame.get("params", {}).get("_meta", {})
            validate(frame, LATEST_MODERN if tagged else revision, sender="server")
        elif (asked := self.asked.get(json.dumps(frame.get("id")))) is not None:
            method, revision = asked
            if method == "initialize" and "result" in frame:
                self._revision = revision = frame["result"]["protocolVersion"]
            if method == LISTEN and revision is not None and "result" in frame and not is_modern(revision):
                return  # legacy revisions have no streams, and so no result for one
            validate(frame, revision or V2024_11_05, sender="server", method=method)


@asynccontextmanager
async def open_talk(
    gateway: FakeGateway, *, drain: float = 0, listens: bool = True, max_pending: int = 1 << 20
) -> AsyncIterator[Talk]:
    """Serve one connection of ``gateway``; on leaving, the host closes it and everything must have ended."""
    ours, theirs = memory_channel_pair(max_pending=max_pending)
    talk = Talk(ours)

    talk.service = Service(gateway)  # type: ignore[arg-type]

    async def serve() -> None:
        with theirs:
            await serve_channel(
                talk.service, theirs, host="test", transport="memory", drain=lambda: drain, stop=talk.stop
            )
        talk.ended.set()

    async with trio.open_nursery() as crew, trio.open_nursery() as nursery:
        gateway.open(crew)
        nursery.start_soon(serve)
        if listens:
            nursery.start_soon(talk.listen)
        yield talk
        ours.close()
        await talk.ended.wait()
        crew.cancel_scope.cancel()
    assert not gateway.watching
    assert all(call.state in ("done", "cancelled", "new") for call in gateway.calls)
