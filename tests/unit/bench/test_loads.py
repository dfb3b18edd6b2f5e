"""The loads take answers as they come, whole or in pieces, and refuse wrong ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from rig.loads import Host, HttpLoad, StdioLoad, WrongAnswerError
from rig.loads.answers import Incoming, frame_of
from rig.loads.load import Batch
from rig.loads.words import FIRST
from rig.process import running
from rig.upstreams import http_command, stdio_command
from rig.upstreams.answers import Answers

if TYPE_CHECKING:
    from rig.loads import Era

FRAME = b'{"jsonrpc":"2.0","id":1,"result":{}}'
EVENT = b": hello\n\nevent: message\ndata: " + FRAME + b"\n\n"
ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(FRAME), FRAME),
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (FRAME[:5], len(FRAME) - 5, FRAME[5:]),
    "events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(EVENT), EVENT),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("size", [1, 3, 7, 50, 10_000])
def test_an_answer_ends_where_it_does_however_it_comes(answer: bytes, size: int) -> None:
    incoming = Incoming()
    for _ in range(2):  # a connection has one answer after the other
        pieces = [answer[start : start + size] for start in range(0, len(answer), size)]
        *before, last = [incoming.feed(piece) for piece in pieces]
        assert before == [None] * (len(pieces) - 1)
        assert last == answer
        assert frame_of(last) == FRAME


def test_an_answer_of_unknown_length_is_refused() -> None:
    with pytest.raises(WrongAnswerError, match="how long"):
        Incoming().feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")


def test_a_stream_without_an_answer_is_refused() -> None:
    with pytest.raises(WrongAnswerError, match="without an answer"):
        frame_of(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: nothing\n\n")


def test_a_batch_is_the_calls_one_by_one() -> None:
    host = Host("modern", "far__")
    batch = Batch(host.echo(FIRST), FIRST, 3)
    calls = [bytes(batch.view[start : start + batch.size]) for start in range(0, len(batch.view), batch.size)]
    assert calls == [host.echo(FIRST + number) for number in range(3)]


def test_a_legacy_call_has_the_size_of_a_usual_one() -> None:
    assert len(Host("legacy").echo(FIRST)) == 200


def answered(number: int, **changes: Any) -> bytes:
    call = json.loads(Host("legacy").echo(number))
    answer = Answers("legacy", 2).answer(json.dumps(call).encode())
    assert answer is not None
    return json.dumps({**json.loads(answer), **changes}).encode()


def test_every_call_must_have_its_own_answer() -> None:
    host = Host("legacy")
    host.check_echoes([answered(FIRST + 1), answered(FIRST)], FIRST, 2)
    for wrong in (
        [answered(FIRST)],  # one is missing
        [answered(FIRST), answered(FIRST)],  # one came twice
        [answered(FIRST), answered(FIRST + 1, id=FIRST + 2)],  # one is another's
        [answered(FIRST), answered(FIRST + 1, result={"content": [], "isError": True})],
    ):
        with pytest.raises(WrongAnswerError):
            host.check_echoes(wrong, FIRST, 2)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_load_and_the_minimal_server_on_pipes(era: Era) -> None:
    with running(stdio_command(era)) as process:
        load = StdioLoad.of(process, Host(era))
        load.open()
        load.check()
        assert load.latencies(0.01)
        assert load.throughput(1000, 0.01, {"own": lambda: 1.0}).calls >= 1000  # more than a pipe holds
        assert load.large(0.0)


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_load_and_the_minimal_server_by_http(era: Era, events: bool) -> None:
    with running(http_command(era, events=events)) as process:
        assert process.stdout is not None
        load = HttpLoad(int(process.stdout.readline()), Host(era))
        load.open()
        load.check()
        assert load.latencies(0.01)
        assert load.throughput(20, 0.01).calls >= 20
        assert load.large(0.0)
        load.close()
