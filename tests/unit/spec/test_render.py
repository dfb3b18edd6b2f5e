"""The table of what each revision has."""

from __future__ import annotations

import msgspec

from mcpx.spec.codes import CODES
from mcpx.spec.methods import METHODS
from mcpx.spec.render import as_data, render_table
from mcpx.spec.revisions import REVISIONS, V2025_03_26, V2025_11_25
from mcpx.spec.tables import KINDS, RECORDS

LINES = render_table().splitlines()


def cells(label: str) -> list[list[str]]:
    return [line[len(label) :].split() for line in LINES if line.startswith(label + " ")]


def test_it_fits_a_terminal() -> None:
    assert max(map(len, LINES)) <= 100
    assert all(line == line.rstrip() for line in LINES)
    assert LINES[0].split() == list(REVISIONS)


def test_it_says_who_sends_what() -> None:
    assert cells("ping") == [["both", "both", "both", "both", "-"]]
    assert cells("elicitation/create") == [["-", "-", "server", "server", "ask"]]
    assert cells("notifications/progress") == [["both", "both", "both", "both", "server"]]
    assert cells("server/discover") == [["-", "-", "-", "-", "host"], ["-", "-", "-", "-", "yes"]]


def test_it_says_what_exists() -> None:
    assert cells("audio") == [["-", "yes", "yes", "yes", "yes"]]
    assert cells("tasks.requests.tools.call") == [["-", "-", "-", "yes", "-"]]
    assert cells("-32002 Resource not found") == [["yes", "yes", "yes", "yes", "-"]]
    assert cells("  ttlMs")[0] == ["-", "-", "-", "-", "req"]
    assert cells("  requestId") == [["req", "req", "req", "yes", "req"]]
    tool = LINES.index("Tool")
    assert LINES[tool + 1] == "  always: name (req), description, inputSchema (req)"
    assert LINES[tool + 2].split() == ["title", "-", "-", "yes", "yes", "yes"]


def test_everything_is_in_it() -> None:
    labels = {line.split()[0] for line in LINES if line}
    assert set(METHODS) | set(KINDS) | set(RECORDS) <= labels
    table = "\n".join(LINES)
    for row in RECORDS.values():
        assert all(name in table for name in row.fields)
    assert all(f"{code.code} {code.name}" in table for code in CODES)


def test_the_same_as_data() -> None:
    data = msgspec.json.decode(msgspec.json.encode(as_data()))
    assert [row["revision"] for row in data["revisions"]] == list(REVISIONS)
    assert data["revisions"][-1]["era"] == "modern"
    methods = {row["name"]: row for row in data["methods"]}
    assert methods.keys() == METHODS.keys()
    assert methods["ping"]["host"] == {"since": REVISIONS[0], "until": V2025_11_25}
    assert methods["ping"]["question"] is None
    assert data["capabilities"]["host"]["tasks.list"] == {"since": V2025_11_25, "until": V2025_11_25}
    assert {"kind": "audio", "since": V2025_03_26, "until": None} in data["contentKinds"]
    assert {"capability": "sampling", "when": "always", "asks": True} in data["relayed"]
    assert data["types"].keys() == RECORDS.keys()
    assert data["types"]["ListToolsResult"][-1] == {
        "name": "tools",
        "type": "Tool",
        "shape": "list",
        "requiredIn": list(REVISIONS),
        "since": REVISIONS[0],
        "until": None,
    }
