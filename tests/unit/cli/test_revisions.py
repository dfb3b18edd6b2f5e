"""``mcpx revisions`` of one thing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpx.cli.main import run
from mcpx.spec.render import as_data, names, render_table

HEAD = render_table().splitlines()[:2]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(("revisions", *arguments)) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.mark.parametrize(
    ("name", "first_words"),
    [
        ("tools/call", ["tools/call", "tools/call"]),  # who sends it; that its result may ask for input
        ("notifications/progress", ["notifications/progress"]),
        ("-32602", ["-32602"]),
        ("invalid PARAMS", ["-32602"]),
        ("tasks.requests.tools", ["tasks.requests.tools", "tasks.requests.tools.call"]),
        ("audio", ["audio"]),
        ("BlobResourceContents", ["BlobResourceContents", "always:", "_meta"]),
    ],
)
def test_only_its_rows(capsys: pytest.CaptureFixture[str], name: str, first_words: list[str]) -> None:
    head, *sections = shown(capsys, name).split("\n\n")
    assert head.splitlines() == HEAD
    rows = [line.split()[0] for section in sections for line in section.splitlines()]
    titles = [index for index, word in enumerate(rows) if set(word) == {"="}]
    assert titles
    assert [word for index, word in enumerate(rows) if index not in titles and index + 1 not in titles] == first_words


def test_every_name_has_rows_and_data() -> None:
    whole = as_data()
    for name in names():
        assert len(render_table(name).splitlines()) > len(HEAD)
        data = as_data(name)
        assert data.keys() == whole.keys()
        assert any(data[group] for group in ("methods", "relayed", "codes", "contentKinds", "types")) or any(
            data["capabilities"].values()
        ), name


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    data: dict[str, Any] = json.loads(shown(capsys, "ROOTS", "--json"))
    assert list(data["capabilities"]["host"]) == ["roots", "roots.listChanged"]
    assert data["capabilities"]["server"] == {}
    assert [row["capability"] for row in data["relayed"]] == ["roots"]
    assert (data["methods"], data["codes"], data["contentKinds"], data["types"]) == ([], [], [], {})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tool/call", 'did you mean "tools/call"'),
        ("initialized", 'did you mean "notifications/initialized"'),
        ("-32003", 'did you mean "-32'),
        ("\x1b[2J", '"mcpx revisions" shows what there is'),
        ("e", '"mcpx revisions" shows what there is'),
    ],
)
def test_one_that_there_is_not(capsys: pytest.CaptureFixture[str], name: str, hint: str) -> None:
    assert run(("revisions", name)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("mcpx: no method, notification, capability, code, kind of content or type is called ")
    assert hint in line
    assert line.isprintable()
