"""How ``mcpx discover`` shows what it found."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
import trio.testing

from mcpx.cli.discover import MAX_LINES, discover_one, render
from mcpx.cli.examine import PATIENCE, Finding
from mcpx.cli.target import choose
from mcpx.demo import BUILTINS
from mcpx.errors import UpstreamStartError, leaves
from mcpx.settings import ServerSettings, Settings
from mcpx.spec.revisions import LATEST_LEGACY
from tests.support.http_up import legacy, modern, serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpx.transports.channel import Channel
    from mcpx.upstream.target import Builtins

LONG = "Call look before anything else. " * 100


def finding(instructions: str, **server_info: str) -> Finding:
    return Finding(
        server="s",
        era="legacy",
        revision=LATEST_LEGACY,
        revisions=(LATEST_LEGACY,),
        server_info=server_info,
        instructions=instructions,
    )


def test_what_is_long_is_wrapped_behind_its_label() -> None:
    lines = render(finding("one two three four"), width=28).splitlines()
    assert lines[-2:] == ["instructions: one two three", "              four"]


def test_what_is_too_long_is_cut_and_says_so() -> None:
    lines = render(finding(LONG), width=60).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("instructions: "))
    assert len(lines) - at == MAX_LINES + 1
    assert lines[-1] == f"              ... ({len(LONG.strip())} characters; --json shows all)"
    assert max(map(len, lines)) <= 60


def test_what_just_fits_is_whole() -> None:
    words = "x" * 40 + " "
    lines = render(finding(words * MAX_LINES), width=60).splitlines()
    assert lines[-1] == " " * 14 + words.strip()


def test_paragraphs_stay_apart() -> None:
    lines = render(finding("Read\nfirst.\n\n  Then write.\n"), width=60).splitlines()
    assert lines[-2:] == ["instructions: Read first.", " " * 14 + "Then write."]


def test_an_address_is_not_broken() -> None:
    address = "https://example.com/" + "a-" * 60
    assert address in render(finding(f"See {address} first."), width=60)


def test_what_a_terminal_would_act_on_is_spelled_out() -> None:
    shown = render(finding("a\x1b[2J\x07b\u2028c", name="o\x1bld"), width=60)
    assert "server:       o\\x1bld" in shown
    assert "a\\x1b[2J\\x07b" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_a_server_that_is_slow_is_said_to_be_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    @asynccontextmanager
    async def open_late() -> AsyncGenerator[Channel]:
        await trio.sleep(PATIENCE * 2)
        async with BUILTINS["demo"]() as channel:
            yield channel

    builtins: Builtins = {"a": open_late}
    settings = Settings(servers=(ServerSettings(name="a", builtin="a"),))
    said: list[str] = []
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(discover_one, settings, builtins, False, said.append, clock=clock)
    assert said == ["mcpx: still waiting for a"]
    assert capsys.readouterr().out.startswith("server:       mcpx-demo ")


@pytest.mark.parametrize(("server", "era"), [(modern, "modern"), (legacy, "legacy")], ids=["modern", "legacy"])
async def test_a_server_at_a_url(server: Any, era: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(server()) as up:
        settings = choose(f"{up.url}?key=secret", None, None).settings
        alone = msgspec.structs.replace(settings, state_dir=None)
        await discover_one(alone, BUILTINS, False, lambda line: None)
    said = capsys.readouterr().out
    assert f"era:          {era}" in said
    assert "offers:       1 tool" in said
    assert "secret" not in said


async def test_a_server_at_a_url_is_sent_the_headers_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    async with serving(modern()) as up:
        settings = choose(up.url, None, None, headers=["Authorization: Bearer ${TOKEN}"]).settings
        alone = msgspec.structs.replace(settings, state_dir=None)
        await discover_one(alone, BUILTINS, True, lambda line: None)
        assert {one.headers["authorization"] for one in up.asked} == {"Bearer hush-hush"}


async def test_a_server_at_a_url_is_named_once_where_it_is_not_there() -> None:
    settings = choose("http://127.0.0.1:1/mcp", None, None).settings
    alone = msgspec.structs.replace(settings, state_dir=None)
    with pytest.RaisesGroup(
        pytest.RaisesExc(UpstreamStartError), flatten_subgroups=True, allow_unwrapped=True
    ) as caught:
        await discover_one(alone, BUILTINS, False, lambda line: None)
    [error] = leaves(caught.value)
    assert str(error) == "127.0.0.1:1 cannot be connected to: Connection refused."
