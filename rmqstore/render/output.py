"""The `Output` protocol for what commands write to standard output, and its three forms: console, JSON lines, CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from rmqstore.findings import Finding
from rmqstore.jsonschema import with_schema
from rmqstore.render.formulas import defused
from rmqstore.render.text import cell, compact_json
from rmqstore.terminal import printable, printable_json, warn

FINDING_COLUMNS = tuple(name for name in Finding.__dataclass_fields__ if name != "store")


class Output(Protocol):
    """Destination of a command's results; each method may be called many times, and at most a screenful is buffered."""

    def verdict(self, text: str) -> None:
        """Write the verdict of a command, one line that begins with a word in capitals; nothing in JSON, on standard error beside CSV."""

    def next(self, text: str) -> None:
        """Write the next step, a command or a sentence, as the last line; nothing in JSON and CSV."""

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """Write rows as they come; `columns` fixes which are shown in a table or CSV and in which order (default: the row's keys)."""

    def object(self, value: Mapping[str, Any]) -> None:
        """Write one object; nested mappings and lists are allowed."""

    def finding(self, finding: Finding) -> None:
        """Write one finding."""

    def explanation(self, value: Mapping[str, Any]) -> None:
        """Write one entry of the catalogue of findings, as `Entry.as_json` returns it."""

    def log_line(self, value: Mapping[str, Any]) -> None:
        """Write one explained kind of log lines."""

    def summary(self, value: Mapping[str, Any]) -> None:
        """Write what was covered and counted; the last thing a command writes."""


def open_output(
    output_format: str,
    *,
    color: str = "auto",
    quiet: bool = False,
    verbose: bool = False,
    csv_raw: bool = False,
    plain: bool = False,
    stream: TextIO | None = None,
) -> Output:
    """Return the output for `table`, `json` or `csv` on `stream` (standard output); `color` is auto, always or never.

    `quiet`: of text only the verdict and errors; `verbose`: also findings that need no action. `csv_raw`: cells of CSV are unchanged, also
    those that a spreadsheet would execute. `plain`: objects of JSON are written as they are, without the version of a schema.
    """
    target = sys.stdout if stream is None else stream
    if isinstance(target, io.TextIOWrapper):
        # A lone surrogate becomes a backslash escape: in a JSON string that is its correct spelling, in other text it stays readable.
        if output_format == "table":
            target.reconfigure(errors="backslashreplace")
        else:
            target.reconfigure(encoding="utf-8", errors="backslashreplace")
    if output_format == "json":
        return JsonLines(target, plain=plain)
    if output_format == "csv":
        return Csv(target, raw=csv_raw)
    from rmqstore.render.console import Console

    return Console(target, color=color, quiet=quiet, verbose=verbose)


class JsonLines:
    """One JSON object per line; key order is the order of the object."""

    def __init__(self, stream: TextIO, *, plain: bool) -> None:
        self._stream = stream
        self._to_terminal = stream.isatty()
        self._plain = plain

    def verdict(self, text: str) -> None:
        """Write nothing: objects have the verdict."""

    def next(self, text: str) -> None:
        """Write nothing: objects have the next step."""

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        for row in rows:
            self.object(row)

    def object(self, value: Mapping[str, Any]) -> None:
        line = compact_json(value if self._plain else with_schema(value))
        self._stream.write((printable_json(line) if self._to_terminal else line) + "\n")

    def finding(self, finding: Finding) -> None:
        self.object(finding.as_json())

    def explanation(self, value: Mapping[str, Any]) -> None:
        self.object(value)

    def log_line(self, value: Mapping[str, Any]) -> None:
        self.object(value)

    def summary(self, value: Mapping[str, Any]) -> None:
        self.object({"type": "summary", **value})


class Csv:
    """Comma-separated values with one header per kind of row; a summary is left out."""

    def __init__(self, stream: TextIO, *, raw: bool) -> None:
        self._stream = stream
        self._to_terminal = stream.isatty()
        self._raw = raw
        # The writer quotes a carriage return in a cell only where lines end with one.
        self._row = io.StringIO(newline="")
        self._writer = csv.writer(self._row, lineterminator="\r\n")
        self._header: tuple[str, ...] | None = None

    def verdict(self, text: str) -> None:
        warn(text)

    def next(self, text: str) -> None:
        """Write nothing: standard output is the table alone."""

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        for row in rows:
            header = tuple(columns) if columns is not None else tuple(row)
            self._begin(header)
            self._write(row.get(name) for name in header)

    def object(self, value: Mapping[str, Any]) -> None:
        self.rows({"field": name, "value": item} for name, item in flattened(value))

    def finding(self, finding: Finding) -> None:
        columns = FINDING_COLUMNS if finding.store is None else ("store", *FINDING_COLUMNS)
        self.rows([finding.as_json()], columns)

    def explanation(self, value: Mapping[str, Any]) -> None:
        self.rows([value])

    def log_line(self, value: Mapping[str, Any]) -> None:
        self.rows([value])

    def summary(self, value: Mapping[str, Any]) -> None:
        """Write nothing: a line with other columns would break the table for its reader."""

    def _begin(self, header: tuple[str, ...]) -> None:
        if header == self._header:
            return
        if self._header is not None:
            self._stream.write("\n")
        self._write(header)
        self._header = header

    def _write(self, values: Iterable[Any]) -> None:
        cells = (cell(value) if self._raw or not isinstance(value, str) else defused(value) for value in values)
        self._writer.writerow(map(printable, cells) if self._to_terminal else cells)
        self._stream.write(self._row.getvalue().removesuffix("\r\n") + "\n")
        self._row.seek(0)
        self._row.truncate()


def flattened(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield (dotted name, leaf) for every leaf of nested mappings."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from flattened(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item
