"""Rows of the table of log lines that resemble a line which is not in it, by the words that both have."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rmqstore.catalogue.logline import Cause, LogLine, plain
from rmqstore.catalogue.loglines import CAUSES, LOG_LINES

SHOWN = 3
_LONGEST = 1500
_LEAST_SCORE = 0.2
_WORD = re.compile(r"[a-z]{3,}")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PLACEHOLDER = re.compile(r"\{\w+\}")


class Candidate(NamedTuple):
    """A row whose text resembles a line; `score` is the share of words that both have, from 0 to 1, rare words counting more."""

    row: LogLine | Cause
    template: str
    score: float

    def as_json(self) -> dict[str, object]:
        """Return the candidate as `explain --format json` prints it."""
        return {"code": self.row.code, "score": round(self.score, 2), "template": self.template, "meaning": self.row.meaning}


def nearest(text: str) -> list[Candidate]:
    """Return the rows that resemble a text most, the best first; none if no row shares enough words with it."""
    words = _words(text[:_LONGEST])
    weights = _weights()
    most = max(weights.values(), default=1.0)
    total = sum(weights.get(word, most) for word in words)
    best: dict[str, Candidate] = {}
    for row, template, own in _rows():
        common = sum(weights[word] for word in own & words)
        score = common / (total + sum(weights[word] for word in own - words)) if common else 0.0
        if score >= _LEAST_SCORE and (row.code not in best or score > best[row.code].score):
            best[row.code] = Candidate(row, template, score)
    return sorted(best.values(), key=lambda one: -one.score)[:SHOWN]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_HUMP.sub(" ", plain(text)).lower()))


@cache
def _rows() -> tuple[tuple[LogLine | Cause, str, frozenset[str]], ...]:
    return tuple(_all_rows())


def _all_rows() -> Iterator[tuple[LogLine | Cause, str, frozenset[str]]]:
    everything: list[LogLine | Cause] = [*LOG_LINES.values(), *CAUSES.values()]
    for row in everything:
        for pattern in row.patterns:
            words = _words(_PLACEHOLDER.sub(" ", pattern.text))
            if len(words) > 1:
                yield row, pattern.text, words


@cache
def _weights() -> dict[str, float]:
    """Return how much a word says: the rarer in the table, the more."""
    count = Counter(word for _, _, words in _rows() for word in words)
    return {word: math.log(1 + len(_rows()) / number) for word, number in count.items()}
