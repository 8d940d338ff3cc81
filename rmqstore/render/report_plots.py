"""Plots of the HTML report as inline SVG: columns over an axis, and a stacked bar. Colours come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rmqstore.render.sizes import size_text

Point = tuple[str, int]
"""The label of a column or part, and its bytes."""

_WIDTH, _HEIGHT = 960, 160
_LEFT, _BOTTOM, _TOP = 80, 22, 8
_MOST_COLUMNS = 480
_PART_HEIGHT = 28
PART_COLORS = 12
"""Parts beyond that many share the last colour of the style sheet (classes part0, part1, …)."""


def columns(points: Sequence[Point], label: str) -> str:
    """Return a column per point, in their order; if there are too many points, neighbours are summed up."""
    points = _merged(points)
    most = max((size for _, size in points), default=0) or 1
    room = (_WIDTH - _LEFT) / max(1, len(points))
    height = _HEIGHT - _BOTTOM - _TOP
    parts = [_head(_HEIGHT, label)]
    for share in (0.0, 0.5, 1.0):
        y = _TOP + height * (1 - share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{size_text(round(most * share))}</text>')
    for number, (name, size) in enumerate(points):
        tall = height * size / most
        x, y = _LEFT + number * room, _TOP + height - tall
        title = f"<title>{escape(name)}: {size_text(size)}</title>"
        parts.append(f'<rect class="column" x="{x:.2f}" y="{y:.2f}" width="{max(0.5, room * 0.86):.2f}" height="{tall:.2f}">{title}</rect>')
    for number in _labelled(len(points)):
        x = _LEFT + (number + 0.43) * room
        anchor = "start" if number == 0 and len(points) > 1 else "end" if number == len(points) - 1 and number else "middle"
        parts.append(f'<text class="axis" x="{x:.1f}" y="{_HEIGHT - 4}" text-anchor="{anchor}">{escape(points[number][0])}</text>')
    return "".join([*parts, "</svg>"])


def one_bar(points: Sequence[Point], label: str) -> str:
    """Return one bar of the whole width with a part per point."""
    total = sum(size for _, size in points) or 1
    parts, x = [_head(_PART_HEIGHT, label)], 0.0
    for number, (name, size) in enumerate(points):
        width = _WIDTH * size / total
        title = f"<title>{escape(name)}: {size_text(size)}, {size / total:.1%}</title>"
        parts.append(f'<rect class="part{color(number)}" x="{x:.2f}" width="{width:.2f}" height="{_PART_HEIGHT}">{title}</rect>')
        x += width
    return "".join([*parts, "</svg>"])


def color(number: int) -> int:
    """Return the number of the colour of a part."""
    return min(number, PART_COLORS - 1)


def _head(height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">'


def _labelled(count: int) -> list[int]:
    """Return which of `count` columns are labelled: about eight, with the first and the last."""
    step = max(1, -(-count // 8))
    chosen = list(range(0, count - step // 2, step)) if count > 1 else list(range(count))
    return chosen if not count or count - 1 in chosen else [*chosen, count - 1]


def _merged(points: Sequence[Point]) -> Sequence[Point]:
    step = -(-len(points) // _MOST_COLUMNS)
    if step <= 1:
        return points
    return [(points[start][0], sum(size for _, size in points[start : start + step])) for start in range(0, len(points), step)]
