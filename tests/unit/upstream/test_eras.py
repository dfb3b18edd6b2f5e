"""What is remembered of servers: files that others may have spoilt, and when one configuration is another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import Raw
from msgspec.structs import replace

from mcpx.settings import ServerSettings
from mcpx.spec.revisions import LATEST_LEGACY
from mcpx.upstream.eras import Memory, Remembered, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

SERVER = ServerSettings(name="one", command="no-such-program", args=("--x",), env={"TOKEN": "secret-value"})
VALUE = Remembered("legacy", LATEST_LEGACY, Raw(b'{"name":"s","version":"1"}'), {"tools": Raw(b"{}")}, "Hi.")


def the_file(folder: Path) -> Path:
    [file] = (folder / "servers").iterdir()
    return file


def test_what_is_remembered_is_there_for_the_next_process(tmp_path: Path) -> None:
    Memory(SERVER, str(tmp_path)).remember(VALUE)

    assert Memory(SERVER, str(tmp_path)).value == VALUE


def test_a_file_holds_no_secret_in_its_name_or_text(tmp_path: Path) -> None:
    Memory(SERVER, str(tmp_path)).remember(VALUE)

    assert "secret" not in the_file(tmp_path).name
    assert "secret" not in the_file(tmp_path).read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        '{"era":"future"}',
        '{"era":"legacy","revision":"1999-01-01"}',
        '{"era":"legacy","server_info":7}',
        '{"era":"legacy","server_info":{"name":5}}',
        '{"capabilities":' + "[" * 100_000,
    ],
)
def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    Memory(SERVER, str(tmp_path)).remember(VALUE)
    the_file(tmp_path).write_text(text)

    assert Memory(SERVER, str(tmp_path)).value == Remembered()


def test_to_forget_an_era_keeps_what_the_server_said_of_itself(tmp_path: Path) -> None:
    memory = Memory(SERVER, str(tmp_path))
    memory.remember(VALUE)
    memory.forget()

    assert Memory(SERVER, str(tmp_path)).value == replace(VALUE, era=None)


def test_without_a_folder_it_is_kept_in_memory() -> None:
    memory = Memory(SERVER, None)
    memory.remember(VALUE)

    assert memory.value == VALUE


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    memory = Memory(SERVER, str(blocked))
    memory.remember(VALUE)

    assert memory.value == VALUE
    assert "cannot be remembered" in caplog.text


@pytest.mark.parametrize(
    "change",
    [{"args": ("--y",)}, {"env": {"TOKEN": "other"}}, {"cwd": "/"}, {"protocol": "legacy"}, {"command": "other"}],
)
def test_another_configuration_is_another_server(change: dict[str, object]) -> None:
    assert fingerprint(replace(SERVER, **change)) != fingerprint(SERVER)


def test_another_name_is_not(tmp_path: Path) -> None:
    assert fingerprint(replace(SERVER, name="two")) == fingerprint(SERVER)


def test_an_updated_program_is_another_server(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    server = replace(SERVER, command=str(program))
    before = fingerprint(server)
    program.write_text("#!/bin/sh\nexit 1\n")

    assert fingerprint(server) != before
