"""Statistics as one self-contained HTML page: no network, no script; light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Any

from rmqstore.render.bars import TITLES, value_text
from rmqstore.render.report_plots import PART_COLORS, color, columns, one_bar
from rmqstore.render.sizes import size_text
from rmqstore.render.timeline import hours
from rmqstore.times import time_range

Object = Mapping[str, Any]

_PARTS_LIGHT = ("2a78b8", "e08a1e", "8c564b", "7b62b3", "c94f7c", "b5541c", "c0392b", "5b6770", "7f8c8d", "95a5a6", "d62728", "c8ced3")
_PARTS_DARK = ("5aa9e6", "f0a64a", "b98a7e", "a58fd6", "e57ba3", "d97f4a", "e86a5c", "8d9aa3", "9fabac", "b4c0c1", "f05a5b", "4a545c")
STYLE = """
:root{color-scheme:light dark;--back:#fbfbfc;--card:#fff;--ink:#1c2328;--soft:#5c6a73;--line:#dde3e7;--bar:#2a78b8}
@media(prefers-color-scheme:dark){:root{--back:#14181b;--card:#1c2226;--ink:#e6ebee;--soft:#9aa8b1;--line:#333c42;--bar:#5aa9e6}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1080px;padding:24px;background:var(--back);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.5rem;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:0 0 12px}p{margin:0 0 4px;color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px;margin-top:16px;overflow-x:auto}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.facts div{display:flex;flex-direction:column}.facts b{font-size:1.25rem}.facts span{color:var(--soft)}
table{border-collapse:collapse;width:100%}td,th{padding:3px 10px 3px 0;text-align:left;vertical-align:middle}
th{color:var(--soft);font-weight:500;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}td.v{overflow-wrap:anywhere;max-width:360px}td.b{width:36%}svg{display:block;width:100%}
.column,.bar{fill:var(--bar)}.grid{stroke:var(--line)}.axis{fill:var(--soft);font-size:12px}i{display:inline-block;width:11px;height:11px;
border-radius:2px;margin-right:6px}footer{margin-top:16px;color:var(--soft)}
"""


def page(objects: Iterable[Object], summary: Object, title: str, made: str) -> str:
    """Return the page. `objects` are of type `stats`, `summary` has their sums; `title` names the stores, `made` the program and time."""
    groups = {dimension: list(rows) for dimension, rows in groupby(objects, itemgetter("dimension"))}
    sections = [_facts(summary)]
    if "hour" in groups:
        sections.append(_section(TITLES["hour"], columns(hours(groups["hour"]), "bytes by hour")))
    if "weight" in groups:
        sections.append(_section(TITLES["weight"], _weights(groups["weight"])))
    if "size" in groups:
        points = [(value_text(row), row["bytes"]) for row in groups["size"]]
        sections.append(_section(TITLES["size"], columns(points, "bytes by size") + _table(groups["size"])))
    sections += [
        _section(TITLES[name], _table(rows)) for name in TITLES if name not in ("hour", "weight", "size") and (rows := groups.get(name))
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{_part_styles()}</style></head>\n<body><h1>{escape(title)}</h1>"
        f"<p>{escape(time_range(summary['first_store_timestamp'], summary['last_store_timestamp']))}</p>\n"
        + "\n".join(sections)
        + f"\n<footer>{escape(made)}</footer></body></html>\n"
    )


def _facts(summary: Object) -> str:
    facts = {
        "messages": f"{summary['messages']:,}",
        "in records": size_text(summary["bytes"]),
        "in the log": size_text(summary["log_bytes"]),
        "of live messages": size_text(summary["live_bytes"]),
        "topics": f"{summary['values'].get('topic', 0):,}",
        "queues": f"{summary['values'].get('queue', 0):,}",
        "damaged ranges": f"{summary['damaged_ranges']:,}",
    }
    if summary["stores"] > 1:
        facts = {"stores": f"{summary['stores']:,}", **facts}
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in facts.items())
    return f'<section class="facts">{cells}</section>'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title.capitalize())}</h2>{content}</section>"


def _weights(rows: Sequence[Object]) -> str:
    plot = one_bar([(value_text(row), row["bytes"]) for row in rows], "what the bytes of the log are")
    return plot + _table(rows, lambda number: f'<i class="back{color(number)}"></i>')


def _table(rows: Sequence[Object], mark: Any = lambda number: "") -> str:
    """Return a table with a row per object and a bar for its bytes; `mark(number)` is put before its value."""
    total = sum(row["bytes"] for row in rows) or 1
    most = max((row["bytes"] for row in rows if row["value"] is not None), default=0) or 1
    head = '<tr><th></th><th class="n">messages</th><th class="n">bytes</th><th class="n">share</th><th></th></tr>'
    lines = []
    for number, row in enumerate(rows):
        width = min(100.0, 100 * row["bytes"] / most)
        lines.append(
            f'<tr><td class="v">{mark(number)}{escape(value_text(row))}</td><td class="n">{row["messages"]:,}</td>'
            f'<td class="n">{size_text(row["bytes"])}</td><td class="n">{row["bytes"] / total:.1%}</td><td class="b">'
            f'<svg viewBox="0 0 100 10" height="10" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="bar" width="{width:.2f}" height="10"/></svg></td></tr>'
        )
    return f"<table>{head}{''.join(lines)}</table>"


def _part_styles() -> str:
    def styles(colors: Sequence[str]) -> str:
        return "".join(f".part{number}{{fill:#{code}}}.back{number}{{background:#{code}}}" for number, code in enumerate(colors))

    return styles(_PARTS_LIGHT[:PART_COLORS]) + f"@media(prefers-color-scheme:dark){{{styles(_PARTS_DARK[:PART_COLORS])}}}"
