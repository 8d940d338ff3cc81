"""Output as text: aligned columns and colours on a terminal, the same plain text in a pipe; data is never cut or wrapped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

from rmqstore.findings import Finding, Severity
from rmqstore.render.progress import without_bar
from rmqstore.render.text import cell
from rmqstore.terminal import printable

if TYPE_CHECKING:
    import rich.console

SCREENFUL = 50
_LARGE = 4 << 20
_INDENT = " " * 9

_SEVERITY_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}

Span = tuple[str, str]


def wants_color(stream: TextIO, color: str) -> bool:
    """Return whether `color` (auto, always, never) means colours on this stream."""
    if color == "auto":
        return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return color == "always"


class Console:
    """`Output` as text; what to do about a finding is printed once per code."""

    def __init__(self, stream: TextIO, *, color: str, quiet: bool) -> None:
        self._stream = stream
        self._quiet = quiet
        self._explained: set[str] = set()
        self._rich: rich.console.Console | None = None
        if wants_color(stream, color):
            from rich.console import Console as RichConsole

            self._rich = RichConsole(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """Write rows; columns are as wide as the first screenful needs, a later, wider cell shifts its own row only."""
        pending = iter(rows)
        head = list(islice(_while_small(pending), SCREENFUL))
        shown: tuple[str, ...] | None = None
        widths: dict[str, int] = {}
        for row in chain(head, pending):
            names = tuple(columns) if columns is not None else tuple(row)
            if names != shown:
                shown = names
                sample = [row, *head]
                widths = {name: max(map(len, (printable(name), *(_shown(one.get(name)) for one in sample)))) for name in names}
                self._line((_aligned([(name, printable(name), False) for name in names], widths), "bold"))
            self._line((_aligned([(name, _shown(row.get(name)), _is_number(row.get(name))) for name in names], widths), ""))

    def object(self, value: Mapping[str, Any]) -> None:
        self._tree(value, "")

    def finding(self, finding: Finding) -> None:
        head: list[Span] = [
            (f"{finding.severity:<8}", _SEVERITY_STYLE[finding.severity]),
            (f"{finding.code}  ", "bold"),
            (_place(finding), ""),
        ]
        self._line(*head)
        evidence = [f"{name} {cell(seen)}" for name, seen in (("expected", finding.expected), ("found", finding.found)) if seen is not None]
        self._line((" " * 8 + "; ".join([finding.message, *evidence]), ""))
        for place in finding.places:
            self._line((" " * 8 + "also: ", ""), (_place(place), ""))
        if finding.digest is not None:
            self._line((" " * 8 + "each of them: --all", ""))
        if finding.mend and finding.code not in self._explained:
            self._line((" " * 8 + "fix: ", "green"), (finding.mend, ""))
        self._explained.add(finding.code)

    def explanation(self, value: Mapping[str, Any]) -> None:
        after_crash = value["crash_severity"]
        severity = value["severity"] + (f" (after a crash: {after_crash})" if after_crash else "")
        self._line((f"{value['code']}  ", "bold"), (severity, _SEVERITY_STYLE[Severity(value["severity"])]))
        self._line((value["title"], "bold"))
        self._line()
        self._prose(value["meaning"], "", "")
        self._line()
        self._line(("What a broker does", "bold"))
        for releases, text in value["broker"].items():
            self._prose(text, f"  {releases:<12}", " " * 14)
        self._line()
        self._line(("What to do", "bold"))
        self._prose(value["mend"], "  ", "  ")
        self._line()

    def log_line(self, value: Mapping[str, Any]) -> None:
        severity = value["severity"] or "unknown"
        style = _SEVERITY_STYLE[Severity(severity)] if severity in list(Severity) else ""
        self._line((f"{severity:<9}", style), (f"{value['code'] or ''}  ".lstrip(), "bold"), (_seen(value), ""))
        text = value["template"] if value["code"] else value["example"]
        self._line((_INDENT + text, ""))
        for name, values in value["values"].items():
            self._line((f"{_INDENT}  {_label(name)}: ", ""), (_listed(values), ""))
        if value["lines_with_other_values"]:
            self._line((f"{_INDENT}  and {value['lines_with_other_values']} lines with other values", ""))
        cause = value["cause"] or {}
        for label, text in (("", value["meaning"]), ("why: ", cause.get("meaning")), ("the broker: ", value["then"])):
            if text:
                self._prose(label + text, _INDENT, _INDENT)
        for candidate in value["candidates"]:
            self._line((f"{_INDENT}{candidate['score']:.0%} alike: ", ""), (candidate["code"], "bold"), (f"  {candidate['template']}", ""))
        for place in value["store"] or ():
            where = f" ({_position(place)})" if place["file"] is not None else ""
            self._line((f"{_INDENT}in the store: ", "cyan"), (f"{place['place']}{where}: {place['detail']}", ""))
        if value["codes"]:
            self._line((f"{_INDENT}findings: ", ""), (", ".join(value["codes"]), ""))
        if value["next"]:
            self._line((f"{_INDENT}next: ", "green"), (value["next"], ""))
        self._line()

    def summary(self, value: Mapping[str, Any]) -> None:
        """Write the summary; the verdict, if there is one, is the last line."""
        if not self._quiet:
            self._line()
            self._tree({name: item for name, item in value.items() if name != "verdict"}, "")
            if "verdict" in value:
                self._line()
                self._line((value["verdict"], "bold"))

    def _tree(self, value: Mapping[str, Any], indent: str) -> None:
        leaves = {name: item for name, item in value.items() if not _is_nested(item)}
        width = max((len(_label(name)) for name in leaves), default=0)
        for name, item in leaves.items():
            self._line((f"{indent}{_label(name):<{width}}  ", "bold"), (_listed(item), ""))
        for name, item in value.items():
            if name in leaves:
                continue
            self._line()
            self._line((f"{indent}{_label(name)}", "bold"))
            if isinstance(item, Mapping):
                self._tree(item, indent + "  ")
            else:
                self.rows(item)

    def _prose(self, text: str, first: str, following: str) -> None:
        width = min(get_terminal_size((100, 24)).columns, 110)
        for line in wrap(text, width, initial_indent=first, subsequent_indent=following, break_long_words=False, break_on_hyphens=False):
            self._line((line, ""))

    def _line(self, *spans: Span) -> None:
        """Write one line; all text passes here."""
        spans = tuple((printable(text), style) for text, style in spans)
        with without_bar() if self._stream.isatty() else nullcontext():
            if self._rich is None:
                self._stream.write("".join(text for text, _ in spans).rstrip() + "\n")
            else:
                from rich.text import Text

                self._rich.print(Text.assemble(*spans), soft_wrap=True)


def _seen(value: Mapping[str, Any]) -> str:
    """Return how often and when a log line was seen."""
    if not value["count"]:
        return f"releases: {value['releases']}" if value["releases"] else ""
    first, last = value["first_time"], value["last_time"]
    when = "" if first is None else f", {first}" if first == last else f", {first} to {last}"
    return f"{value['count']} x {value['level'] or 'line'}{when}"


def _position(place: Mapping[str, Any]) -> str:
    return place["file"] if place["position"] is None else f"{place['file']} @ {place['position']}"


def _while_small(rows: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield rows until they hold more than `_LARGE` characters."""
    size = 0
    for row in rows:
        yield row
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if size > _LARGE:
            return


def _shown(value: Any) -> str:
    """Return the printable text of a cell, which determines the width of its column."""
    return printable(cell(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_nested(value: Any) -> bool:
    return bool(value) and (isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and isinstance(value[0], Mapping)))


def _listed(value: Any) -> str:
    if isinstance(value, (list, tuple, Mapping)):
        return ", ".join(map(cell, value)) or "none"
    return cell(value)


def _label(name: str) -> str:
    return printable(name.replace("_", " "))


def _aligned(cells: Iterable[tuple[str, str, bool]], widths: Mapping[str, int]) -> str:
    return "  ".join(text.rjust(widths[name]) if number else text.ljust(widths[name]) for name, text, number in cells).rstrip()


def _place(finding: Finding) -> str:
    return "  ".join(_place_parts(finding))


def _place_parts(finding: Finding) -> Iterator[str]:
    if finding.store is not None:
        yield finding.store
    if finding.file is not None:
        position = "" if finding.position is None else f" @ {finding.position}"
        length = "" if finding.length is None else f" +{finding.length}"
        yield finding.file + position + length
    if finding.topic is not None:
        queue = "" if finding.queue_id is None else f"/{finding.queue_id}"
        entry = "" if finding.queue_offset is None else f" #{finding.queue_offset}"
        yield finding.topic + queue + entry
    if finding.offset is not None and finding.offset != finding.position:
        yield f"physical offset {finding.offset}"
