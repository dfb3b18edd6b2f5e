"""The log: what a line looks like, that no secret and no control character gets out, and that nobody is held up."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from mcpx.cli.log import MAX_LINE, Lines, StderrHandler, log_to_stderr
from mcpx.config import Redactor

if TYPE_CHECKING:
    from collections.abc import Generator

log = logging.getLogger("mcpx.test")
foreign = logging.getLogger("some.library")

_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ")


class Reader:
    """The reading end of a pipe, as a host has it."""

    def __init__(self) -> None:
        self.end, self.fd = os.pipe()

    def close_writer(self) -> None:
        os.close(self.fd)

    def text(self) -> str:
        with os.fdopen(self.end, "rb") as file:
            return file.read().decode()

    def lines(self) -> list[str]:
        return [_CLOCK.sub("", line) for line in self.text().splitlines()]


@contextmanager
def logged(**options: object) -> Generator[Reader]:
    """What is logged in the body can be read afterwards."""
    reader = Reader()
    with log_to_stderr(fd=reader.fd, **options):  # pyright: ignore[reportArgumentType]
        yield reader
    reader.close_writer()


def test_a_line_of_text() -> None:
    with logged() as reader:
        log.info("[%s] up, revision %s", "github", "x")
        log.debug("not shown")
    assert reader.lines() == ["info mcpx.test: [github] up, revision x"]


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(level: str, shown: list[str]) -> None:
    with logged(level=level) as reader:
        for name in ("debug", "info", "warning", "error"):
            log.log(logging.getLevelNamesMapping()[name.upper()], "x")
    assert [line.split()[0] for line in reader.lines()] == shown


def test_other_libraries_are_heard_from_warnings_on() -> None:
    with logged(level="debug") as reader:
        foreign.info("GET https://example.com/?token=1")
        foreign.warning("careful")
    assert reader.lines() == ["warning some.library: careful"]


def test_a_line_of_json() -> None:
    with logged(form="json") as reader:
        log.warning("[%s] said %s", "git\nhub", 'a "b"\n\x1b[31m')
        log.info("plain")
    first, second = (json.loads(line) for line in reader.text().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "warning",
        "logger": "mcpx.test",
        "server": "git\nhub",
        "message": 'said a "b"\n\x1b[31m',
    }
    assert "server" not in second


def test_a_traceback_follows_its_message() -> None:
    with logged() as reader:
        try:
            raise ValueError("bad")
        except ValueError:
            log.exception("failed")
    lines = reader.lines()
    assert lines[:2] == ["error mcpx.test: failed", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: bad"


def test_a_traceback_in_json() -> None:
    with logged(form="json") as reader:
        try:
            raise ValueError("hush-hush")
        except ValueError:
            log.exception("failed")
    entry = json.loads(reader.text())
    assert entry["exception"].endswith("ValueError: hush-hush")


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_masked_wherever_they_stand(form: str) -> None:
    secret = 'hush"hush\\1'  # would be spelled otherwise in JSON
    with logged(form=form, secrets=[secret]) as reader:
        log.info("[%s] prints %s", "it", secret)
        try:
            raise ValueError(secret)
        except ValueError:
            log.exception("failed with %s", secret)
    text = reader.text()
    assert "hush" not in text
    assert text.count("***") == 3


def test_no_control_character_reaches_a_terminal() -> None:
    with logged() as reader:
        log.info("a\x1b[31mb\nc\rd\x07\x9be\u2028f\tg")
    assert reader.lines() == ["info mcpx.test: a\\x1b[31mb\\nc\\x0dd\\x07\\x9be\\x2028f\tg"]


def test_a_long_line_is_cut() -> None:
    with logged() as reader:
        log.info("x" * 100_000)
    [line] = reader.lines()
    assert len(line) < MAX_LINE + 100
    assert line.endswith("characters)")


def test_what_is_no_text_is_spelled() -> None:
    with logged() as reader:
        log.info("\udcff")
    assert reader.lines() == ["info mcpx.test: \\udcff"]


def test_arguments_that_do_not_fit() -> None:
    reader = Reader()
    lines = Lines(reader.fd)
    StderrHandler(lines, "text", Redactor()).emit(log.makeRecord(log.name, logging.INFO, "", 0, "%d", ("x",), None))
    lines.close(drain=10)
    reader.close_writer()
    assert reader.lines()[0].startswith("a log message of mcpx.test could not be formatted: ")


def test_the_loggers_are_left_as_they_were() -> None:
    root, own = logging.getLogger(), logging.getLogger("mcpx")
    before = (root.level, own.level, list(root.handlers))
    with logged(level="debug"):
        assert own.level == logging.DEBUG
    assert (root.level, own.level, list(root.handlers)) == before


# -- a stderr that is not read


def test_nobody_waits_for_a_reader_and_the_drops_are_counted() -> None:
    """Ten times what pipe and queue hold is logged at once; what remains comes out once somebody reads."""
    reader = Reader()
    lines = Lines(reader.fd, max_waiting=10_000)
    for number in range(10_000):
        lines.put(f"{number} {'x' * 100}")
    texts: list[str] = []
    reading = threading.Thread(target=lambda: texts.append(reader.text()))
    reading.start()
    lines.close(drain=30)
    reader.close_writer()
    reading.join()
    number = 0
    for line in texts[0].splitlines():
        if dropped := re.fullmatch(r"\((\d+) lines were dropped: stderr was not read fast enough\)", line):
            number += int(dropped[1])
        else:
            assert line == f"{number} {'x' * 100}"
            number += 1
    assert number == 10_000
    assert len(texts[0]) < 200_000  # what a pipe and the queue hold, and far less than was logged


def test_the_end_does_not_wait_for_a_reader_that_never_comes() -> None:
    reader = Reader()
    lines = Lines(reader.fd)
    lines.put("x" * 1_000_000)
    closing = threading.Thread(target=lines.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    os.close(reader.end)  # lets the writer's thread go
    lines.close(drain=60)  # and here it is gone: what it wrote next would go to whoever gets the descriptor's number
    reader.close_writer()


def test_a_reader_that_has_gone_is_no_error() -> None:
    reader = Reader()
    os.close(reader.end)
    lines = Lines(reader.fd)
    for _ in range(100):
        lines.put("x")
    lines.close(drain=10)
    lines.put("after")
    reader.close_writer()


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    reader = Reader()
    os.set_blocking(reader.fd, False)
    lines = Lines(reader.fd)
    for _ in range(10):
        lines.put("x" * 50_000)
    texts: list[str] = []
    reading = threading.Thread(target=lambda: texts.append(reader.text()))
    reading.start()
    lines.close(drain=30)
    reader.close_writer()
    reading.join()
    assert texts == [("x" * 50_000 + "\n") * 10]
