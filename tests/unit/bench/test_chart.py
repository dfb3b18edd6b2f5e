"""Charts are XML that any viewer reads, drawn to scale."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from rig.chart import OTHERS, OWN_COLOUR, bars, lines

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str, kind: str) -> list[ElementTree.Element]:
    """What is drawn of a kind, without the page."""
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}{kind}") if one.get("class") != "page"]


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in drawn(svg, "text")]


def widths(svg: str) -> list[float]:
    return [float(one.attrib["width"]) for one in drawn(svg, "rect")]


def test_bars_are_as_long_as_their_values() -> None:
    svg = bars("Title", "µs", {"first": {"mcpx": 1.0, "json": 4.0}, "second": {"mcpx": 2.0}})
    ours, other, second = widths(svg)
    assert other == pytest.approx(4 * ours, rel=0.01)
    assert second == pytest.approx(2 * ours, rel=0.01)
    assert {"Title", "µs", "first", "second", "mcpx", "json", "1.00", "4.00", "2.00"} <= set(texts(svg))


def test_ours_is_told_from_the_others() -> None:
    svg = bars("", "", {"": {"json": 4.0, "mcpx": 1.0}})
    assert [one.attrib["fill"] for one in drawn(svg, "rect")] == [OTHERS, OWN_COLOUR]


def test_without_ours_none_is_pale() -> None:
    assert [one.attrib["fill"] for one in drawn(bars("", "", {"": {"one": 1.0}}), "rect")] == [OWN_COLOUR]


def test_logarithmic_bars_grow_by_ratios() -> None:
    one, ten, hundred = widths(bars("", "s", {"": {"a": 1.0, "b": 10.0, "c": 100.0}}, log=True))
    assert hundred - ten == pytest.approx(ten - one, abs=0.2)
    assert one > 0


def test_what_is_written_is_escaped() -> None:
    assert "a < b & c" in texts(bars("a < b & c", "", {"": {'"x"': 1.0}}))


def test_bars_of_nothing_can_be_drawn() -> None:
    assert widths(bars("", "", {"": {"a": 0.0}})) == [1.0]


def test_lines_go_through_their_points() -> None:
    svg = lines("Title", "hosts", "ms", {"mcpx": [(1, 1.0), (3, 3.0), (2, 2.0)], "other": [(1, 0.0)]}, note="a note")
    path, alone = (one.attrib["points"].split() for one in drawn(svg, "polyline"))
    (x1, y1), (x2, y2), (x3, y3) = (map(float, point.split(",")) for point in path)
    assert (x2 - x1, y1 - y2) == (pytest.approx(x3 - x2, abs=0.2), pytest.approx(y2 - y3, abs=0.2))
    assert x1 < x2
    assert y1 > y2  # up is less in SVG
    assert len(alone) == 1
    assert {"Title", "hosts", "ms", "a note", "mcpx", "other"} <= set(texts(svg))


def test_lines_over_orders_of_magnitude() -> None:
    svg = lines("", "", "", {"a": [(1, 20.0), (10, 200.0), (100, 2000.0)]}, log_x=True, log_y=True)
    (path,) = (one.attrib["points"].split() for one in drawn(svg, "polyline"))
    (x1, y1), (x2, y2), (x3, y3) = (map(float, point.split(",")) for point in path)
    assert (x2 - x1, y1 - y2) == (pytest.approx(x3 - x2, abs=0.2), pytest.approx(y2 - y3, abs=0.2))
    assert {"10", "100", "1,000"} <= set(texts(svg))


def test_labels_below_do_not_stand_on_each_other() -> None:
    svg = lines("", "", "", {"a": [(float(x), 1.0) for x in (1, 2, 3, 4, 1000)]})
    assert {"1", "1,000"} <= set(texts(svg))
    assert not {"2", "3"} & set(texts(svg))


@pytest.mark.parametrize("log", [{"log_x": True}, {"log_y": True}])
def test_a_logarithmic_scale_has_no_place_for_zero(log: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="no place for zero"):
        lines("", "", "", {"a": [(0.0, 0.0), (1.0, 1.0)]}, **log)
