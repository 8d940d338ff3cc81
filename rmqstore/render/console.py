"""Output as text: aligned columns and colours on a terminal, the same plain text in a pipe, in the width that there is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rmqstore.findings import Finding, Severity
from rmqstore.render.progress import without_bar
from rmqstore.render.text import cell, is_nested, label, listed, place_of
from rmqstore.render.widths import cells, columns_fitting, folded, is_command, padded, shortened, width_of
from rmqstore.terminal import printable
from rmqstore.times import timed

if TYPE_CHECKING:
    import rich.console

SCREENFUL = 50
_LARGE = 4 << 20
_FINDINGS = Path(__file__).resolve().parents[2] / "docs" / "findings.md"
_INDENT = " " * 9

_SEVERITY_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}

_VERDICT_STYLES = (
    (("DOES NOT START", "DAMAGED", "UNREADABLE"), "bold red"),
    (("STARTS, BUT", "NOT SURE", "UNKNOWN", "CRASHED", "IN USE", "UNFINISHED", "PLAN"), "bold yellow"),
)
_ABOUT_TIMES = frozenset({"RMQ-CP-INDEX", "RMQ-CP-AHEAD", "RMQ-CP-BEHIND"})
_TIME = re.compile(r"(?i:\btime\b)|timestamp|TIMESTAMP")
"""Findings whose values are times (ms): by their code, or by the words of their message."""
_NOTHING = ("nothing", "after a crash: nothing")
"""Beginnings of advice of infos that need no action."""
_WIDE = 24
"""Characters above which the cells of a column are shortened or folded where a table is too wide."""

Span = tuple[str, str]


def wants_color(stream: TextIO, color: str) -> bool:
    """Return whether `color` (auto, always, never) means colours on this stream."""
    if color == "auto":
        return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return color == "always"


class Console:
    """`Output` as text; what to do about a finding is printed once per code."""

    def __init__(self, stream: TextIO, *, color: str, quiet: bool, verbose: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._verbose = verbose
        self._width = width_of(stream)
        self._explained: set[str] = set()
        self._after_section = False
        self._blank = True
        self._rich: rich.console.Console | None = None
        if wants_color(stream, color):
            from rich.console import Console as RichConsole

            class Raising(RichConsole):
                """A console that does not end the process if its reader has gone: the command line does that, with its own status."""

                def on_broken_pipe(self) -> None:
                    raise BrokenPipeError

            self._rich = Raising(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)

    def verdict(self, text: str) -> None:
        style = next((style for beginnings, style in _VERDICT_STYLES if text.startswith(beginnings)), "bold green")
        self._line((text, style))

    def next(self, text: str) -> None:
        if not self._quiet:
            self._line()
            self._line((text, "bold"), fold=not is_command(text))

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """Write rows; columns are as wide as the first screenful needs, and those without a value are left out.

        Where no width is given, a later, wider cell shifts its own row only. Rows that do not fit are written as one block each.
        """
        if self._quiet:
            return
        pending = iter(rows)
        head = list(islice(_while_small(pending), SCREENFUL))
        names: tuple[str, ...] | None = None
        dropped: tuple[str, ...] = ()
        table = _Table((), {}, None)
        for row in chain(head, pending):
            given = tuple(columns) if columns is not None else tuple(row)
            if given != names or any(_shown(name, row.get(name)) for name in dropped):
                names = given
                sample = [row, *head]
                shown = tuple(name for name in names if any(_shown(name, one.get(name)) for one in sample)) or names[:1]
                dropped = tuple(name for name in names if name not in shown)
                table = _Table(shown, _columns(shown, sample), self._width)
                if table.fits:
                    self._line((table.header(), "bold"), fold=False)
            lines = table.lines(row)
            if lines is None:
                self._block({name: row.get(name) for name in table.names})
            else:
                for line in lines:
                    self._line((line, ""), fold=False)

    def object(self, value: Mapping[str, Any]) -> None:
        if not self._quiet:
            self._tree(value, "")

    def finding(self, finding: Finding) -> None:
        if self._is_left_out(finding):
            return
        head: list[Span] = [
            (f"{finding.severity:<8}", _SEVERITY_STYLE[finding.severity]),
            (finding.code, self._linked(finding.code)),
            ("  ", ""),
            (place_of(finding), ""),
        ]
        indent = " " * 8
        if self._after_section:
            self._line()
            self._after_section = False
        self._line(*head, following=indent)
        is_time = finding.code in _ABOUT_TIMES or _TIME.search(finding.message) is not None
        evidence = [
            f"{name} {cell(timed('timestamp', seen) if is_time else seen)}"
            for name, seen in (("expected", finding.expected), ("found", finding.found))
            if seen is not None
        ]
        self._line((indent + "; ".join([finding.message, *evidence]), ""), following=indent)
        for place in finding.places:
            self._line((indent + "also: ", ""), (place_of(place), ""), following=indent)
        if finding.digest is not None:
            self._line((indent + "each of them: --all", ""))
        if finding.mend and finding.code not in self._explained:
            text, _, command = finding.mend.rpartition("Next: ")
            prose, pasted = (text, command) if is_command(command) else (finding.mend, "")
            if prose.strip():
                self._line((indent + "fix: ", "green"), (prose.strip(), ""), following=indent)
            if pasted:
                self._line((indent + pasted, ""), fold=False)
        self._explained.add(finding.code)

    def _linked(self, code: str) -> str:
        """Return the style of a code: on a terminal it leads to its chapter, where the documentation is on this machine."""
        if self._rich is None or not self._stream.isatty() or not _FINDINGS.is_file():
            return "bold"
        return f"bold link {_FINDINGS.as_uri()}#{code.lower()}"

    def _is_left_out(self, finding: Finding) -> bool:
        """Return whether a finding is not shown: with --quiet all but errors, without --verbose infos that need no action."""
        if self._quiet:
            return finding.severity is not Severity.ERROR
        needs_none = finding.severity is Severity.INFO and (finding.mend or "nothing").lower().startswith(_NOTHING)
        return needs_none and not self._verbose

    def explanation(self, value: Mapping[str, Any]) -> None:
        after_crash = value["crash_severity"]
        severity = value["severity"] + (f" (after a crash: {after_crash})" if after_crash else "")
        self._line(
            (f"{value['code']}  ", "bold"), (f"{severity}  ", _SEVERITY_STYLE[Severity(value["severity"])]), (value["title"], "bold")
        )
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
            self._line((f"{_INDENT}  {label(name)}: ", ""), (listed(values), ""))
        if value["lines_with_other_values"]:
            self._line((f"{_INDENT}  and {value['lines_with_other_values']} lines with other values", ""))
        cause = value["cause"] or {}
        for begin, text in (("", value["meaning"]), ("why: ", cause.get("meaning")), ("the broker: ", value["then"])):
            if text:
                self._prose(begin + text, _INDENT, _INDENT)
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
        """Write the summary; names of its members are ours, and are shown with blanks."""
        if not self._quiet:
            self._line()
            self._tree({name.replace("_", " "): item for name, item in value.items()}, "")

    def _tree(self, value: Mapping[str, Any], indent: str) -> None:
        leaves = {name: item for name, item in value.items() if not is_nested(item)}
        width = max((cells(printable(name)) for name in leaves), default=0)
        for name, item in leaves.items():
            self._pair(f"{indent}{padded(printable(name), width)}  ", printable(listed(timed(name, item))), indent + "  ")
        for name, item in value.items():
            if name in leaves:
                continue
            self._line()
            self._line((f"{indent}{name}", "bold"))
            if isinstance(item, Mapping):
                self._tree(item, indent + "  ")
            elif all(len(row) == 1 for row in item):
                for row in item:
                    self._line((f"{indent}  {cell(*row.values())}", ""), following=indent + "    ")
            else:
                self.rows(item)
            self._after_section = True

    def _block(self, row: Mapping[str, Any]) -> None:
        """Write a row that is too wide for a line as lines of name and value."""
        shown = {name: text for name, value in row.items() if (text := _shown(name, value))}
        width = max(map(cells, map(printable, shown)), default=0)
        for name, text in shown.items():
            self._pair(f"{padded(printable(name), width)}  ", text, "  ")
        self._line()

    def _pair(self, label: str, text: str, indent: str) -> None:
        """Write a label and a value; a value that is a command, or has a word without place beside the label, has lines of its own."""
        room = None if self._width is None else self._width - cells(label)
        if room is not None and cells(text) > room and (is_command(text) or max(map(cells, text.split()), default=0) > room):
            self._line((label.rstrip(), "bold"))
            self._line((indent + text, ""), following=indent, fold=not is_command(text))
        else:
            self._line((label, "bold"), (text, ""), following=" " * cells(label), fold=not is_command(text))

    def _prose(self, text: str, first: str, following: str) -> None:
        self._line((first + text, ""), following=following)

    def _line(self, *spans: Span, following: str = "", fold: bool = True) -> None:
        """Write one line, folded between words if it is too long; all text passes here."""
        spans = tuple((printable(text), style) for text, style in spans)
        blank, self._blank = self._blank, not any(text.strip() for text, _ in spans)
        if blank and self._blank:
            return
        if not fold or self._width is None:
            self._write(spans)
            return
        for begin, end in folded("".join(text for text, _ in spans), self._width, following):
            part = _slice(spans, begin, end)
            self._write(_narrowed([(following, ""), *part] if begin else part, self._width, following))

    def _write(self, spans: Sequence[Span]) -> None:
        with without_bar() if self._stream.isatty() else nullcontext():
            if self._rich is None:
                self._stream.write("".join(text for text, _ in spans).rstrip() + "\n")
            else:
                from rich.text import Text

                self._rich.print(Text.assemble(*spans), soft_wrap=True)


class _Table:
    """A table of the columns `names` whose longest cells have `cells` characters, as far as they are known, in `width`."""

    def __init__(self, names: tuple[str, ...], columns: Mapping[str, Sequence[str]], width: int | None) -> None:
        self.names = names
        self._width = width
        longest = {name: max((cells(text) for text in (printable(name), *columns[name])), default=0) for name in names}
        wide = [name for name in names if longest[name] > _WIDE and not any(map(is_command, columns[name]))]
        paths = [name for name in wide if not any(" " in text for text in columns[name]) and any("/" in text for text in columns[name])]
        texts = [name for name in wide if any(" " in text for text in columns[name])]
        fitting = columns_fitting(longest, texts, paths, width)
        self.fits = fitting is not None
        self._widths = fitting or longest
        self._flexible = {*paths, *texts[-1:]}

    def header(self) -> str:
        """Return the line with the names."""
        return _aligned([(name, printable(name), False) for name in self.names], self._widths)

    def lines(self, row: Mapping[str, Any]) -> list[str] | None:
        """Return the lines of a row, None where it does not fit."""
        if not self.fits:
            return None
        shown = [(name, _shown(name, row.get(name)), _is_number(row.get(name))) for name in self.names]
        line = _aligned(shown, self._widths)
        if self._width is None or (cells(line) <= self._width and all(cells(text) <= self._widths[name] for name, text, _ in shown)):
            return [line]
        parts = [self._folded(name, text) for name, text, _ in shown]
        lines = [
            _aligned([(name, text, number) for (name, _, number), text in zip(shown, texts, strict=True)], self._widths)
            for texts in zip_longest(*parts, fillvalue="")
        ]
        return lines if max(map(cells, lines)) <= self._width else None

    def _folded(self, name: str, text: str) -> list[str]:
        """Return the lines of a cell."""
        width = self._widths[name]
        if cells(text) <= width or name not in self._flexible:
            return [text]
        if " " not in text:
            return [shortened(text, width)]
        return [shortened(text[begin:end], width) for begin, end in folded(text, width)]


def _columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {name: [_shown(name, row.get(name)) for row in rows] for name in names}


def _slice(spans: Sequence[Span], begin: int, end: int) -> list[Span]:
    """Return the characters [begin, end) of spans."""
    found: list[Span] = []
    position = 0
    for text, style in spans:
        part = text[max(0, begin - position) : max(0, end - position)]
        if part:
            found.append((part, style))
        position += len(text)
    return found


def _narrowed(spans: Sequence[Span], width: int, following: str) -> Sequence[Span]:
    """Return a line that is not longer than `width`: a word that is, is shortened; a command in backquotes is left alone without them."""
    line = "".join(text for text, _ in spans)
    if cells(line) <= width:
        return spans
    word = line.strip()
    quoted = word.strip("`.,;:()")
    if word.startswith("`") and is_command(quoted):
        return [(following + quoted, "")]
    indent = line[: len(line) - len(line.lstrip())]
    return [(indent + shortened(word, width - len(indent)), spans[-1][1])]


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


def _shown(name: str, value: Any) -> str:
    """Return the printable text of a cell of the column `name`, which determines the width of the column."""
    return printable(cell(timed(name, value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _aligned(row: Iterable[tuple[str, str, bool]], widths: Mapping[str, int]) -> str:
    return "  ".join(padded(text, widths[name], right=number) for name, text, number in row).rstrip()
