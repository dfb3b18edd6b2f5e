"""A host whose frames have many megabytes, which it reads and writes as fast as it can or at a pace."""

from __future__ import annotations

import json
import os
import socket
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rig.loads import Host, HttpLoad, StdioLoad, WrongAnswerError
from rig.loads.answers import Incoming
from rig.loads.words import result_of
from rig.upstreams.filling import filling

if TYPE_CHECKING:
    import subprocess

    from rig.loads import Era, Load

CHUNK = 256 * 1024
_FIRST = 20_000  # ids begin here, below those that a load gives out itself


class BulkHost(ABC):
    """``pace`` is bytes a second, of what it reads and of what it writes; 0 for as fast as can be."""

    def __init__(self, load: Load, pace: float) -> None:
        self._load = load
        self._pace = pace
        self._next = _FIRST

    def open(self) -> None:
        """The handshake, and a first call."""
        self._load.open()

    @abstractmethod
    def close(self) -> None:
        """Close what it opened itself."""

    def small(self) -> None:
        """A small call, whose answer is looked at."""
        self._load.check()

    def give(self, size: int) -> None:
        """Let the server send so much."""
        text = self._ask("give", {"bytes": size})
        if text != filling(size):
            raise WrongAnswerError(f"a text of {len(text)} characters came that is not the one asked for")

    def take(self, size: int) -> None:
        """Send so much to the server."""
        text = filling(size)
        if (told := self._ask("take", {"text": text})) != str(len(text)):
            raise WrongAnswerError(f"of {len(text)} characters the server got {told}")

    def _ask(self, tool: str, arguments: dict[str, Any]) -> str:
        self._next += 1
        # As a call of ``echo``, whose envelope is right for the era, but for the tool and its arguments.
        frame = json.loads(self._load.host.echo(self._next, tool))
        frame["params"]["arguments"] = arguments
        message = self._load.message(json.dumps(frame).encode())
        answer = self._load.payload(self._exchange(message))
        return result_of(answer)["content"][0]["text"]

    @abstractmethod
    def _exchange(self, message: bytes) -> bytes:
        """Send one message and wait for its answer."""

    def _pause(self, size: int) -> None:
        """As long as so much takes at its pace."""
        if self._pace:
            time.sleep(size / self._pace)


class BulkOnPipes(BulkHost):
    """A host on the pipes of a process."""

    def __init__(self, process: subprocess.Popen[bytes], host: Host, pace: float) -> None:
        super().__init__(StdioLoad.of(process, host), pace)
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()

    def close(self) -> None:
        """Nothing: the pipes are those of whoever started the process."""

    def _exchange(self, message: bytes) -> bytes:
        rest = memoryview(message)
        while rest:
            sent = os.write(self._in, rest[:CHUNK])
            rest = rest[sent:]
            self._pause(sent)
        heard: list[bytes] = []
        while not heard or not heard[-1].endswith(b"\n"):
            data = os.read(self._out, CHUNK)
            if not data:
                raise WrongAnswerError("the process closed its stdout")
            heard.append(data)
            self._pause(len(data))
        return b"".join(heard)


class BulkByHttp(BulkHost):
    """A host by HTTP, whose frames of many megabytes have a connection of their own."""

    def __init__(self, port: int, host: Host, pace: float) -> None:
        self._http = HttpLoad(port, host)
        super().__init__(self._http, pace)
        self._socket = socket.create_connection(("127.0.0.1", port))

    def close(self) -> None:
        self._http.close()
        self._socket.close()

    def _exchange(self, message: bytes) -> bytes:
        rest = memoryview(message)
        while rest:
            sent = self._socket.send(rest[:CHUNK])
            rest = rest[sent:]
            self._pause(sent)
        incoming = Incoming()
        while True:
            data = self._socket.recv(CHUNK)
            if not data:
                raise WrongAnswerError("the connection was closed before the answer had ended")
            if (answer := incoming.feed(data)) is not None:
                return answer
            self._pause(len(data))


def words(era: Era) -> Host:
    """What such a host says to mcpx in front of the server ``bench``."""
    return Host(era, "bench__")
