"""Tables for people and JSON for programs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from rig.machine import machine, versions
from rig.report import Report, add_outputs, figure, number, table, write_outputs
from rig.rounds import Series

MACHINE = {"python": "CPython 3.11", "system": "Linux x86_64", "cpu": "A", "cpus": 2, "load": 0.5}


def report() -> Report:
    made = Report("framing", MACHINE, {"mcpx": "1.0", "json": "3.11"}, {"rounds": 3, "json": Path("out")})
    made.add("µs", [3.0, 1.0, 2.0], job="full", contender="mcpx")
    made.add("µs", Series([4.0]), job="full", contender="json")
    return made


def test_all_benchmarks_have_one_shape_of_json() -> None:
    assert json.loads(report().as_json()) == {
        "bench": "framing",
        "machine": MACHINE,
        "versions": {"mcpx": "1.0", "json": "3.11"},
        "options": {"rounds": 3, "json": "out"},
        "results": [
            {
                "labels": {"job": "full", "contender": "mcpx"},
                "unit": "µs",
                "values": [3.0, 1.0, 2.0],
                "median": 2.0,
                "spread": 0.25,
            },
            {
                "labels": {"job": "full", "contender": "json"},
                "unit": "µs",
                "values": [4.0],
                "median": 4.0,
                "spread": 0.0,
            },
        ],
    }


def test_the_heading_says_what_it_ran_on_and_with() -> None:
    assert report().heading() == (
        "CPython 3.11, Linux x86_64, A, 2 CPUs, load 0.50 before the run\nmcpx 1.0, json 3.11"
    )


def test_this_machine_can_be_told() -> None:
    told = Report("x", machine(), versions("mcpx", "trio"), {})
    assert "CPUs" in told.heading()
    assert json.loads(told.as_json())["machine"] == machine() | {"load": told.machine["load"]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.4234, "0.423"),
        (8.5, "8.50"),
        (12.34, "12.3"),
        (123.4, "123"),
        (67123.4, "67,123"),
        (-12.34, "-12.3"),
    ],
)
def test_numbers_have_three_figures(value: float, text: str) -> None:
    assert number(value) == text


def test_a_figure_has_its_spread_where_there_is_one() -> None:
    assert figure(Series([1.0, 2.0, 3.0])) == "2.00 ±25%"
    assert figure(Series([2.0])) == "2.00"


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert table(["who", "µs"], [["mcpx", "1.00"], ["a longer name", "123,456"]]).splitlines() == [
        "who                 µs",
        "mcpx              1.00",
        "a longer name  123,456",
    ]


def test_more_columns_can_begin_at_the_left() -> None:
    assert table(["a", "b", "c"], [["1", "long", "2"]], left=2).splitlines() == ["a  b     c", "1  long  2"]


def test_files_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_outputs(parser)
    write_outputs(parser.parse_args([]), report(), "<svg/>")
    assert list(tmp_path.iterdir()) == []
    files = ["--json", str(tmp_path / "a.json"), "--svg", str(tmp_path / "a.svg")]
    write_outputs(parser.parse_args(files), report(), "<svg/>")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == report().as_json()
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == "<svg/>"
