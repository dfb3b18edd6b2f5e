"""A minimal MCP server by HTTP, on a free port of this machine which it says as its first line on stdout.

    python -S -E over_http.py legacy|modern TOOLS [events]

One loop over epoll; connections are kept. In the legacy era ``initialize`` opens a session, and every other POST must
name it. An answer is JSON, or with ``events`` a stream of one event. It ends when its stdin does.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys

from answers import Answers  # beside this script

CHUNK = 256 * 1024
BACKLOG = 1024
LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)")
SESSION = re.compile(rb"(?i)\r\nmcp-session-id:[ \t]*(\S+)")


class Link:
    """One connection: what of it has come and was not yet served, and what has not yet gone."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.came = b""
        self.owed = memoryview(b"")
        self.blocked = False  # so that nothing more is read before all that is owed has gone

    def flush(self) -> bool:
        """Write what is owed; say whether all of it has gone."""
        try:
            while self.owed:
                self.owed = self.owed[self.stream.send(self.owed) :]
        except BlockingIOError:
            return False
        return True


class Server:
    """All connections."""

    def __init__(self, answers: Answers, *, sessions: bool, events: bool) -> None:
        self._answers = answers
        self._events = events
        self._sessions: set[bytes] | None = set() if sessions else None
        self._links: dict[int, Link] = {}
        self._poll = select.epoll()

    def run(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
            listener.setblocking(False)
            self._poll.register(0, select.EPOLLIN)
            self._poll.register(listener.fileno(), select.EPOLLIN)
            print(listener.getsockname()[1], flush=True)
            while True:
                for number, _ in self._poll.poll():
                    if number == 0:
                        return
                    if number == listener.fileno():
                        self._accept(listener)
                    else:
                        self._ready(number, self._links[number])

    def _accept(self, listener: socket.socket) -> None:
        stream, _ = listener.accept()
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links[stream.fileno()] = Link(stream)
        self._poll.register(stream.fileno(), select.EPOLLIN)

    def _ready(self, number: int, link: Link) -> None:
        try:
            if link.blocked:
                self._write(number, link)
            elif data := link.stream.recv(CHUNK):
                link.came += data
                self._serve(number, link)
            else:
                raise ConnectionResetError
        except (ConnectionResetError, BrokenPipeError):
            self._poll.unregister(number)
            del self._links[number]
            link.stream.close()

    def _serve(self, number: int, link: Link) -> None:
        """Answer all requests that are there as a whole, in one write."""
        out: list[bytes] = []
        while (end := link.came.find(b"\r\n\r\n")) >= 0:
            head = link.came[: end + 2]
            length = LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(link.came) < whole:
                break
            out.append(self._answer(head, link.came[end + 4 : whole]))
            link.came = link.came[whole:]
        link.owed = memoryview(b"".join(out))
        self._write(number, link)

    def _write(self, number: int, link: Link) -> None:
        blocked = not link.flush()
        if blocked is not link.blocked:
            link.blocked = blocked
            self._poll.modify(number, select.EPOLLOUT if blocked else select.EPOLLIN)

    def _answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"DELETE"):
            return _empty(b"200 OK")
        if not head.startswith(b"POST"):  # there is nothing that a stream of its own would carry
            return _empty(b"405 Method Not Allowed", b"Allow: POST, DELETE\r\n")
        opened = b""
        if self._sessions is not None:
            named = SESSION.search(head)
            if b'"initialize"' in body and named is None:
                session = os.urandom(16).hex().encode()
                self._sessions.add(session)
                opened = b"Mcp-Session-Id: %b\r\n" % session
            elif named is None or named[1] not in self._sessions:
                return _empty(b"404 Not Found" if named else b"400 Bad Request")
        answer = self._answers.answer(body)
        if answer is None:
            return _empty(b"202 Accepted")
        kind = b"application/json"
        if self._events:
            answer = b"event: message\ndata: %b\n" % answer
            kind = b"text/event-stream"
        length = b"Content-Length: %d\r\n" % len(answer)
        return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b%b\r\n%b" % (kind, opened, length, answer)


def _empty(status: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: 0\r\n\r\n" % (status, headers)


def main() -> None:
    era, tools, *rest = sys.argv[1:]
    Server(Answers(era, int(tools)), sessions=era == "legacy", events="events" in rest).run()


if __name__ == "__main__":
    main()
