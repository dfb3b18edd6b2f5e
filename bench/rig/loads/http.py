"""A host at a port, over as many connections as it has calls in flight, each of which is kept."""

from __future__ import annotations

import json
import select
import socket
from typing import TYPE_CHECKING

from rig.loads.answers import Incoming, body_of, frame_of, session_of, status_of
from rig.loads.load import Load
from rig.loads.words import WrongAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rig.loads.load import Batch
    from rig.loads.words import Host

CHUNK = 1024 * 1024


class Link:
    """One connection, with one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming = Incoming()

    def send(self, message: bytes | memoryview) -> None:
        sent = self.socket.send(message)
        assert sent == len(message)  # an empty socket buffer takes a request of this size whole

    def receive(self) -> bytes | None:
        """Read once; the answer when all of it is there."""
        data = self.socket.recv(CHUNK)
        if not data:
            raise WrongAnswerError("the connection was closed before the answer had ended")
        return self._incoming.feed(data)


class HttpLoad(Load):
    """Requests are POSTs. One connection is used for calls that come one at a time, ``in_flight`` for a window.

    An answer has come when its HTTP response has ended, be it JSON or a stream of events.
    """

    def __init__(self, port: int, host: Host, path: str = "/mcp") -> None:
        super().__init__(host)
        self._port = port
        self._path = path
        self._opened = False  # by a handshake
        self._session = ""
        self._links: list[Link] = []

    def message(self, frame: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self._head(frame), len(frame), frame)

    def open(self) -> None:
        self.ready(1)
        if opening := self.host.opening():
            hello, done = opening
            heard = self.ask(self.message(hello))
            self.host.check_opening(self.payload(heard))
            self._session = session_of(heard)
            self._opened = True
            if (status := status_of(self.ask(self.message(done)))) not in (200, 202, 204):
                raise WrongAnswerError(f"notifications/initialized was answered with status {status}")
        self.first_call()

    def close(self) -> None:
        while self._links:
            self._links.pop().socket.close()

    def ask(self, message: bytes | memoryview) -> bytes:
        link = self._links[0]
        link.send(message)
        while (heard := link.receive()) is None:
            pass
        return heard

    def payload(self, heard: bytes) -> bytes:
        if (status := status_of(heard)) != 200:
            raise WrongAnswerError(f"a request was answered with status {status}: {body_of(heard)[:300]!r}")
        return frame_of(heard)

    def ready(self, in_flight: int) -> None:
        while len(self._links) < in_flight:
            self._links.append(Link(self._port))

    def slide(self, batch: Batch, in_flight: int) -> Sequence[bytes]:
        links = {link.socket.fileno(): link for link in self._links[:in_flight]}
        heard: list[bytes] = []
        messages = self._messages(batch)
        with select.epoll() as poll:
            for number, link in links.items():
                poll.register(number, select.EPOLLIN)
                if (message := next(messages, None)) is not None:
                    link.send(message)
            while len(heard) < batch.count:
                for number, _ in poll.poll():
                    link = links[number]
                    answer = link.receive()
                    if answer is None:
                        continue
                    heard.append(answer)
                    if (message := next(messages, None)) is not None:
                        link.send(message)
        return heard

    def payloads(self, heard: Sequence[bytes]) -> Sequence[bytes]:
        return [self.payload(one) for one in heard]

    @staticmethod
    def _messages(batch: Batch) -> Iterator[memoryview]:
        return (batch.view[start : start + batch.size] for start in range(0, len(batch.view), batch.size))

    def _head(self, frame: bytes) -> bytes:
        """All of a request's head but the length, which comes last."""
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: 127.0.0.1:{self._port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
        ]
        if self.host.era == "modern":
            said = json.loads(frame)
            lines += [f"MCP-Protocol-Version: {self.host.revision}", f"Mcp-Method: {said['method']}"]
            if name := said["params"].get("name"):
                lines.append(f"Mcp-Name: {name}")
        elif self._opened:
            lines.append(f"MCP-Protocol-Version: {self.host.revision}")
            if self._session:
                lines.append(f"Mcp-Session-Id: {self._session}")
        return "\r\n".join([*lines, "Content-Length: "]).encode()
