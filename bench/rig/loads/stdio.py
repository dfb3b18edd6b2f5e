"""A host on the pipes of a process."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING

from rig.loads.load import Load
from rig.loads.words import WrongAnswerError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from rig.loads.load import Batch
    from rig.loads.words import Host

CHUNK = 1024 * 1024


class StdioLoad(Load):
    """Frames are lines. It waits in ``read`` for one answer, and in ``poll`` where it may have to write as well."""

    def __init__(self, stdin: int, stdout: int, host: Host) -> None:
        super().__init__(host)
        self._in = stdin
        self._out = stdout

    @classmethod
    def of(cls, process: subprocess.Popen[bytes], host: Host) -> StdioLoad:
        """On the pipes of a process that was started with both."""
        assert process.stdin is not None
        assert process.stdout is not None
        return cls(process.stdin.fileno(), process.stdout.fileno(), host)

    def message(self, frame: bytes) -> bytes:
        return frame + b"\n"

    def open(self) -> None:
        if opening := self.host.opening():
            hello, done = map(self.message, opening)
            self.host.check_opening(self.ask(hello))
            self._write(done)
        self.first_call()

    def ask(self, message: bytes | memoryview) -> bytes:
        self._write(message)
        chunks: list[bytes] = []
        while True:
            data = self._read()
            chunks.append(data)
            if data.endswith(b"\n"):
                return b"".join(chunks)

    def payload(self, heard: bytes) -> bytes:
        return heard

    def ready(self, in_flight: int) -> None:
        pass

    def slide(self, batch: Batch, in_flight: int) -> Sequence[bytes]:
        """Reads are answers counted by their newlines; whose answers they are is looked at afterwards."""
        view, size = batch.view, batch.size
        whole = len(view)
        heard: list[bytes] = []
        answered = sent = 0
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        poll.register(self._in, select.POLLOUT)
        os.set_blocking(self._in, False)
        try:
            while answered < batch.count:
                due = min(whole, (answered + in_flight) * size)
                if sent < due:
                    with suppress(BlockingIOError):
                        sent += os.write(self._in, view[sent:due])
                    if sent < due and self._out not in dict(poll.poll()):  # the pipe was full, and is no more
                        continue
                data = self._read()
                heard.append(data)
                answered += data.count(b"\n")
        finally:
            os.set_blocking(self._in, True)
        return heard

    def payloads(self, heard: Sequence[bytes]) -> Sequence[bytes]:
        return b"".join(heard).splitlines()

    def _read(self) -> bytes:
        data = os.read(self._out, CHUNK)
        if not data:
            raise WrongAnswerError("the process closed its stdout")
        return data

    def _write(self, message: bytes | memoryview) -> None:
        sent = os.write(self._in, message)
        assert sent == len(message)  # a blocking pipe takes all
