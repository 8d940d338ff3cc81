"""Comparison of two stores as a job: the files of their logs pair by pair.

The comparison is `rmqstore.diff` alone; this module moves its inputs to the workers and its results back.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rmqstore.diff.logs import LogDifference, Pair, Passes, compare_files
from rmqstore.errors import StoreChangedError
from rmqstore.pipeline.job import MapOnly, Packet, Part, Runner, StoreAt
from rmqstore.reading.differences import shared_files
from rmqstore.reading.progress import Advance


@dataclass(frozen=True, slots=True)
class PairsJob(MapOnly):
    """The comparison of the ranges [begin, end) of two logs, each of which one file of either has."""

    one: StoreAt
    other: StoreAt
    ranges: tuple[tuple[int, int], ...]

    @property
    def parts(self) -> Sequence[Part]:
        """Return the ranges, in order."""
        return [Part(number, f"{begin} to {end}", end - begin) for number, (begin, end) in enumerate(self.ranges)]

    def map(self, part: Part, advance: Advance) -> Iterator[Packet]:
        """Yield one packet: the result, pickled. Raises UnreadableError, StoreChangedError."""
        one, other = self.one.open(), self.other.open()
        begin, end = self.ranges[part.number]
        pair = next(shared_files(one.message_log, other.message_log, begin, end), None)
        if pair is None or pair[2:] != (begin, end):
            raise StoreChangedError(f"the files of the logs changed near offset {begin}", "Run the command again when no broker runs.")
        yield Packet(part.name, 0, pickle.dumps(compare_files(one, other, pair, advance)))


def passes_of(runner: Runner, one: StoreAt, other: StoreAt) -> Passes:
    """Return the comparison of pairs of files, run by a runner."""

    def passes(pairs: Sequence[Pair], advance: Advance) -> Iterable[LogDifference]:
        job = PairsJob(one, other, tuple((low, high) for _, _, low, high in pairs))
        return [pickle.loads(data) for _, data in runner.run(job, advance)]

    return passes
