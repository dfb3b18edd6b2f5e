"""Charts as SVG text: no library, no font and no script of elsewhere, and readable on light and on dark pages."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from rig.report import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WIDTH = 860
MARGIN = 20
NAMES = 130  # room for what stands left of a bar
FIGURES = 90  # room for the figure right of the longest one
BAR = 14
PITCH = 18  # from bar to bar
GAP = 34  # from group to group, its title included
PLOT_HEIGHT = 320
OURS = "mcpx"  # drawn in the first colour, whoever else there is

# Told apart by those who see few colours, and readable on white as on black (after Okabe and Ito).
COLOURS = ("#0a7fc2", "#d55e00", "#009e73", "#b8860b", "#b5649a", "#7f7f7f", "#3fa0dd", "#8c6d5a")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.group{font-weight:600}"
    ".faint{fill:#656d76}.grid{stroke:#d0d7de;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.grid{stroke:#3d444d}}"
)


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]], *, log: bool = False, note: str = "") -> str:
    """Horizontal bars: for each group its contenders, each with its value.

    ``log`` for values that are orders of magnitude apart: then only their order and their ratios can be seen, and the
    bars begin at a tenth of the smallest value or less.
    """
    colours = _colours(name for group in groups.values() for name in group)
    values = [value for group in groups.values() for value in group.values()]
    along = _scale(values, log, MARGIN + NAMES, WIDTH - FIGURES, from_zero=True)
    parts: list[str] = []
    y = _head(parts, title, unit + (", logarithmic" if log else ""), note)
    for group, entries in groups.items():
        y += GAP
        parts.append(_text(MARGIN, y - 8, group, "group"))
        for name, value in entries.items():
            left, right = MARGIN + NAMES, along(value)
            parts.append(_text(left - 8, y + BAR - 3, name, anchor="end"))
            parts.append(
                f'<rect x="{left}" y="{y}" width="{max(right - left, 1):.1f}" height="{BAR}" rx="2" '
                f'fill="{colours[name]}"><title>{escape(f"{group}, {name}: {number(value)} {unit}")}</title></rect>'
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
    across = _scale(xs, log_x, left, right, from_zero=False)
    up = _scale(ys, log_y, bottom, top, from_zero=True)
    for value in _ticks(min(ys), max(ys), log_y):
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>')
        parts.append(_text(left - 8, up(value) + 4, _short(value), "faint", "end"))
    parts += [_text(across(value), bottom + 18, _short(value), "faint", "middle") for value in sorted(set(xs))]
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
    """A colour for each name, ours first; they begin again where there are more names than colours."""
    ordered = sorted(dict.fromkeys(names), key=lambda name: name != OURS)
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(ordered)}


def _scale(values: Sequence[float], log: bool, start: float, end: float, *, from_zero: bool) -> _Scale:
    if log:
        low, high = min(values), max(values)
        if low <= 0:
            raise ValueError("a logarithmic scale has no place for zero")
        if from_zero:  # bars and heights begin a decade below, so that the smallest can be seen
            low = 10.0 ** (math.floor(math.log10(low)) - (high / low < 10))
        return _Scale(math.log10(low), math.log10(high), start, end, True)
    return _Scale(min(0.0, *values, 0.0) if from_zero else min(values), max(values), start, end, False)


class _Scale:
    """From a value to its place."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool) -> None:
        self._low, self._start, self._log = low, start, log
        self._step = (end - start) / ((high - low) or 1.0)

    def __call__(self, value: float) -> float:
        return self._start + ((math.log10(value) if self._log else value) - self._low) * self._step


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Round values to draw a line at: the powers of ten, or about five steps of 1, 2 or 5."""
    if log:
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
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
