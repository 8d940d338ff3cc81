"""`Output` as one self-contained HTML page: no network, no script; light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from rmqstore.findings import Finding
from rmqstore.render.output import Output
from rmqstore.render.report import STYLE
from rmqstore.render.text import cell, is_nested, label, listed, place_of
from rmqstore.terminal import printable
from rmqstore.times import timed

_MOST_ROWS = 10_000
"""Rows of one table, and findings, of a page that a browser can show."""
_STYLE = """
h1.good{color:#2e7d32}h1.bad{color:#c62828}h1.so{color:#b26a00}dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
article{border-top:1px solid var(--line);padding:8px 0}article p{margin:2px 0;color:var(--ink)}b.error{color:#c62828}
b.warning{color:#b26a00}
b.info{color:var(--soft)}@media(max-width:480px){body{padding:10px}dl{grid-template-columns:1fr}dt{margin-top:6px}}
@media(prefers-color-scheme:dark){h1.good{color:#7bc67e}h1.bad,b.error{color:#ff8a80}h1.so,b.warning{color:#ffb74d}}
"""
_GOOD = ("HEALTHY", "STARTS, NOTHING")
_BAD = ("DAMAGED", "DOES NOT", "DO NOT")


class Page:
    """Collector of what a command writes, as a page."""

    def __init__(self) -> None:
        self._verdict = ""
        self._sections: list[str] = []
        self._findings: list[str] = []
        self._left_out = 0

    def verdict(self, text: str) -> None:
        """Make the verdict the heading of the page."""
        self._verdict = text

    def next(self, text: str) -> None:
        """Add the next step."""
        self._sections.append(_section("next", f"<pre>{_text(text)}</pre>"))

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """Add a table."""
        self._sections.append(_section("", _table(rows, columns)))

    def object(self, value: Mapping[str, Any]) -> None:
        """Add an object: its plain values, then a section for each of the others."""
        leaves = {name: item for name, item in value.items() if not is_nested(item)}
        if leaves:
            self._sections.append(_section("", _list(leaves)))
        for name, item in value.items():
            if name in leaves:
                continue
            if isinstance(item, Mapping):
                self._sections.append(_section(name, _list(item)))
            else:
                self._sections.append(_section(name, _table(item, None)))

    def finding(self, finding: Finding) -> None:
        """Add a finding."""
        if len(self._findings) >= _MOST_ROWS:
            self._left_out += 1
            return
        mend = "" if not finding.mend else f"<p>{_text(finding.mend)}</p>"
        head = f'<b class="{finding.severity}">{finding.severity} {_text(finding.code)}</b> {_text(place_of(finding))}'
        self._findings.append(f"<article>{head}<p>{_text(finding.message)}</p>{mend}</article>")

    def explanation(self, value: Mapping[str, Any]) -> None:
        """Add an entry of the catalogue."""
        self.object(value)

    def log_line(self, value: Mapping[str, Any]) -> None:
        """Add an explained line."""
        self.object(value)

    def summary(self, value: Mapping[str, Any]) -> None:
        """Add what was covered and counted."""
        self.object({label(name): item for name, item in value.items()})

    def html(self, title: str, made: str) -> str:
        """Return the page; `title` names command and store, `made` the program and the time."""
        kind = "good" if self._verdict.startswith(_GOOD) else "bad" if self._verdict.startswith(_BAD) else "so"
        if self._left_out:
            self._findings.append(f"<article>and {self._left_out} more</article>")
        findings = _section(f"{len(self._findings)} findings", "".join(self._findings)) if self._findings else ""
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{_text(title)}</title><style>{STYLE}{_STYLE}</style></head>\n"
            f'<body><h1 class="{kind}">{_text(self._verdict)}</h1><p>{_text(title)}</p>\n'
            + "\n".join([*self._sections, findings])
            + f"\n<footer>{_text(made)}</footer></body></html>\n"
        )


class Both:
    """An output that writes to two."""

    def __init__(self, first: Output, second: Output) -> None:
        self._outputs = (first, second)

    def verdict(self, text: str) -> None:
        """Write the verdict to both."""
        for output in self._outputs:
            output.verdict(text)

    def next(self, text: str) -> None:
        """Write the next step to both."""
        for output in self._outputs:
            output.next(text)

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """Write the rows to both."""
        kept = list(rows)
        for output in self._outputs:
            output.rows(kept, columns)

    def object(self, value: Mapping[str, Any]) -> None:
        """Write the object to both."""
        for output in self._outputs:
            output.object(value)

    def finding(self, finding: Finding) -> None:
        """Write the finding to both."""
        for output in self._outputs:
            output.finding(finding)

    def explanation(self, value: Mapping[str, Any]) -> None:
        """Write the entry of the catalogue to both."""
        for output in self._outputs:
            output.explanation(value)

    def log_line(self, value: Mapping[str, Any]) -> None:
        """Write the explained line to both."""
        for output in self._outputs:
            output.log_line(value)

    def summary(self, value: Mapping[str, Any]) -> None:
        """Write the summary to both."""
        for output in self._outputs:
            output.summary(value)


def _text(text: str) -> str:
    return escape(printable(text))


def _section(title: str, content: str) -> str:
    heading = f"<h2>{_text(label(title).capitalize())}</h2>" if title else ""
    return f"<section>{heading}{content}</section>"


def _list(values: Mapping[str, Any]) -> str:
    pairs = (f"<dt>{_text(label(name))}</dt><dd>{_value(listed(timed(name, value)))}</dd>" for name, value in values.items())
    return f"<dl>{''.join(pairs)}</dl>"


def _value(text: str) -> str:
    """Return a value; a strip of characters is shown in those of one width."""
    return f"<code>{_text(text)}</code>" if text.startswith("|") else _text(text)


def _table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None) -> str:
    pending = iter(rows)
    shown = list(islice(pending, _MOST_ROWS))
    names = columns or list(dict.fromkeys(name for row in shown for name in row))
    head = "".join(f"<th>{_text(label(name))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell(timed(name, row.get(name))))}</td>" for name in names) + "</tr>" for row in shown)
    more = sum(1 for _ in pending)
    return f"<table><tr>{head}</tr>{body}</table>" + (f"<p>and {more} more rows</p>" if more else "")
