"""Equal log lines counted together: how often, from when to when, with which values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rmqstore.brokerlog.lines import FRAME, Line
from rmqstore.catalogue.logline import Cause, LogLine
from rmqstore.catalogue.loglines import CAUSES, LOG_LINES, find_cause, find_line, find_pasted
from rmqstore.findings import Severity

KEPT_VALUES = 20
"""Distinct values of a name, and distinct places, that are kept of a group; later ones are only counted."""
_LONGEST_MATCHED = 4096
_LONGEST_EXAMPLE = 1000
_MOST_GROUPS = 10_000
_LOUD = ("ERROR", "WARN")
_EXCEPTION = re.compile(r"(?<![\w.$])(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9A-F]{16,}|\d+")

Values = dict[str, str]


@dataclass
class Group:
    """Log lines of one kind. `line` None: they are not in the table; `cause` is the known exception below them."""

    template: str
    level: str | None
    line: LogLine | None
    cause: Cause | None
    example: str
    count: int = 0
    first_time: str | None = None
    last_time: str | None = None
    places: list[Values] = field(default_factory=list)
    other_values: int = 0

    @property
    def severity(self) -> Severity | None:
        """The severity of the lines, the cause included; None for harmless and for unknown lines."""
        known = [self.line.severity if self.line is not None else None, self.cause.severity if self.cause is not None else None]
        order = list(Severity)
        return max((one for one in known if one is not None), key=order.index, default=None)

    @property
    def harmless(self) -> bool:
        """Whether the lines are known and report nothing wrong."""
        return self.line is not None and self.line.severity is None

    @property
    def rank(self) -> int:
        """Place in the order of importance; smaller comes first."""
        if self.severity is not None:
            return {Severity.ERROR: 0, Severity.WARNING: 2, Severity.INFO: 4}[self.severity]
        return {"ERROR": 1, "WARN": 3}.get(self.level or "", 5)

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of findings that belong to these lines; those of the cause first, for they are more exact."""
        both = (*(self.cause.codes if self.cause is not None else ()), *(self.line.codes if self.line is not None else ()))
        return tuple(dict.fromkeys(both))

    def values(self) -> dict[str, list[str]]:
        """Return the distinct values by name, in order of appearance."""
        names: dict[str, dict[str, None]] = {}
        for place in self.places:
            for name, value in place.items():
                names.setdefault(name, {})[value] = None
        return {name: list(values) for name, values in names.items()}

    def count_in(self, line: Line, values: Values) -> None:
        """Count one more line of this kind."""
        self.count += 1
        if line.time is not None:
            self.first_time = self.first_time or line.time
            self.last_time = line.time
        if values and values not in self.places:
            if len(self.places) < KEPT_VALUES:
                self.places.append(values)
            else:
                self.other_values += 1


class Groups:
    """The groups of a whole log. Memory grows with the number of kinds of lines, which is bounded, not with the length of the log."""

    def __init__(self, *, keep_quiet: bool = False) -> None:
        """`keep_quiet`: unknown lines below WARN are kept too."""
        self._keep_quiet = keep_quiet
        self._groups: dict[tuple[Any, ...], Group] = {}
        self.lines = 0
        self.explained = 0
        self.harmless = 0
        self.unknown = 0
        self.not_kept = 0
        self.quiet = 0
        self.first_time: str | None = None
        self.last_time: str | None = None

    def add(self, line: Line) -> None:
        """Count a line of the log with what belongs to it."""
        self.lines += line.lines
        if line.time is not None:
            self.first_time = self.first_time or line.time
            self.last_time = line.time
        message = line.message[:_LONGEST_MATCHED]
        match = find_line(message)
        if match is None and line.level in (*_LOUD, None):
            match = find_pasted(line.rest or message)
        cause = next((found for found in map(find_cause, _exceptions(line, message)) if found is not None), None)
        if match is None and cause is None and line.level not in _LOUD:
            self.quiet += 1
            if not self._keep_quiet:
                return
        elif match is None and (cause is None or line.level in _LOUD):
            self.unknown += 1
        elif match is not None and match.line.severity is None:
            self.harmless += 1
        else:
            self.explained += 1
        template = match.pattern.text if match is not None else _VARYING.sub("#", message)
        key = (match.line.code if match is not None else template, line.level, cause.cause.code if cause is not None else None)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _MOST_GROUPS:
                self.not_kept += 1
                return
            known = match.line if match is not None else None
            group = Group(template, line.level, known, cause.cause if cause is not None else None, message[:_LONGEST_EXAMPLE])
            self._groups[key] = group
        values = {**(match.values if match is not None else {}), **(cause.values if cause is not None else {})}
        group.count_in(line, {name: value for name, value in values.items() if value})

    def by_importance(self, *, harmless: bool = False) -> Iterator[Group]:
        """Yield the groups, the worst first, equal ones in order of appearance; harmless ones only on request."""
        for group in sorted(self._groups.values(), key=lambda group: group.rank):
            if harmless or not group.harmless or group.cause is not None:
                yield group

    def totals(self) -> dict[str, Any]:
        """Return the counts of what was read and what of it is shown."""
        totals: dict[str, Any] = {
            "lines": self.lines,
            "first_time": self.first_time,
            "last_time": self.last_time,
            "explained": self.explained,
            "harmless": self.harmless,
            "unknown_warnings_and_errors": self.unknown,
            "other": self.quiet,
        }
        if self.not_kept:
            totals["kinds_not_kept"] = self.not_kept
        return totals


def row_of_table(code: str) -> Group | None:
    """Return a row of the table of log lines by its code, as a group of no lines; None for any other text."""
    name = code.upper()
    line, cause = LOG_LINES.get(name), CAUSES.get(name)
    row = line or cause
    return Group(row.template, None, line, cause, row.template) if row is not None else None


def _exceptions(line: Line, message: str) -> Iterator[str]:
    """Yield the exceptions from the innermost to the outermost, then the frames; a line may be, or hold, one itself."""
    for exception in reversed(line.exceptions):
        yield exception[:_LONGEST_MATCHED]
    for found in _EXCEPTION.finditer(message):
        yield message[found.start() :]
    yield from line.frames
    frame = FRAME.match(message)
    if frame is not None:
        yield frame["frame"]
