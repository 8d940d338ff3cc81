"""Pieces of a commit-log file that are read separately, and their results as that of the file.

A piece ends where the next one begins: at the first plausible record from a multiple of its size on, which each piece finds for itself.
What a scan carries from record to record is compared again where two pieces meet. Where they do not fit together, the file is read as a
whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rmqstore.findings import Finding
from rmqstore.scan.columns import Oddity
from rmqstore.scan.walk import LogScanner
from rmqstore.store.mapped import MappedFile
from rmqstore.verify.context import Context
from rmqstore.verify.index.match import IndexMatch
from rmqstore.verify.log.record_findings import EDGE_DTYPE, Neighbours
from rmqstore.verify.log.result import FileResult
from rmqstore.verify.queues.multidispatch import Deviation, Renumbered
from rmqstore.verify.queues.spans import QueueKey, joined


@dataclass(frozen=True, slots=True)
class Piece:
    """Piece `number` of `count` of a file, each of about `size` bytes."""

    number: int = 0
    count: int = 1
    size: int = 0

    @classmethod
    def all_of(cls, file: MappedFile, size: int) -> list[Piece]:
        """Return the pieces of a file."""
        count = max(-(-file.length // size), 1)
        return [cls(number, count, size) for number in range(count)]

    def bounds(self, file: MappedFile, scanner: LogScanner) -> tuple[int, int]:
        """Return the physical offsets between which its records begin. Raises UnreadableError, StoreChangedError."""
        begin = file.start if not self.number else scanner.boundary(file, file.start + self.number * self.size)
        after = self.number + 1
        return begin, file.end if after == self.count else scanner.boundary(file, file.start + after * self.size)


def fit(pieces: Sequence[FileResult]) -> bool:
    """Return whether each of these pieces, in order, was read up to where the next one begins, and the entries of the index fit as well.

    Where they do not, what a search in them finds depends on where it begins.
    """
    meet = all(before.reached == after.begin for before, after in pairwise(pieces))
    return meet and not any(piece.index.oddities or piece.index.leftovers for piece in pieces)


def whole(context: Context, pieces: Sequence[FileResult]) -> FileResult:
    """Return the results of the pieces of a file, which fit, as that of the file. The spans of queues are joined, too."""
    if len(pieces) == 1:
        return pieces[0]
    file = pieces[0].file
    result = FileResult(file, begin=file.start, reached=pieces[-1].reached, end_offset=file.start)
    renumbered: dict[Deviation, dict[QueueKey, Renumbered]] = {kind: defaultdict(Renumbered) for kind in Deviation}
    neighbours = Neighbours(context)
    for piece in pieces:
        result.findings += _where_they_meet(neighbours, piece)
        result.findings += piece.findings
        if piece.records:
            if not result.records:
                result.first_position, result.first_timestamp = piece.first_position, piece.first_timestamp
            result.end_offset, result.last_timestamp = piece.end_offset, piece.last_timestamp
            result.late = result.late + piece.late if piece.late.count == piece.records else piece.late
        result.records += piece.records
        result.last_filler = max(result.last_filler, piece.last_filler)
        result.malformed = result.malformed + piece.malformed
        result.end = piece.end or result.end
        result.damages += piece.damages
        result.moved += piece.moved
        result.batch_matched += piece.batch_matched
        for kind, queues in piece.renumbered.items():
            for key, one in queues.items():
                renumbered[kind][key].note(one.position, one.number, one.place, one.count)
        result.commits += piece.commits
        result.unreadable.update(piece.unreadable)
        result.hosts += piece.hosts
        result.odd_hosts += piece.odd_hosts
    result.findings.sort(key=place_in_log)
    result.odd_hosts = sorted(result.odd_hosts + neighbours.odd_hosts)
    result.renumbered = renumbered
    result.spans = joined(piece.spans for piece in pieces)
    result.index = _index([piece.index for piece in pieces])
    return result


def place_in_log(finding: Finding) -> int:
    """Return where in the log a finding belongs, those without a place first."""
    return -1 if finding.offset is None else finding.offset


def _where_they_meet(neighbours: Neighbours, piece: FileResult) -> list[Finding]:
    """Return findings about the first records of a piece, compared with the last ones before."""
    records = np.array(piece.first_records, EDGE_DTYPE)
    found: list[Finding] = []
    if neighbours.last_records and records.size:
        found += neighbours.check(records, Oddity.TIME_GOES_BACK | Oddity.HOST_CHANGES)
    if piece.records > records.size or not neighbours.last_records:
        neighbours.last_records = piece.last_records
    return found


def _index(matches: Sequence[IndexMatch]) -> IndexMatch:
    """Return comparisons of the index with consecutive records as one; all entries fit."""
    result = IndexMatch()
    for match in matches:
        result.matched += match.matched
        result.between_position = result.between_position if result.between else match.between_position
        result.behind_position = result.behind_position if result.behind else match.behind_position
        result.before += match.before
        result.between += match.between
        result.behind += match.behind
        if result.first_key_position < 0:
            result.first_key_position = match.first_key_position
    return result
