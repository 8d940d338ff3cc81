"""Statistics as tables with bars, and as sparklines, for a terminal of fixed-width characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rmqstore.render.sizes import size_text
from rmqstore.render.timeline import hours

Object = Mapping[str, Any]

BAR_WIDTH = 24
SPARK_WIDTH = 72
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = "_.:-=+*#"

TITLES = {
    "store": "by store",
    "topic": "by topic",
    "queue": "by queue",
    "tag": "by tag",
    "host": "by host of the producer",
    "day": "by day (UTC)",
    "hour": "by hour (UTC)",
    "size": "by size of the record",
    "compression": "by compression of the body",
    "weight": "live messages and reclaimable bytes",
}
"""Title of each dimension, in the order in which they are printed."""


def bar(share: float, width: int = BAR_WIDTH, *, plain: bool = False) -> str:
    """Return a bar of up to `width` characters for a share from 0 to 1; a share above 0 has at least one. `plain`: ASCII characters."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    if plain:
        return "#" * ((eighths + 7) // 8)
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def sparkline(values: Sequence[int], width: int = SPARK_WIDTH, *, plain: bool = False) -> str:
    """Return a character per value; if there are more than `width`, as many neighbours as needed are summed up. Zero is a blank."""
    step = -(-len(values) // width)
    sums = [sum(values[start : start + step]) for start in range(0, len(values), step or 1)]
    levels, most = _PLAIN_LEVELS if plain else _LEVELS, max(sums, default=0)
    return "".join(levels[min(7, value * 8 // most)] if value > 0 else " " for value in sums)


def tables(objects: Iterable[Object], *, plain: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each dimension by title: value, messages, bytes and a bar of the share of the bytes; hours are one sparkline."""
    found = {}
    for dimension, group in groupby(objects, itemgetter("dimension")):
        rows = list(group)
        found[TITLES[dimension]] = _timeline(rows, plain) if dimension == "hour" else _bars(rows, plain)
    return found


def value_text(row: Object) -> str:
    """Return the value of an object as text."""
    value, dimension = row["value"], row["dimension"]
    if value is None:
        return f"{row['values']} others" if row["values"] > 1 else "1 other"
    if dimension == "size":
        return f"{size_text(value)} to {size_text(2 * value)}"
    if dimension == "tag" and not value:
        return "(no tag)"
    return str(value).replace("_", " ") if dimension == "weight" else str(value)


def _bars(rows: list[Object], plain: bool) -> list[dict[str, Any]]:
    total = sum(row["bytes"] for row in rows) or 1
    most = max((row["bytes"] for row in rows if row["value"] is not None), default=0) or 1
    return [
        {
            "value": value_text(row),
            "messages": row["messages"],
            "bytes": f"{size_text(row['bytes']):>11}",
            "share": f"{row['bytes'] / total:6.1%}  {bar(min(1.0, row['bytes'] / most), plain=plain)}",
        }
        for row in rows
    ]


def _timeline(rows: list[Object], plain: bool) -> list[dict[str, Any]]:
    line = hours(rows)
    if not line:
        return []
    hour, most = max(line, key=itemgetter(1))
    values = [size for _, size in line]
    drawn = sparkline(values, plain=plain)
    return [{"from": line[0][0], "to": line[-1][0], "most": f"{size_text(most)} in {hour}", "bytes per hour": drawn}]
