"""What ``mcpx listen`` says before it listens, and what it prints of changes."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
import trio

from mcpx.cli.listen import Changes, Output, as_object, line, listen_to_all
from mcpx.errors import McpxError
from mcpx.settings import Limits, ServerSettings, Settings
from mcpx.upstream.call import Change, Foreign
from tests.support.waiting import PATIENCE
from tests.unit.upstream.fakes import surroundings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.unit.upstream.fakes import FakeServer

TOOLS, NOTES = "notifications/tools/list_changed", "file:///notes.txt"
TELLS = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"listChanged": True, "subscribe": True}}


async def run(
    script: Callable[[FakeServer], Awaitable[None]],
    *,
    until: str,
    uris: tuple[str, ...] = (),
    by: signal.Signals = signal.SIGTERM,
) -> tuple[list[str], list[str]]:
    """Listen to a server until this was printed or said, then end it by a signal. What was printed, and what said."""
    printed: list[str] = []
    said: list[str] = []

    def note(text: str, seen: list[str]) -> None:
        seen.extend(text.splitlines())
        if until in text:
            signal.raise_signal(by)

    async def write(text: str) -> None:
        await trio.lowlevel.checkpoint()
        note(text, printed)

    limits = Limits(restart_backoff_step=0.01, restart_backoff_max=0.01)
    settings = Settings(servers=(ServerSettings(name="one", builtin="demo", passthrough=True, limits=limits),))
    with trio.fail_after(PATIENCE):
        builtins = surroundings(script).builtins
        await listen_to_all(settings, builtins, uris, False, write, lambda text: note(text, said))
    return printed, said


async def test_changes_are_printed_as_they_come() -> None:
    async def tell(server: FakeServer) -> None:
        await server.open_modern(**TELLS)
        listen = await server.expect("subscriptions/listen")
        server.acknowledge(listen)
        server.tell(listen, TOOLS)
        server.tell(listen, "notifications/resources/updated", uri=NOTES)
        await server.rest()

    printed, _ = await run(tell, until=f"resources {NOTES}", uris=(NOTES,))
    assert printed == ["one tools", f"one resources {NOTES}"]


async def test_what_will_not_be_heard_is_said_with_the_reason() -> None:
    async def tell(server: FakeServer) -> None:
        await server.open_modern(**TELLS)
        listen = await server.expect("subscriptions/listen")
        server.acknowledge(listen, {"toolsListChanged": True})
        await server.rest()

    printed, said = await run(tell, until=NOTES, uris=(NOTES,))
    assert printed == []
    assert said == [
        "mcpx: one tells of changes of tools",
        "mcpx: one does not tell of changes of prompts: it declares no listChanged for them",
        "mcpx: one does not tell of changes of resources: it was asked to, and has not agreed",
        f"mcpx: {NOTES} is not listened to: one: it was asked to, and has not agreed",
    ]


async def test_a_server_that_has_no_subscriptions() -> None:
    async def tell(server: FakeServer) -> None:
        await server.open_modern(resources={})
        await server.rest()

    _, said = await run(tell, until=NOTES, uris=(NOTES,))
    assert said == [
        "mcpx: one tells of none",
        "mcpx: one does not tell of changes of resources: it declares no listChanged for them",
        f"mcpx: {NOTES} is not listened to: one takes no subscriptions to resources",
    ]


async def test_a_server_that_does_not_come_up_is_listened_to_when_it_does() -> None:
    starts = iter([False, False])  # it is tried in both ways

    async def late(server: FakeServer) -> None:
        if not next(starts, True):
            return
        await server.open_legacy(capabilities=TELLS)
        await server.rest()

    printed, said = await run(late, until="one tools")
    assert said == ["mcpx: one is not running, and is listened to as soon as it is"]
    assert "one tools" in printed  # what may have changed meanwhile


async def test_an_interrupt_is_one() -> None:
    async def tell(server: FakeServer) -> None:
        await server.open_modern()
        await server.rest()

    with pytest.raises(KeyboardInterrupt):
        await run(tell, until="tells of none", by=signal.SIGINT)


def test_a_change_is_one_line_whatever_its_uri_is() -> None:
    change = Change("one", "resources", "a\nb\x1b[2J\tc")
    assert line(change) == r"one resources a\x0ab\x1b[2J\x09c"
    assert json.loads(as_object(change)) == {"server": "one", "kind": "resources", "uri": "a\nb\x1b[2J\tc"}
    assert json.loads(as_object(Change("one", "tools"))) == {"server": "one", "kind": "tools"}


async def test_what_waits_is_there_once() -> None:
    changes = Changes()
    for _ in range(1000):
        changes.note(Change("one", "tools"))
        changes.note(Change("one", "resources", NOTES))
        changes.note(Foreign("one", "notifications/x", {}))
    assert await changes.take() == [Change("one", "tools"), Change("one", "resources", NOTES)]
    changes.note(Change("one", "tools"))
    assert await changes.take() == [Change("one", "tools")]


async def test_output_that_is_not_read_holds_up_nobody() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as whoever started mcpx may have made it
    try:
        with trio.move_on_after(0.1) as scope:
            await Output(writing, "utf-8").write("x" * 1_000_000)
        assert scope.cancelled_caught
        assert os.read(reading, 100) == b"x" * 100
    finally:
        os.close(reading)
        os.close(writing)


async def test_output_that_nobody_will_read() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with pytest.raises(BrokenPipeError):
            await Output(writing, "ascii").write("\N{SNOWMAN}\n")
    finally:
        os.close(writing)


async def test_output_that_cannot_be_written() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(McpxError, match="cannot be written to stdout: Bad file descriptor"):
            await Output(reading, "ascii").write("x")
    finally:
        os.close(reading)
        os.close(writing)
