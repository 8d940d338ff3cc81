"""The table of log lines that RocketMQ brokers print about their store, and the Java exceptions below them.

A line is found in it by its first characters, so that logs of any size can be read against the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from rmqstore.catalogue.logline import Cause, LogLine, Pattern, plain
from rmqstore.catalogue.loglines import (
    causes,
    client,
    configuration,
    consuming,
    dispatch,
    dledger,
    index,
    kvstores,
    loading,
    queues,
    recovery,
    replication,
    rocksdb,
    running,
    surroundings,
    tiered,
    timer,
    transactions,
)

__all__ = ["CAUSES", "LOG_LINES", "Cause", "CauseMatch", "LineMatch", "LogLine", "find_cause", "find_line", "find_pasted"]

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
        kvstores.LINES,
        dledger.LINES,
        transactions.LINES,
        consuming.LINES,
        client.LINES,
        surroundings.LINES,
        tiered.LINES,
    )
}
CAUSES: Mapping[str, Cause] = {cause.code: cause for cause in causes.CAUSES}

_KEY_LENGTH = 6
_EXCEPTION = re.compile(r"(?:[\w$]+\.)+[\w$]+|at ")
_LONGEST_PASTED = 1500
_STARTS_WITHIN = 500
_SHORTEST_AT_A_WORD = 16
"""Characters without a value that a text needs to be recognised in the middle of others, at the beginning of a word."""
_SEPARATOR = re.compile(r" - |: |\] |\| |- |\. |, |\]|\b(?:WARN|ERROR|INFO|WARNING|DEBUG|DESC:) ")
_WORD = re.compile(r"(?<![\w.$])(?=[\w\[(/])")


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

    def matches(self, message: str) -> Iterator[LineMatch]:
        """Yield every line of the table that matches a message."""
        for pattern, entry in (*self.by_key.get(message[:_KEY_LENGTH], ()), *self.anywhere):
            if pattern.longest_literal in message:
                match = pattern.expression.fullmatch(message)
                if match is not None:
                    yield LineMatch(entry, pattern, match.groupdict())


@cache
def _texts(*, loose: bool = False) -> _Texts:
    by_key: dict[str, list[tuple[Pattern, LogLine]]] = {}
    anywhere: list[tuple[Pattern, LogLine]] = []
    for entry in LOG_LINES.values():
        for pattern in (pattern.plain if loose else pattern for pattern in entry.patterns):
            short = len(pattern.beginning) < _KEY_LENGTH
            (anywhere if short else by_key.setdefault(pattern.beginning[:_KEY_LENGTH], [])).append((pattern, entry))
    return _Texts(by_key, anywhere)


def find_lines(message: str) -> list[LineMatch]:
    """Return every line of the table that matches a message without time and level."""
    return list(_texts().matches(message))


def find_line(message: str) -> LineMatch | None:
    """Return the line of the table that matches a message without time and level; None for none."""
    return next(_texts().matches(message), None)


def find_pasted(text: str) -> LineMatch | None:
    """Return the line of the table that a text holds, in any pattern of a log and as it is pasted; None for none.

    Blanks for the tab, other punctuation at the end and any text before the message are allowed. In the middle of other words
    only a text with enough words of its own is recognised.
    """
    text = plain(text[:_LONGEST_PASTED])
    texts = _texts(loose=True)
    for start in _starts(text):
        found = next(texts.matches(text[start:]), None)
        if found is not None:
            return found
    for word in _WORD.finditer(text[:_STARTS_WITHIN]):
        for pattern, entry in texts.by_key.get(text[word.start() : word.start() + _KEY_LENGTH], ()):
            if len(pattern.beginning) >= _SHORTEST_AT_A_WORD and pattern.longest_literal in text:
                match = pattern.expression.fullmatch(text, word.start())
                if match is not None:
                    return LineMatch(entry, pattern, match.groupdict())
    return None


def _starts(text: str) -> Iterator[int]:
    """Yield the positions at which a message can begin."""
    yield 0
    for separator in _SEPARATOR.finditer(text[:_STARTS_WITHIN]):
        yield separator.end()


def find_cause(exception: str) -> CauseMatch | None:
    """Return the cause that matches an exception (`java.io.IOException: No space left on device`) or a frame of its stack
    (`at org.apache.rocketmq.store.ConsumeQueue.recover(ConsumeQueue.java:1)`); None for one not in the table.
    """
    if not _EXCEPTION.match(exception):
        return None
    for cause in CAUSES.values():
        for pattern in cause.patterns:
            match = pattern.expression.fullmatch(exception)
            if match is not None:
                return CauseMatch(cause, match.groupdict())
    return None
