"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any

_SHOWN = 200


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as HTML, every text escaped; after 200 rows it ends with a row that states the limit."""
    listed = iter(rows)
    lines = [_row("td", row) for row in islice(listed, _SHOWN)]
    left = sum(1 for _ in listed)
    if left:
        lines.append(f'<tr><td colspan="{len(columns)}">and {left} more</td></tr>')
    return f"<table><caption>{escape(title)}</caption>{_row('th', columns)}{''.join(lines)}</table>"


def _row(tag: str, cells: Iterable[Any]) -> str:
    texts = ("" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"
