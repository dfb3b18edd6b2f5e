"""mcpx with servers and limits of a benchmark's own, on pipes or by HTTP, and with no memory of former runs."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from rig.loads import WrongAnswerError
from rig.process import bounded, running
from rig.started import FailedError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

PATIENCE = 120.0  # seconds for all that is done with one mcpx; then it is killed, and whoever waits hears of it
SHOWN = 3  # lines of what it wrote to stderr
NO_LIMITS: Mapping[str, Any] = {}
_LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:(\d+)/mcp")


class Serving(NamedTuple):
    """mcpx by HTTP."""

    pid: int
    port: int


def entry(command: Sequence[str]) -> dict[str, Any]:
    """A server of the configuration that is a program."""
    program, *arguments = command
    return {"command": program, "args": arguments}


@contextmanager
def on_pipes(
    servers: Mapping[str, Any], limits: Mapping[str, Any] = NO_LIMITS, *, state: Path | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Serving one host; ``state`` is a folder where it keeps what it learns of servers, instead of a new one."""
    with _mcpx(servers, limits, state) as (process, _):
        yield process


@contextmanager
def by_http(servers: Mapping[str, Any], limits: Mapping[str, Any] = NO_LIMITS) -> Generator[Serving]:
    """Serving any number, once it listens."""
    with _mcpx(servers, limits, None, "--http", "127.0.0.1:0") as (process, log):
        try:
            yield Serving(process.pid, log.port())
        finally:
            process.terminate()  # the end of its stdin tells it nothing


@contextmanager
def _mcpx(
    servers: Mapping[str, Any], limits: Mapping[str, Any], state: Path | None, *options: str
) -> Generator[tuple[subprocess.Popen[bytes], _Log]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "mcpx.json"
        config.write_text(json.dumps({"mcpServers": servers, "limits": limits}), encoding="utf-8")
        env = {**os.environ, "XDG_STATE_HOME": str(state or folder)}
        command = [sys.executable, "-m", "mcpx", "serve", "--config", str(config), *options]
        stdout = subprocess.DEVNULL if options else subprocess.PIPE
        log = None
        try:
            with (
                running(command, env=env, stdout=stdout, stderr=subprocess.PIPE) as process,
                bounded(process, PATIENCE),
            ):
                assert process.stderr is not None
                log = _Log(process.stderr)
                yield process, log
        except (WrongAnswerError, OSError) as error:  # as of a pipe or connection that it closed
            raise FailedError("; ".join([str(error), *(log.last() if log else ())])) from error
        finally:
            if log is not None:
                log.close()


class _Log:
    """What mcpx writes to stderr, read in a thread, so that it never waits for someone to hear it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last: deque[str] = deque(maxlen=SHOWN)
        self._ports: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def port(self) -> int:
        """Where it listens; raises ``FailedError`` where it ends instead."""
        port = self._ports.get()
        if port is None:
            raise FailedError("; ".join(["mcpx did not start", *self._last]))
        return port

    def last(self) -> list[str]:
        """Its last words, as far as they have come."""
        return list(self._last)

    def close(self) -> None:
        """After its end."""
        self._thread.join()
        self._stream.close()

    def _read(self) -> None:
        for line in self._stream:
            self._last.append(line.decode(errors="replace").strip())
            if found := _LISTENING.search(line):
                self._ports.put(int(found[1]))
        self._ports.put(None)
