"""Charts as SVG text: no library, font or script from elsewhere; light on a light page and dark on a dark one."""

from __future__ import annotations

import itertools
import math
from html import escape
from typing import TYPE_CHECKING

from rig.report import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WIDTH = 860
MARGIN = 20
NAMES = 130  # room for what stands left of a bar, or more where a name is longer
LETTER = 7  # about the width of one
FIGURES = 90  # room for the figure right of the longest one
BAR = 14
PITCH = 18  # from bar to bar
GAP = 34  # from group to group, its title included
PLOT_HEIGHT = 320
LABEL = 44  # room for a label below the plot
OURS = "mcpx"
OWN_COLOUR = "#0a7fc2"  # for ours alone, whoever else there is
OTHERS = "#98a2ad"  # of a bar, which has its name beside it
# Of lines: told apart by those who see few colours, and readable on white as on black (after Okabe and Ito).
COLOURS = ("#d55e00", "#009e73", "#b8860b", "#b5649a", "#7f7f7f", "#3fa0dd", "#8c6d5a")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.group{font-weight:600}"
    ".faint{fill:#656d76}.grid{stroke:#d0d7de;stroke-width:1}.page{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.grid{stroke:#3d444d}.page{fill:#0d1117}}"
)


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]], *, log: bool = False, note: str = "") -> str:
    """Horizontal bars: for each group its contenders, each with its value.

    ``log`` for values that are orders of magnitude apart: the bars then begin at half of the smallest value, and what
    can be seen is order, not proportion.
    """
    values = [value for group in groups.values() for value in group.values()]
    compared = any(OURS in group for group in groups.values())
    left = MARGIN + max(NAMES, max(LETTER * len(name) for group in groups.values() for name in group))
    along = _Scale(min(values) / 2 if log else 0.0, max(values), left, WIDTH - FIGURES, log)
    parts: list[str] = []
    y = _head(parts, title, unit + (", logarithmic" if log else ""), note)
    for group, entries in groups.items():
        y += GAP
        parts.append(_text(MARGIN, y - 8, group, "group"))
        for name, value in entries.items():
            right = along(value)
            parts.append(_text(left - 8, y + BAR - 3, name, anchor="end"))
            colour = OTHERS if compared and name != OURS else OWN_COLOUR
            told = escape(f"{group}, {name}: {number(value)} {unit}")
            parts.append(
                f'<rect x="{left}" y="{y}" width="{max(right - left, 1):.1f}" height="{BAR}" rx="2" fill="{colour}">'
                f"<title>{told}</title></rect>"
            )
            parts.append(_text(max(right, left + 1) + 6, y + BAR - 3, number(value)))
            y += PITCH
    return _svg(parts, y + MARGIN)


def lines(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    log_x: bool = False,
    log_y: bool = False,
    note: str = "",
) -> str:
    """A line for each series of points; ``log_x`` and ``log_y`` for what goes over orders of magnitude."""
    colours = _colours(series)
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    parts: list[str] = []
    top = _head(parts, title, y_label, note) + 24
    bottom = top + PLOT_HEIGHT
    left, right = MARGIN + 50, WIDTH - MARGIN - NAMES
    across = _Scale(min(xs), max(xs), left, right, log_x)
    up = _Scale(_ticks(min(ys), max(ys), log_y)[0], max(ys), bottom, top, log_y)
    for value in _ticks(min(ys), max(ys), log_y):
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>')
        parts.append(_text(left - 8, up(value) + 4, _short(value), "faint", "end"))
    free = 0.0  # from where on a label is not in the way of the one before
    for value in sorted(set(xs)):
        if across(value) >= free:
            parts.append(_text(across(value), bottom + 18, _short(value), "faint", "middle"))
            free = across(value) + LABEL
    parts.append(_text((left + right) / 2, bottom + 38, x_label, "faint", "middle"))
    for row, (name, points) in enumerate(series.items()):
        places = [(across(x), up(y)) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline fill="none" stroke="{colours[name]}" stroke-width="2" points="{path}"/>')
        for (x, y), (at, value) in zip(places, sorted(points), strict=True):
            told = escape(f"{name}, {_short(at)}: {number(value)}")
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"><title>{told}</title></circle>'
            )
        key = top + 6 + row * PITCH
        parts.append(f'<rect x="{right + 14}" y="{key - 9}" width="10" height="10" rx="2" fill="{colours[name]}"/>')
        parts.append(_text(right + 30, key, name))
    return _svg(parts, bottom + 38 + MARGIN)


def _colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name, ours its own; the others' begin again where there are more names than colours."""
    others = (name for name in names if name != OURS)
    return {OURS: OWN_COLOUR, **dict(zip(others, itertools.cycle(COLOURS), strict=False))}


class _Scale:
    """From a value to its place between ``start``, where ``low`` is, and ``end``, where ``high`` is."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool) -> None:
        if log:
            _positive(low)
        self._of = math.log10 if log else float
        self._low, self._start = self._of(low), start
        self._step = (end - start) / ((self._of(high) - self._low) or 1.0)

    def __call__(self, value: float) -> float:
        return self._start + (self._of(value) - self._low) * self._step


def _positive(value: float) -> None:
    if value <= 0:
        raise ValueError("a logarithmic scale has no place for zero")


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Round values to draw a line at: the powers of ten, or about five steps of 1, 2 or 5."""
    if log:
        _positive(low)
        return [10.0**power for power in range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)]
    if high <= 0:
        return [0.0]
    rough = high / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough)
    return [step * count for count in range(int(high / step) + 1)]


def _short(value: float) -> str:
    return f"{value:,.10g}"


def _head(parts: list[str], title: str, unit: str, note: str) -> int:
    parts.append(_text(MARGIN, 30, title, "title"))
    parts.append(_text(MARGIN, 50, unit, "faint"))
    if note:
        parts.append(_text(MARGIN, 68, note, "faint"))
        return 72
    return 54


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    kinds = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{kinds}>{escape(text)}</text>'


def _svg(parts: list[str], height: float) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    body = "\n".join(parts)
    page = f'<style>{STYLE}</style>\n<rect class="page" width="{WIDTH}" height="{height:.0f}" rx="6"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n{page}\n{body}\n</svg>\n'
