"""mcpx's log: lines on stderr that never hold up the event loop, and never show a secret.

Some hosts give a server a stderr that nobody reads. A pipe takes 64 KiB and then blocks whoever writes, so the writing
is a thread's, with a bounded queue before it: what does not fit is dropped, and the number of dropped lines shown in
their place.

By convention a message that concerns one server begins with its name, given as ``log.info("[%s] ...", server, ...)``;
in JSON the name has a member of its own.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import re
import select
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from mcpx.cli.text import plain
from mcpx.config.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]

MAX_LINE = 16 * 1024  # characters of one line; a traceback of deep recursion is longer and says no more
MAX_WAITING = 1024 * 1024  # bytes that wait for a slow reader
DRAIN = 0.1  # seconds that the end waits for the reader; part of the exit budget, so short

_SERVER = re.compile(r"\[%s\] ")


class Lines:
    """The one place that writes to stderr: any thread puts lines, a thread of its own writes them."""

    def __init__(self, fd: int, max_waiting: int = MAX_WAITING) -> None:
        self._fd = fd
        self._max_waiting = max_waiting
        self._waiting: collections.deque[bytes] = collections.deque()
        self._size = 0
        self._dropped = 0
        self._closing = False
        self._gone = False
        self._changed = threading.Condition()
        # A daemon, since a write to a pipe that nobody reads never returns and must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Queue a line, or count it as dropped where too much is waiting. Never blocks."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._changed:
            if self._gone:
                return
            if self._size + len(data) > self._max_waiting:
                self._dropped += 1
                return
            if self._dropped:
                data = self._count() + data
            self._waiting.append(data)
            self._size += len(data)
            self._changed.notify()

    def close(self, drain: float = DRAIN) -> None:
        """Write what is waiting, for at most ``drain`` seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(drain)

    def _run(self) -> None:
        while (data := self._take()) is not None:
            try:
                self._write(data)
            except OSError:  # the reader has gone, and with it all use of a log
                with self._changed:
                    self._gone = True
                    self._waiting.clear()
                return

    def _take(self) -> bytes | None:
        with self._changed:
            while not self._waiting and not self._dropped and not self._closing:
                self._changed.wait()
            if self._waiting:
                data = self._waiting.popleft()
                self._size -= len(data)
                return data
            return self._count() if self._dropped else None

    def _count(self) -> bytes:
        """A line that stands where others were dropped."""
        number, self._dropped = self._dropped, 0
        return f"({number} lines were dropped: stderr was not read fast enough)\n".encode()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # somebody who shares this descriptor has made it non-blocking
                select.select([], [self._fd], [])


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00.123 info mcpx.upstream: [github] up``. No control character gets through."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        message = plain(self._redact(record.getMessage())).replace("\n", "\\n")
        text = f"{clock}.{int(record.msecs):03} {record.levelname.lower()} {record.name}: {message}"
        if record.exc_info:
            text += "\n" + plain(self._redact(self.formatException(record.exc_info)))
        return _shorten(text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` in UTC, ``level``, ``logger``, ``message``; ``server``, ``exception`` if any."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{clock}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        message = record.getMessage()
        if (server := _server(record)) is not None:
            entry["server"] = server
            message = message[len(f"[{server}] ") :]
        entry["message"] = _shorten(self._redact(message))
        if record.exc_info:
            entry["exception"] = _shorten(self._redact(self.formatException(record.exc_info)))
        return json.dumps(entry, ensure_ascii=False)


_FORMATTERS: dict[Format, type[TextFormatter | JsonFormatter]] = {"text": TextFormatter, "json": JsonFormatter}


class StderrHandler(logging.Handler):
    """Formats records and hands them to ``Lines``."""

    def __init__(self, lines: Lines, form: Format, redact: Redactor) -> None:
        super().__init__()
        self._lines = lines
        self.setFormatter(_FORMATTERS[form](redact))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put(self.format(record))
        except (TypeError, ValueError, LookupError) as error:  # arguments that do not fit their message
            self._lines.put(f"a log message of {record.name} could not be formatted: {error}")


@contextmanager
def log_to_stderr(
    level: Level = "info",
    form: Format = "text",
    secrets: Iterable[str] = (),
    *,
    silent: Iterable[str] = (),
    fd: int = 2,
) -> Generator[Lines]:
    """Log to stderr while entered; ``secrets`` are masked wherever they stand, ``silent`` loggers are not heard.

    mcpx's own messages are shown from ``level`` on, other libraries' from warnings on: some of them log whole requests.
    """
    lines = Lines(fd)
    handler = StderrHandler(lines, form, Redactor(secrets))
    for name in silent:
        handler.addFilter(lambda record, name=name: record.name != name)
    root, own = logging.getLogger(), logging.getLogger("mcpx")
    before = root.level, own.level
    root.setLevel(logging.WARNING)
    own.setLevel(level.upper())
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        own.setLevel(before[1])
        lines.close()


def _server(record: logging.LogRecord) -> str | None:
    """The server that a record is about, by the convention above."""
    if isinstance(record.args, tuple) and record.args and _SERVER.match(str(record.msg)):
        return str(record.args[0])
    return None


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... ({len(text)} characters)"
