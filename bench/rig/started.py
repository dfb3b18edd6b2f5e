"""One gateway with its upstream and a host that has made its first call; and what the gateway costs."""

from __future__ import annotations

import socket
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rig.gateways import Place
from rig.loads import Host, HttpLoad, StdioLoad, WrongAnswerError
from rig.process import bounded, cpu, descendants, resident, running
from rig.upstreams import http_command, is_upstream, stdio_command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Generator

    from rig.gateways import Cell, Gateway
    from rig.loads import Load

PATIENCE = (
    60.0  # seconds for all that is done with one gateway; then it is killed, and whoever waits for it hears of it
)
START_PATIENCE = 20.0  # seconds until it listens
LOOK = 0.002  # seconds between two looks whether it listens
SHOWN = 2  # lines of what it wrote to stderr


class FailedError(Exception):
    """The gateway did not do it; says what was seen."""


class Started:
    """A gateway that works."""

    def __init__(self, load: Load, gateway: int | None, upstream: int | None, seconds: float) -> None:
        self.load = load
        self.seconds = seconds  # from the start to the first answer
        self._gateway = gateway
        self._upstream = upstream  # of an upstream that the gateway did not start

    def cpu(self) -> float:
        """Seconds of processor time so far, of all its processes; without a gateway it is the upstream's."""
        return sum(map(cpu, self._own()))

    def upstream_cpu(self) -> float:
        """The same of the upstream."""
        return sum(map(cpu, self._upstreams()))

    def resident(self) -> float:
        """MiB, of all its processes."""
        return sum(map(resident, self._own()))

    def _own(self) -> list[int]:
        if self._gateway is None:
            return self._upstreams()
        tree = [self._gateway, *descendants(self._gateway)]
        return [pid for pid in tree if not is_upstream(pid)] or tree

    def _upstreams(self) -> list[int]:
        if self._upstream is not None:
            return [self._upstream]
        assert self._gateway is not None
        return [pid for pid in (self._gateway, *descendants(self._gateway)) if is_upstream(pid)]


@contextmanager
def started(gateway: Gateway, cell: Cell) -> Generator[Started]:
    """Start it; raises ``FailedError`` with what was seen where the first call does not come back as it should."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, target = None, 0
        before = time.perf_counter()
        if cell.way.upstream == "http":
            process = stack.enter_context(running(http_command(cell.eras.upstream)))
            assert process.stdout is not None
            upstream, target = process.pid, int(process.stdout.readline())
        place = Place(stdio_command(cell.eras.upstream), target, _free_port(), folder)
        command = gateway.command(cell, place)
        host = Host(cell.eras.host, gateway.prefix)
        errors = folder / "stderr"
        try:
            if not command:
                yield stack.enter_context(_alone(host, target, upstream, before))
            elif cell.way.host == "stdio":
                yield stack.enter_context(_by_pipes(command, host, upstream, errors))
            else:
                yield stack.enter_context(_by_http(command, host, upstream, errors, place.port))
        except (FailedError, WrongAnswerError, OSError) as error:  # as of a pipe or connection that it closed
            raise FailedError(f"{error}{_last_words(errors)}") from error


@contextmanager
def _alone(host: Host, port: int, upstream: int | None, before: float) -> Generator[Started]:
    with closing(HttpLoad(port, host)) as load:
        load.open()
        yield Started(load, None, upstream, time.perf_counter() - before)


@contextmanager
def _by_pipes(command: list[str], host: Host, upstream: int | None, errors: Path) -> Generator[Started]:
    before = time.perf_counter()
    with errors.open("wb") as file, running(command, stderr=file.fileno()) as process, bounded(process, PATIENCE):
        load = StdioLoad.of(process, host)
        load.open()
        yield Started(load, process.pid, upstream, time.perf_counter() - before)


@contextmanager
def _by_http(command: list[str], host: Host, upstream: int | None, errors: Path, port: int) -> Generator[Started]:
    before = time.perf_counter()
    with (
        errors.open("wb") as file,
        running(command, stdout=file.fileno(), stderr=file.fileno()) as process,
        bounded(process, PATIENCE),
    ):
        try:
            _wait_for(port, process)
            with closing(HttpLoad(port, host)) as load:
                load.open()
                yield Started(load, process.pid, upstream, time.perf_counter() - before)
        finally:
            process.terminate()  # the end of its stdin tells it nothing


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Gateways do not agree on how to tell that they listen, so one has to look."""
    end = time.perf_counter() + START_PATIENCE
    while process.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.perf_counter() > end:
            raise FailedError(f"it did not listen within {START_PATIENCE:.0f} s")
        time.sleep(LOOK)
    raise FailedError(f"it ended with status {process.returncode}")


def _last_words(errors: Path) -> str:
    """The end of what it wrote, without lines that hold no words."""
    said = errors.read_text(errors="replace").splitlines() if errors.exists() else []
    words = [line.strip(" \t|+-") for line in said if any(map(str.isalpha, line))]
    return "".join(f"; {line}" for line in words[-SHOWN:])
