"""The table of log lines that RocketMQ brokers print about their store, and the Java exceptions below them.

A line is found in it by its first characters, so that logs of any size can be read against the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from rmqstore.catalogue.logline import Cause, LogLine, Pattern
from rmqstore.catalogue.loglines import (
    causes,
    configuration,
    dispatch,
    index,
    loading,
    queues,
    recovery,
    replication,
    rocksdb,
    running,
    timer,
)

__all__ = ["CAUSES", "LOG_LINES", "Cause", "CauseMatch", "LineMatch", "LogLine", "find_cause", "find_line"]

LOG_LINES: Mapping[str, LogLine] = {
    entry.code: entry
    for entry in chain(
        loading.LINES,
        recovery.LINES,
        dispatch.LINES,
        queues.LINES,
        index.LINES,
        running.LINES,
        timer.LINES,
        replication.LINES,
        rocksdb.LINES,
        configuration.LINES,
    )
}
CAUSES: Mapping[str, Cause] = {cause.code: cause for cause in causes.CAUSES}

_KEY_LENGTH = 6
_EXCEPTION = "java."


class LineMatch(NamedTuple):
    """A line of the table, the text of it that fits, and the values by name."""

    line: LogLine
    pattern: Pattern
    values: dict[str, str]


class CauseMatch(NamedTuple):
    """An exception of the table and the values by name."""

    cause: Cause
    values: dict[str, str]


@dataclass(frozen=True)
class _Texts:
    """All texts of lines by their first characters; those that begin with a value have to be tried on every message."""

    by_key: Mapping[str, list[tuple[Pattern, LogLine]]]
    anywhere: list[tuple[Pattern, LogLine]]


@cache
def _texts() -> _Texts:
    by_key: dict[str, list[tuple[Pattern, LogLine]]] = {}
    anywhere: list[tuple[Pattern, LogLine]] = []
    for entry in LOG_LINES.values():
        for pattern in entry.patterns:
            short = len(pattern.beginning) < _KEY_LENGTH
            (anywhere if short else by_key.setdefault(pattern.beginning[:_KEY_LENGTH], [])).append((pattern, entry))
    return _Texts(by_key, anywhere)


def find_lines(message: str) -> list[LineMatch]:
    """Return every line of the table that matches a message without time and level."""
    texts = _texts()
    candidates = [*texts.by_key.get(message[:_KEY_LENGTH], ()), *texts.anywhere]
    found = []
    for pattern, entry in candidates:
        if pattern.longest_literal in message:
            match = pattern.expression.fullmatch(message)
            if match is not None:
                found.append(LineMatch(entry, pattern, match.groupdict()))
    return found


def find_line(message: str) -> LineMatch | None:
    """Return the line of the table that matches a message without time and level; None for none."""
    return next(iter(find_lines(message)), None)


def find_cause(exception: str) -> CauseMatch | None:
    """Return the cause that matches an exception (`java.io.IOException: No space left on device`); None for one not in the table."""
    if not exception.startswith(_EXCEPTION):
        return None
    for cause in CAUSES.values():
        for pattern in cause.patterns:
            match = pattern.expression.fullmatch(exception)
            if match is not None:
                return CauseMatch(cause, match.groupdict())
    return None
