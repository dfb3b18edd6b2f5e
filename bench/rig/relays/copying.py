"""A relay that copies bytes, in two threads, one for each direction.

python -S -E copying.py stdio COMMAND ...     between its own pipes and those of a program
python -S -E copying.py tcp PORT TARGET       between the connections to a port and as many to another
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading

CHUNK = 256 * 1024


def relay_pipes(command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def outwards(stdin: int) -> None:
            _copy(0, stdin)
            os.close(stdin)

        # Daemonic: it may be waiting for the host to say more when the program has ended.
        threading.Thread(target=outwards, args=(os.dup(process.stdin.fileno()),), daemon=True).start()
        process.stdin.close()
        _copy(process.stdout.fileno(), 1)


def _copy(source: int, sink: int) -> None:
    while data := os.read(source, CHUNK):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(sink, rest) :]


class Direction:
    """All connections in one direction: whatever can be read at one end is written at the other."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self._pairs: dict[int, tuple[socket.socket, socket.socket]] = {}

    def add(self, source: socket.socket, sink: socket.socket) -> None:
        self._pairs[source.fileno()] = source, sink
        self.poll.register(source.fileno(), select.EPOLLIN)

    def copy(self, number: int) -> None:
        source, sink = self._pairs[number]
        try:
            data = source.recv(CHUNK)
            sink.sendall(data)
            if not data:
                sink.shutdown(socket.SHUT_WR)
        except OSError:  # either end has gone
            data = b""
        if not data:
            self.poll.unregister(number)
            del self._pairs[number]  # the other direction may still have both; the last one to go closes them

    def run(self) -> None:
        while True:
            for number, _ in self.poll.poll():
                self.copy(number)


def relay_connections(port: int, target: int) -> None:
    there, back = Direction(), Direction()
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        threading.Thread(target=back.run, daemon=True).start()
        there.poll.register(listener.fileno(), select.EPOLLIN)
        while True:
            for number, _ in there.poll.poll():
                if number != listener.fileno():
                    there.copy(number)
                    continue
                host, _ = listener.accept()
                upstream = socket.create_connection(("127.0.0.1", target))
                for one in (host, upstream):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                there.add(host, upstream)
                back.add(upstream, host)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        relay_pipes(sys.argv[2:])
    else:
        relay_connections(*map(int, sys.argv[2:4]))
